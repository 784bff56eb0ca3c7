//! The tools of a request, and which of them the answer may or must call, as a chat has them.
//!
//! - Tools that OpenAI's servers run are left out: agents offer them of their own accord, and go on without.
//!   A choice of one is refused, and so is every other tool that is no function and does not become one.
//! - What a search for tools has found is offered, too, see [`super::tool_search`].
//! - Codex sends its tools to OpenAI's newest models as an item of the input, and may send them again when they
//!   have changed: of two with one name the later one counts.

use serde_json::{Map, Value, json};

use super::client_tools::{SEARCH, function_name};
use super::paths::Paths;
use super::{local_shell, tool_search};
use crate::error::ApiError;
use crate::wire::fields::{Fields, unsupported};
use crate::wire::freeform;
use crate::wire::tools::{MAX_NAME_BYTES, MAX_TOOLS};

/// The type of items that are tools and no message.
pub const ADDITIONAL: &str = "additional_tools";

/// What the types of tools that OpenAI's servers run begin with. Some have a date behind it.
const HOSTED: [&str; 8] = [
    "code_interpreter",
    "computer",
    "file_search",
    "image_generation",
    "mcp",
    "programmatic_tool_calling",
    "tool_search",
    "web_search",
];

/// The tools that the prompt offers.
#[derive(Debug, Default)]
pub struct Offered {
    /// `tools` of a chat.
    pub functions: Vec<Value>,
    /// The tools as the client sent them, which the response repeats.
    pub echo: Vec<Value>,
    /// A tool takes the place of an earlier one of its name.
    replaces: bool,
}

/// Reads `tools`, and those among the items of the input.
///
/// # Errors
/// Names the wrong tool.
pub fn tools(fields: &Fields<'_>, input: &Value, paths: &mut Paths) -> Result<Offered, ApiError> {
    let mut offered = Offered::default();
    offered.add_all(fields, paths)?;
    offered.replaces = true;
    for (n, item) in input.as_array().into_iter().flatten().enumerate() {
        if item["type"] == ADDITIONAL || item["type"] == tool_search::OUTPUT {
            let path = format!("input[{n}]");
            offered.add_all(&Fields::of(item, &path)?, paths)?;
        }
    }
    Ok(offered)
}

impl Offered {
    /// `holder`: has a list `tools`.
    fn add_all(&mut self, holder: &Fields<'_>, paths: &mut Paths) -> Result<(), ApiError> {
        for (n, sent) in holder.list("tools")?.into_iter().flatten().enumerate() {
            let path = holder.path(&format!("tools[{n}]"));
            let tool = Fields::of(sent, &path)?;
            let kind = tool.required_string("type")?;
            let is_search = kind == SEARCH && tool_search::is_of_client(sent);
            if is_search || !is_hosted(kind) {
                self.add(&tool, &path, None, paths)?;
                self.echo.push(sent.clone());
            }
        }
        Ok(())
    }

    /// `namespace`: that of the tool.
    fn add(
        &mut self,
        tool: &Fields<'_>,
        path: &str,
        namespace: Option<&str>,
        paths: &mut Paths,
    ) -> Result<(), ApiError> {
        let function = match (tool.required_string("type")?, namespace) {
            ("function", _) => function(tool, namespace)?,
            ("custom", _) => {
                freeform::function(&function_name(namespace, tool.required_string("name")?), tool)?
            }
            (local_shell::NAME, None) => local_shell::function(),
            (SEARCH, None) => tool_search::function(tool)?,
            ("namespace", None) => {
                let name = tool.required_string("name")?;
                if name.len() > MAX_NAME_BYTES {
                    // Each of its functions has a copy.
                    let path = tool.path("name");
                    let message = format!("`{path}` may have {MAX_NAME_BYTES} bytes");
                    return Err(ApiError::field(path, message));
                }
                tool.required("tools")?;
                for (n, within) in tool.list("tools")?.into_iter().flatten().enumerate() {
                    let path = tool.path(&format!("tools[{n}]"));
                    self.add(&Fields::of(within, &path)?, &path, Some(name), paths)?;
                }
                return Ok(());
            }
            (other, _) => {
                let message = format!(
                    "tools of type `{}` are not supported, only functions, custom tools and the local shell",
                    other.escape_debug()
                );
                return Err(unsupported(tool.path("type"), message));
            }
        };
        let has_its_name = |known: &Value| known["function"]["name"] == function["name"];
        let mut known = self.functions.iter();
        let earlier = if self.replaces { known.position(has_its_name) } else { None };
        let at = earlier.unwrap_or(self.functions.len());
        if at == MAX_TOOLS {
            let message = format!("`tools` may have {MAX_TOOLS} entries");
            return Err(ApiError::field("tools", message));
        }
        paths.add(format!("tools[{at}]"), path);
        paths.add(format!("tools[{at}].function"), path);
        let function = json!({"type": "function", "function": function});
        match self.functions.get_mut(at) {
            Some(known) => *known = function,
            None => self.functions.push(function),
        }
        Ok(())
    }
}

