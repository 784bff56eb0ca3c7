//! The tools that a request offers, and which of them its answer may or must call.
//!
//! - The prompt offers functions alone: one stands for a custom tool, see [`super::freeform`].

use serde_json::{Value, json};

use super::fields::{Fields, unsupported};
use super::freeform;
use crate::error::ApiError;

pub const MAX_TOOLS: usize = 256;
pub const MAX_NAME_BYTES: usize = 128;

/// The choice among some of the tools.
const ALLOWED: &str = "allowed_tools";

const FUNCTION: &str = "function";
pub const CUSTOM: &str = "custom";

#[derive(Clone, Debug, PartialEq)]
pub struct Tool {
    pub name: String,
    /// The whole object of the function, as the client wrote it.
    pub definition: Value,
    /// Parameters of the tool that the grammar cannot follow are refused.
    pub is_strict: bool,
    /// The client reads and writes its calls with a text in place of arguments.
    pub is_custom: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToolChoice {
    None,
    /// The model decides.
    Auto,
    /// The answer is at least one call.
    Required,
    /// The answer is a call of this tool.
    Named(String),
}

impl Tool {
    /// Checks the list of tools at `path`.
    pub fn list(list: &[Value], path: &str) -> Result<Vec<Self>, ApiError> {
        if list.len() > MAX_TOOLS {
            let message = format!("`{path}` may have {MAX_TOOLS} entries, not {}", list.len());
            return Err(ApiError::field(path, message));
        }
        let mut tools: Vec<Self> = Vec::with_capacity(list.len());
        for (n, definition) in list.iter().enumerate() {
            let path = format!("{path}[{n}]");
            let tool = tool(definition, &path)?;
            if tools.iter().any(|known| known.name == tool.name) {
                let path = format!("{path}.{}.name", tool.kind());
                let message = format!("`{path}` is the name of an earlier tool, too: rename one");
                return Err(ApiError::field(path, message));
            }
            tools.push(tool);
        }
        Ok(tools)
    }

    /// The whole object of the function, for chat templates: many read its description and its parameters,
    /// and fail where the client has left them out.
    pub fn for_template(&self) -> Value {
        let mut definition = self.definition.clone();
        if let Some(function) = definition.get_mut(FUNCTION).and_then(Value::as_object_mut) {
            let none = json!({"type": "object", "properties": {}});
            for (name, value) in [("description", json!("")), ("parameters", none)] {
                if function.get(name).is_none_or(Value::is_null) {
                    function.insert(name.to_owned(), value);
                }
            }
        }
        definition
    }

    /// The client's type of it, which is the field with its name, too.
    fn kind(&self) -> &'static str {
        if self.is_custom { CUSTOM } else { FUNCTION }
    }
}

/// The tools of the profile, then those of the request. A client may repeat a tool of the profile.
pub(super) fn with_own(profile: &[Tool], own: Vec<Tool>) -> Result<Vec<Tool>, ApiError> {
    let mut tools = profile.to_vec();
    for (n, tool) in own.into_iter().enumerate() {
        match profile.iter().find(|known| known.name == tool.name) {
            Some(known) if *known == tool => {}
            Some(_) => {
                let path = format!("tools[{n}].{}.name", tool.kind());
                let message = format!("`{path}` is that of another tool of the profile: rename it");
                return Err(ApiError::field(path, message));
            }
            None => tools.push(tool),
        }
    }
    if tools.len() > MAX_TOOLS {
        let message = format!("with those of the profile, `tools` has {} entries", tools.len());
        return Err(ApiError::field("tools", format!("{message}, the maximum is {MAX_TOOLS}")));
    }
    Ok(tools)
}

fn tool(definition: &Value, path: &str) -> Result<Tool, ApiError> {
    let fields = Fields::of(definition, path)?;
    let kind = kind(&fields)?;
    let own_path = fields.path(kind);
    let own = Fields::of(fields.required(kind)?, &own_path)?;
    let name = own.required_string("name")?;
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | ':');
    if name.is_empty() || name.len() > MAX_NAME_BYTES || !name.chars().all(plain) {
        let message = "a tool's name has 1 to 128 letters, digits, `_`, `-`, `.` or `:`";
        return Err(ApiError::field(own.path("name"), message));
    }
    own.string("description")?;
    let name = name.to_owned();
    if kind == CUSTOM {
        let function = freeform::function(&name, &own)?;
        let is_strict = function["strict"] == true;
        let definition = json!({"type": FUNCTION, FUNCTION: function});
        return Ok(Tool { name, definition, is_strict, is_custom: true });
    }
    own.map("parameters")?;
    let is_strict = own.boolean("strict")?.unwrap_or(false);
    Ok(Tool { name, definition: definition.clone(), is_strict, is_custom: false })
}

