//! `/v1/chat/completions`: the request, checked.

use hob_prewarm::ProfileName;
use hob_slots::TtlClass;
use serde_json::{Map, Value};

use super::fields::{Fields, unsupported, wrong_type};
use super::message::Message;
use super::sampling::{Shape, refuse};
use crate::conversations::transcript::After;
use crate::error::ApiError;

const MAX_TOP_LOGPROBS: i64 = 20;
pub const MAX_TOOLS: usize = 256;

#[derive(Clone, Debug)]
pub struct ChatRequest {
    /// The history, or, with `append`, only the new messages.
    pub messages: Vec<Message>,
    /// `messages` continue the saved conversation.
    pub append: bool,
    /// Where an append continues; `None`: after the last message.
    pub after: Option<After>,
    /// Leave out the oldest messages, for this prompt and later ones, if not all fit.
    pub newest: bool,
    /// Reuse no KV for this answer.
    pub cold: bool,
    pub shape: Shape,
    /// `Some(n)`: report log-probabilities, and those of the `n` likeliest tokens.
    pub logprobs: Option<usize>,
    pub format: ResponseFormat,
    /// Those of the profile, then those of the request.
    pub tools: Vec<Tool>,
    pub tool_choice: ToolChoice,
    /// An answer may have several calls.
    pub parallel_tool_calls: bool,
    pub template_variables: Map<String, Value>,
    /// The TTL class of the conversation's saved KV.
    pub ttl: Option<TtlClass>,
    /// Whether the KV must stay in memory; `None`: as before.
    pub in_memory: Option<bool>,
    /// Neither text nor KV may reach the disk.
    pub private: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub enum ResponseFormat {
    Text,
    /// Any JSON object.
    JsonObject,
    /// JSON that matches the schema.
    JsonSchema(Value),
}

#[derive(Clone, Debug, PartialEq)]
pub struct Tool {
    pub name: String,
    /// The whole object, for the template.
    pub definition: Value,
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

impl ChatRequest {
    /// Checks a body without a profile. `vocabulary`: the number of tokens.
    pub fn parse(body: &Value, vocabulary: usize) -> Result<Self, ApiError> {
        Self::parse_with(body, vocabulary, &[])
    }

    /// Checks a body whose profile has `tools`.
    pub fn parse_with(body: &Value, vocabulary: usize, tools: &[Tool]) -> Result<Self, ApiError> {
        let fields = Fields::of_body(body)?;
        refuse(
            &fields,
            &[
                ("functions", "use `tools`"),
                ("function_call", "use `tool_choice`"),
                ("audio", "Hob speaks text"),
                ("web_search_options", "Hob reaches no network"),
            ],
        )?;
        let append = append(&fields)?;
        let own = Tool::list(fields.list("tools")?.map_or(&[][..], Vec::as_slice), "tools")?;
        let tools = with_own(tools, own)?;
        Ok(Self {
            messages: messages(&fields, append)?,
            append,
            after: after(&fields, append)?,
            newest: newest(&fields, append)?,
            cold: cold(&fields)?,
            shape: Shape::parse(&fields, vocabulary)?,
            logprobs: logprobs(&fields)?,
            format: format(&fields)?,
            tool_choice: tool_choice(&fields, &tools)?,
            tools,
            parallel_tool_calls: fields.boolean("parallel_tool_calls")?.unwrap_or(true),
            template_variables: template_variables(&fields)?,
            ttl: ttl(&fields)?,
            in_memory: in_memory(&fields)?,
            private: private(&fields)?,
        })
    }
}

const KNOWN: [&str; 7] = ["after", "append", "cold", "newest", "private", "profile", "ttl"];

/// Hob's extension of OpenAI's request.
fn hob<'a>(fields: &Fields<'a>) -> Result<Option<Fields<'a>>, ApiError> {
    let Some(hob) = fields.get("hob") else { return Ok(None) };
    let hob = Fields::of(hob, "hob")?;
    let unknown = |name: &&String| !KNOWN.contains(&name.as_str());
    if let Some(unknown) = hob.object().keys().find(unknown) {
        let path = hob.path(&unknown.escape_debug().to_string());
        let message = format!("`hob` knows only `{}`", KNOWN.join("`, `"));
        return Err(unsupported(path, message));
    }
    Ok(Some(hob))
}