fn function(tool: &Fields<'_>, namespace: Option<&str>) -> Result<Value, ApiError> {
    let named = ["name", "description", "parameters", "strict"];
    let set = named.into_iter().filter_map(|name| Some((name.into(), tool.get(name)?.clone())));
    let mut function: Map<String, Value> = set.collect();
    if namespace.is_some() {
        let name = function_name(namespace, tool.required_string("name")?);
        function.insert("name".into(), name.into());
    }
    Ok(function.into())
}

fn is_hosted(kind: &str) -> bool {
    HOSTED.iter().any(|hosted| kind.starts_with(hosted))
}

/// `tool_choice` of a chat.
///
/// # Errors
/// When it names something that the answer cannot call.
pub fn tool_choice(fields: &Fields<'_>, paths: &mut Paths) -> Result<Option<Value>, ApiError> {
    let Some(value @ Value::Object(_)) = fields.get("tool_choice") else {
        return Ok(fields.get("tool_choice").cloned());
    };
    let choice = Fields::of(value, "tool_choice")?;
    match choice.required_string("type")? {
        "function" | "custom" | local_shell::NAME => Ok(Some(chosen(&choice)?)),
        kind @ "allowed_tools" => {
            let mode = choice.required_string("mode")?;
            let tools = allowed(&choice, paths)?;
            Ok(Some(json!({"type": kind, kind: {"mode": mode, "tools": tools}})))
        }
        hosted if is_hosted(hosted) => {
            let message =
                format!("hobd does not run `{}`: choose another tool", hosted.escape_debug());
            Err(unsupported("tool_choice.type", message))
        }
        other => {
            let message = format!(
                "`tool_choice` must be none, auto, required, a function, a custom tool or allowed_tools, not `{}`",
                other.escape_debug()
            );
            Err(unsupported("tool_choice.type", message))
        }
    }
}

/// A tool by its name, as a chat has it.
fn chosen(fields: &Fields<'_>) -> Result<Value, ApiError> {
    let name = match fields.required_string("type")? {
        local_shell::NAME => local_shell::NAME.to_owned(),
        _ => function_name(fields.string("namespace")?, fields.required_string("name")?),
    };
    Ok(json!({"type": "function", "function": {"name": name}}))
}