/// The type of a tool.
fn kind(tool: &Fields<'_>) -> Result<&'static str, ApiError> {
    match tool.required_string("type")? {
        FUNCTION => Ok(FUNCTION),
        CUSTOM => Ok(CUSTOM),
        _ => {
            let message = "only tools of the types `function` and `custom` exist";
            Err(unsupported(tool.path("type"), message))
        }
    }
}

pub(super) fn tool_choice(fields: &Fields<'_>, tools: &[Tool]) -> Result<ToolChoice, ApiError> {
    let choice = match fields.get("tool_choice") {
        None if tools.is_empty() => ToolChoice::None,
        None => ToolChoice::Auto,
        Some(Value::String(word)) => match word.as_str() {
            "none" => ToolChoice::None,
            "auto" if tools.is_empty() => ToolChoice::None,
            "auto" => ToolChoice::Auto,
            "required" => ToolChoice::Required,
            _ => return Err(unknown_choice()),
        },
        Some(object) => named_choice(object, tools)?,
    };
    if tools.is_empty() && choice != ToolChoice::None {
        return Err(ApiError::field("tool_choice", "`tool_choice` needs `tools`"));
    }
    Ok(choice)
}

fn named_choice(object: &Value, tools: &[Tool]) -> Result<ToolChoice, ApiError> {
    let fields = Fields::of(object, "tool_choice")?;
    match fields.required_string("type")? {
        FUNCTION | CUSTOM => Ok(ToolChoice::Named(named(&fields, tools)?)),
        ALLOWED => {
            let allowed = Fields::of(fields.required(ALLOWED)?, "tool_choice.allowed_tools")?;
            match allowed.required_string("mode")? {
                "auto" => Ok(ToolChoice::Auto),
                "required" => Ok(ToolChoice::Required),
                _ => {
                    let path = allowed.path("mode");
                    let message = format!("`{path}` must be auto or required");
                    Err(ApiError::field(path, message))
                }
            }
        }
        _ => Err(unknown_choice()),
    }
}

/// The name of a tool that is one of `tools`.
fn named(fields: &Fields<'_>, tools: &[Tool]) -> Result<String, ApiError> {
    let kind = kind(fields)?;
    let path = fields.path(kind);
    let function = Fields::of(fields.required(kind)?, &path)?;
    let name = function.required_string("name")?;
    if !tools.iter().any(|tool| tool.name == name) {
        let path = function.path("name");
        let message = format!("`{path}` is the name of none of the `tools`");
        return Err(ApiError::field(path, message));
    }
    Ok(name.to_owned())
}

/// The names of the offered tools that the answer may call; `None`: all. The prompt stays the same, and so does its
/// KV.
pub(super) fn allowed_tools(
    fields: &Fields<'_>,
    tools: &[Tool],
) -> Result<Option<Vec<String>>, ApiError> {
    let Some(choice @ Value::Object(_)) = fields.get("tool_choice") else { return Ok(None) };
    if choice["type"] != ALLOWED {
        return Ok(None);
    }
    let choice = Fields::of(choice, "tool_choice")?;
    let allowed = Fields::of(choice.required(ALLOWED)?, "tool_choice.allowed_tools")?;
    allowed.required("tools")?;
    let mut names = Vec::new();
    for (n, tool) in allowed.list("tools")?.into_iter().flatten().enumerate() {
        let path = format!("tool_choice.allowed_tools.tools[{n}]");
        names.push(named(&Fields::of(tool, &path)?, tools)?);
    }
    if names.is_empty() {
        let path = allowed.path("tools");
        return Err(ApiError::field(&path, format!("`{path}` must not be empty")));
    }
    Ok(Some(names))
}

/// Clients send the name of a tool in its place, so it is not repeated.
fn unknown_choice() -> ApiError {
    const MESSAGE: &str =
        "`tool_choice` must be none, auto, required, a function, a custom tool or allowed_tools";
    ApiError::field("tool_choice", MESSAGE)
}