fn append(fields: &Fields<'_>) -> Result<bool, ApiError> {
    let Some(hob) = hob(fields)? else { return Ok(false) };
    Ok(hob.boolean("append")?.unwrap_or(false))
}

fn cold(fields: &Fields<'_>) -> Result<bool, ApiError> {
    let Some(hob) = hob(fields)? else { return Ok(false) };
    Ok(hob.boolean("cold")?.unwrap_or(false))
}

fn newest(fields: &Fields<'_>, append: bool) -> Result<bool, ApiError> {
    let Some(hob) = hob(fields)? else { return Ok(false) };
    let newest = hob.boolean("newest")?.unwrap_or(false);
    if newest && !append {
        return Err(ApiError::field("hob.newest", "`hob.newest` needs `hob.append: true`"));
    }
    Ok(newest)
}

/// `hob.private`, or OpenAI's `store: false`.
fn private(fields: &Fields<'_>) -> Result<bool, ApiError> {
    let ours = match hob(fields)? {
        Some(hob) => hob.boolean("private")?,
        None => None,
    };
    let store = fields.boolean("store")?;
    Ok(ours.unwrap_or(false) || store == Some(false))
}

/// Whether the request says that its KV stays in memory, or gives it a TTL class on disk.
fn in_memory(fields: &Fields<'_>) -> Result<Option<bool>, ApiError> {
    let is_ours = hob(fields)?.is_some_and(|hob| hob.get("ttl").is_some());
    let retention = fields.string("prompt_cache_retention")?;
    let in_memory = retention.map(|retention| retention != "24h");
    Ok(if is_ours { Some(false) } else { in_memory })
}

fn after(fields: &Fields<'_>, append: bool) -> Result<Option<After>, ApiError> {
    let Some(hob) = hob(fields)? else { return Ok(None) };
    let Some(id) = hob.integer("after", 0..=i64::MAX)? else { return Ok(None) };
    if !append {
        return Err(ApiError::field("hob.after", "`hob.after` needs `hob.append: true`"));
    }
    Ok(Some(if id == 0 { After::Nothing } else { After::Message(id) }))
}

/// Which profile a request asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProfileChoice {
    /// It says nothing: the default profile, where there is one.
    Default,
    None,
    Named(ProfileName),
}

/// Reads `hob.profile`.
pub fn profile_choice(body: &Value) -> Result<ProfileChoice, ApiError> {
    let name = match hob(&Fields::of_body(body)?)? {
        Some(hob) => hob.string("profile")?,
        None => None,
    };
    match name {
        None => Ok(ProfileChoice::Default),
        Some(ProfileName::NONE) => Ok(ProfileChoice::None),
        Some(name) => match name.parse() {
            Ok(name) => Ok(ProfileChoice::Named(name)),
            Err(error) => Err(ApiError::field("hob.profile", format!("{error}"))),
        },
    }
}

/// Reads `hob.ttl`, or OpenAI's `prompt_cache_retention`.
fn ttl(fields: &Fields<'_>) -> Result<Option<TtlClass>, ApiError> {
    let ours = match hob(fields)? {
        Some(hob) => hob.string("ttl")?,
        None => None,
    };
    if let Some(class) = ours {
        let parsed = class.parse::<TtlClass>();
        return parsed.map(Some).map_err(|error| ApiError::field("hob.ttl", error.to_string()));
    }
    match fields.string("prompt_cache_retention")? {
        None => Ok(None),
        Some("in_memory" | "in-memory") => Ok(Some(TtlClass::Long)),
        Some("24h") => Ok(Some(TtlClass::Extended)),
        Some(other) => {
            let name = "prompt_cache_retention";
            let other = other.escape_debug();
            Err(ApiError::field(name, format!("`{name}` must be in_memory or 24h, not `{other}`")))
        }
    }
}