fn allowed(choice: &Fields<'_>, paths: &mut Paths) -> Result<Vec<Value>, ApiError> {
    const OF_CHAT: &str = "tool_choice.allowed_tools";
    paths.add(OF_CHAT.to_owned(), "tool_choice");
    choice.required("tools")?;
    let mut tools = Vec::new();
    for (n, tool) in choice.list("tools")?.into_iter().flatten().enumerate() {
        let path = format!("tool_choice.tools[{n}]");
        let tool = Fields::of(tool, &path)?;
        match tool.required_string("type")? {
            "function" | "custom" | local_shell::NAME => {}
            other if is_hosted(other) => continue,
            _ => {
                let message = "only functions, custom tools and the local shell can be called";
                return Err(unsupported(tool.path("type"), message));
            }
        }
        paths.add(format!("{OF_CHAT}.tools[{}].function", tools.len()), &path);
        tools.push(chosen(&tool)?);
    }
    Ok(tools)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(body: &Value) -> Result<(Vec<Value>, Option<Value>), ApiError> {
        let fields = Fields::of_body(body)?;
        let mut paths = Paths::new();
        let tools = tools(&fields, &body["input"], &mut paths)?.functions;
        Ok((tools, tool_choice(&fields, &mut paths)?))
    }

    fn function(name: &str) -> Value {
        json!({"type": "function", "name": name, "parameters": {"type": "object"}})
    }

    fn formatted(format: Value) -> Value {
        json!({"type": "custom", "name": "x", "format": format})
    }

    fn grammar(syntax: &str, definition: &str) -> Value {
        formatted(json!({"type": "grammar", "syntax": syntax, "definition": definition}))
    }

    #[test]
    fn a_custom_tool_is_a_function_with_one_text() {
        let plain = json!({"type": "custom", "name": "x", "description": "Does."});
        let body = json!({
            "tools": [plain, {"type": "namespace", "name": "n", "tools": [grammar("regex", "a+")]},
                      {"type": "namespace", "name": "m", "tools": [grammar("lark", "start: /a+/")]}],
            "tool_choice": {"type": "custom", "name": "x"},
        });
        let (tools, choice) = read(&body).unwrap();
        let parameters = |input: Value| {
            json!({"type": "object", "properties": {"input": input}, "required": ["input"],
                   "additionalProperties": false})
        };
        let free = parameters(json!({"type": "string"}));
        let bound = parameters(json!({"type": "string", "pattern": "^(?:a+)$"}));
        assert_eq!(
            tools[0]["function"],
            json!({"name": "x", "description": "Does.", "parameters": free})
        );
        assert_eq!(
            tools[1]["function"],
            json!({"name": "n__x", "parameters": bound, "strict": true})
        );
        let bound = parameters(json!({"type": "string", "pattern": "^(?:(?:(?:a+)))$"}));
        assert_eq!(tools[2]["function"]["parameters"], bound);
        assert_eq!(choice, Some(json!({"type": "function", "function": {"name": "x"}})));
        let (tools, _) = read(&json!({"tools": [formatted(json!({"type": "text"}))]})).unwrap();
        assert_eq!(tools[0]["function"]["parameters"], free);
    }

    #[test]
    fn functions_are_those_of_a_chat_and_hosted_tools_are_left_out() {
        let web = json!({"type": "web_search_preview_2025_03_11"});
        let body = json!({"tools": [web, function("f"), {"type": "mcp", "server_label": "x"}],
                          "tool_choice": {"type": "function", "name": "f"}});
        let (tools, choice) = read(&body).unwrap();
        let expected = json!({"name": "f", "parameters": {"type": "object"}});
        assert_eq!(tools, [json!({"type": "function", "function": expected})]);
        assert_eq!(choice, Some(json!({"type": "function", "function": {"name": "f"}})));
    }

    #[test]
    fn the_functions_of_a_namespace_have_its_name_in_front() {
        let home = json!({"type": "namespace", "name": "home", "description": "Lamps.",
                          "tools": [function("f")]});
        let choice = json!({"type": "function", "name": "f", "namespace": "home"});
        let body = json!({"tools": [function("f"), home], "tool_choice": choice});
        let (tools, choice) = read(&body).unwrap();
        let names: Vec<&Value> = tools.iter().map(|tool| &tool["function"]["name"]).collect();
        assert_eq!(names, ["f", "home__f"]);
        assert_eq!(choice, Some(json!({"type": "function", "function": {"name": "home__f"}})));
    }

    #[test]
    fn the_allowed_tools_are_named_as_in_a_chat() {
        let allowed = json!([{"type": "web_search"}, {"type": "function", "name": "g"}]);
        let choice = json!({"type": "allowed_tools", "mode": "required", "tools": allowed});
        let body = json!({"tools": [function("f"), function("g")], "tool_choice": choice});
        let (tools, choice) = read(&body).unwrap();
        assert_eq!(tools.len(), 2, "the prompt stays the same");
        let named = json!({"type": "function", "function": {"name": "g"}});
        let allowed = json!({"mode": "required", "tools": [named]});
        assert_eq!(choice, Some(json!({"type": "allowed_tools", "allowed_tools": allowed})));
    }

    #[test]
    fn what_is_no_function_is_named() {
        let of = |tool: Value| json!({"tools": [function("f"), tool]});
        let choice = |choice: Value| json!({"tools": [function("f")], "tool_choice": choice});
        for (body, param) in [
            (of(json!({"type": "shell"})), "tools[1].type"),
            (of(json!({"type": "custom"})), "tools[1].name"),
            (of(formatted(json!({"type": "json"}))), "tools[1].format.type"),
            (of(grammar("ebnf", "a")), "tools[1].format.syntax"),
            (of(grammar("lark", "start: \"(\" start \")\"")), "tools[1].format.definition"),
            (of(grammar("regex", "(?=a)")), "tools[1].format.definition"),
            (choice(json!({"type": "custom"})), "tool_choice.name"),
            (of(json!({"type": "namespace", "name": "home"})), "tools[1].tools"),
            (
                of(json!({"type": "namespace", "name": "n".repeat(129), "tools": [function("g")]})),
                "tools[1].name",
            ),
            (
                of(json!({"type": "namespace", "name": "n", "tools": vec![function("g"); 256]})),
                "tools",
            ),
            (
                of(json!({"type": "namespace", "name": "a", "tools": [
                    {"type": "namespace", "name": "b", "tools": []}]})),
                "tools[1].tools[0].type",
            ),
            (choice(json!({"type": "file_search"})), "tool_choice.type"),
            (choice(json!({"type": "shell"})), "tool_choice.type"),
            (choice(json!({"type": "function"})), "tool_choice.name"),
            (choice(json!({"type": "allowed_tools", "mode": "auto"})), "tool_choice.tools"),
            (
                choice(json!({"type": "allowed_tools", "mode": "auto",
                              "tools": [{"type": "shell"}]})),
                "tool_choice.tools[0].type",
            ),
        ] {
            let error = read(&body).expect_err(&body.to_string());
            assert_eq!(error.param.as_deref(), Some(param), "{body}");
        }
    }
}