/// An append without messages answers the last message again.
fn messages(fields: &Fields<'_>, append: bool) -> Result<Vec<Message>, ApiError> {
    let value = fields.required("messages")?;
    let list =
        value.as_array().ok_or_else(|| wrong_type("messages", "an array of messages", value))?;
    if list.is_empty() && !append {
        return Err(ApiError::field("messages", "`messages` must not be empty"));
    }
    let parse = |(n, message)| Message::parse(message, &format!("messages[{n}]"));
    list.iter().enumerate().map(parse).collect()
}

fn logprobs(fields: &Fields<'_>) -> Result<Option<usize>, ApiError> {
    let wanted = fields.boolean("logprobs")?.unwrap_or(false);
    let top = fields.integer("top_logprobs", 0..=MAX_TOP_LOGPROBS)?;
    if top.is_some() && !wanted {
        return Err(ApiError::field("top_logprobs", "`top_logprobs` needs `logprobs: true`"));
    }
    Ok(wanted.then_some(top.unwrap_or(0) as usize))
}

fn format(fields: &Fields<'_>) -> Result<ResponseFormat, ApiError> {
    let Some(format) = fields.get("response_format") else { return Ok(ResponseFormat::Text) };
    let format = Fields::of(format, "response_format")?;
    match format.required_string("type")? {
        "text" => Ok(ResponseFormat::Text),
        "json_object" => Ok(ResponseFormat::JsonObject),
        "json_schema" => {
            let path = format.path("json_schema");
            let described = Fields::of(format.required("json_schema")?, &path)?;
            described.string("name")?;
            let schema = described.required("schema")?;
            match schema {
                Value::Object(_) | Value::Bool(_) => Ok(ResponseFormat::JsonSchema(schema.clone())),
                other => Err(wrong_type(&described.path("schema"), "a JSON schema", other)),
            }
        }
        other => Err(ApiError::field(
            "response_format.type",
            format!(
                "`response_format.type` must be text, json_object or json_schema, not `{}`",
                other.escape_debug()
            ),
        )),
    }
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
                let message = format!("`{path}` is a second tool of the name `{}`", tool.name);
                return Err(ApiError::field(format!("{path}.function.name"), message));
            }
            tools.push(tool);
        }
        Ok(tools)
    }
}

/// The tools of the profile, then those of the request. A client may repeat a tool of the profile.
fn with_own(profile: &[Tool], own: Vec<Tool>) -> Result<Vec<Tool>, ApiError> {
    let mut tools = profile.to_vec();
    for (n, tool) in own.into_iter().enumerate() {
        match profile.iter().find(|known| known.name == tool.name) {
            Some(known) if *known == tool => {}
            Some(_) => {
                let message = format!("the profile has another tool of the name `{}`", tool.name);
                return Err(ApiError::field(format!("tools[{n}].function.name"), message));
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
    if fields.required_string("type")? != "function" {
        return Err(unsupported(fields.path("type"), "only tools of type `function` exist"));
    }
    let function_path = fields.path("function");
    let function = Fields::of(fields.required("function")?, &function_path)?;
    let name = function.required_string("name")?;
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | ':');
    if name.is_empty() || name.len() > 128 || !name.chars().all(plain) {
        let message = "a tool's name has 1 to 128 letters, digits, `_`, `-`, `.` or `:`";
        return Err(ApiError::field(function.path("name"), message));
    }
    function.string("description")?;
    function.map("parameters")?;
    Ok(Tool { name: name.to_owned(), definition: definition.clone() })
}

fn tool_choice(fields: &Fields<'_>, tools: &[Tool]) -> Result<ToolChoice, ApiError> {
    let choice = match fields.get("tool_choice") {
        None if tools.is_empty() => ToolChoice::None,
        None => ToolChoice::Auto,
        Some(Value::String(word)) => match word.as_str() {
            "none" => ToolChoice::None,
            "auto" if tools.is_empty() => ToolChoice::None,
            "auto" => ToolChoice::Auto,
            "required" => ToolChoice::Required,
            other => return Err(unknown_choice(other)),
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
    let kind = fields.required_string("type")?;
    if kind != "function" {
        return Err(unknown_choice(kind));
    }
    let function = Fields::of(fields.required("function")?, "tool_choice.function")?;
    let name = function.required_string("name")?;
    if !tools.iter().any(|tool| tool.name == name) {
        let message = format!("no tool has the name `{}`", name.escape_debug());
        return Err(ApiError::field("tool_choice.function.name", message));
    }
    Ok(ToolChoice::Named(name.to_owned()))
}

fn unknown_choice(got: &str) -> ApiError {
    let got = got.escape_debug();
    let message = format!("`tool_choice` must be none, auto, required or a function, not `{got}`");
    ApiError::field("tool_choice", message)
}

/// `chat_template_kwargs`, as other servers call them, and OpenAI's `reasoning_effort`.
fn template_variables(fields: &Fields<'_>) -> Result<Map<String, Value>, ApiError> {
    let mut variables = fields.map("chat_template_kwargs")?.cloned().unwrap_or_default();
    if let Some(effort) = fields.string("reasoning_effort")? {
        variables.entry("reasoning_effort").or_insert_with(|| effort.into());
    }
    Ok(variables)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn with(extra: Value) -> Result<ChatRequest, ApiError> {
        let mut body = json!({"messages": [{"role": "user", "content": "Hi"}]});
        for (name, value) in extra.as_object().unwrap() {
            body[name] = value.clone();
        }
        ChatRequest::parse(&body, 100)
    }

    fn tool(name: &str) -> Value {
        json!({"type": "function", "function": {"name": name, "parameters": {"type": "object"}}})
    }

    #[test]
    fn the_choice_is_automatic_with_tools() {
        assert_eq!(with(json!({})).unwrap().tool_choice, ToolChoice::None);
        let request = with(json!({"tools": [tool("f")]})).unwrap();
        assert_eq!(request.tool_choice, ToolChoice::Auto);
        let named = json!({"type": "function", "function": {"name": "f"}});
        let request = with(json!({"tools": [tool("f")], "tool_choice": named})).unwrap();
        assert_eq!(request.tool_choice, ToolChoice::Named("f".into()));
    }

    #[test]
    fn only_an_append_may_have_no_messages() {
        let empty = |append: bool| json!({"messages": [], "hob": {"append": append}});
        assert!(ChatRequest::parse(&empty(true), 9).unwrap().append);
        assert!(ChatRequest::parse(&empty(false), 9).is_err());
    }

    #[test]
    fn each_wrong_value_is_named() {
        for (extra, param) in [
            (json!({"messages": null}), "messages"),
            (json!({"messages": "Hi"}), "messages"),
            (json!({"messages": ["Hi"]}), "messages[0]"),
            (json!({"hob": {"apend": true}}), "hob.apend"),
            (json!({"hob": {"append": 1}}), "hob.append"),
            (json!({"hob": {"append": true, "after": -1}}), "hob.after"),
            (json!({"hob": {"append": true, "after": "1"}}), "hob.after"),
            (json!({"hob": {"after": 1}}), "hob.after"),
            (json!({"top_logprobs": 2}), "top_logprobs"),
            (json!({"logprobs": 2}), "logprobs"),
            (json!({"response_format": {"type": "xml"}}), "response_format.type"),
            (json!({"response_format": {"type": "json_schema"}}), "response_format.json_schema"),
            (
                json!({"response_format": {"type": "json_schema", "json_schema": {"schema": 1}}}),
                "response_format.json_schema.schema",
            ),
            (json!({"tools": [{"type": "retrieval"}]}), "tools[0].type"),
            (json!({"tools": [tool("a b")]}), "tools[0].function.name"),
            (json!({"tools": [tool("f"), tool("f")]}), "tools[1].function.name"),
            (json!({"tool_choice": "required"}), "tool_choice"),
            (json!({"tools": [tool("f")], "tool_choice": "always"}), "tool_choice"),
            (
                json!({"tools": [tool("f")], "tool_choice":
                    {"type": "function", "function": {"name": "g"}}}),
                "tool_choice.function.name",
            ),
            (json!({"functions": []}), "functions"),
        ] {
            let error = with(extra.clone()).expect_err(&extra.to_string());
            assert_eq!(error.param.as_deref(), Some(param), "{extra}");
        }
    }
}
