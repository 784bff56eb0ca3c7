//! The tools of a request, and which of them the answer may or must call.
//!
//! - Tools that Anthropic's servers run are left out: agents offer them of their own accord, and go on without. Its
//!   own tools that the client runs are refused: they have no schema.

use serde_json::{Map, Value, json};

use super::cache::Marks;
use crate::error::ApiError;
use crate::wire::fields::{Fields, unsupported};

/// The tools in the chat's form, and the place of each in the client's list; empty without any.
pub fn tools(fields: &Fields<'_>, marks: &mut Marks) -> Result<(Vec<Value>, Vec<usize>), ApiError> {
    let (mut tools, mut places) = (Vec::new(), Vec::new());
    for (n, sent) in fields.list("tools")?.into_iter().flatten().enumerate() {
        if let Some(tool) = tool(sent, &format!("tools[{n}]"), marks)? {
            tools.push(tool);
            places.push(n);
        }
    }
    Ok((tools, places))
}

/// What the types of tools that Anthropic's servers run begin with. A date is behind it.
const HOSTED: [&str; 4] = ["code_execution_", "tool_search_tool_", "web_fetch_", "web_search_"];

/// `None`: it is left out.
fn tool(value: &Value, path: &str, marks: &mut Marks) -> Result<Option<Value>, ApiError> {
    let fields = Fields::of(value, path)?;
    marks.read(&fields)?;
    let kind = fields.string("type")?;
    if kind.is_some_and(|kind| HOSTED.iter().any(|hosted| kind.starts_with(hosted))) {
        return Ok(None);
    }
    if let Some(kind) = kind
        && kind != "custom"
    {
        let kind = kind.escape_debug();
        let message =
            format!("tools of type `{kind}` are Anthropic's own: describe it with `input_schema`");
        return Err(unsupported(fields.path("type"), message));
    }
    let mut function = Map::new();
    function.insert("name".into(), fields.required_string("name")?.into());
    if let Some(description) = fields.string("description")? {
        function.insert("description".into(), description.into());
    }
    fields.required("input_schema")?;
    let schema = fields.map("input_schema")?.expect("it is not null");
    function.insert("parameters".into(), schema.clone().into());
    if let Some(strict) = fields.boolean("strict")? {
        function.insert("strict".into(), strict.into());
    }
    Ok(Some(json!({"type": "function", "function": function})))
}

/// Writes `tool_choice` in the chat's form.
pub fn choose(fields: &Fields<'_>, chat: &mut Map<String, Value>) -> Result<(), ApiError> {
    let Some(choice) = fields.get("tool_choice") else { return Ok(()) };
    let choice = Fields::of(choice, "tool_choice")?;
    let chosen = match choice.required_string("type")? {
        "auto" => "auto".into(),
        "any" => "required".into(),
        "none" => "none".into(),
        "tool" => {
            let name = choice.required_string("name")?;
            json!({"type": "function", "function": {"name": name}})
        }
        other => {
            let other = other.escape_debug();
            let message =
                format!("`tool_choice.type` must be auto, any, tool or none, not `{other}`");
            return Err(ApiError::field("tool_choice.type", message));
        }
    };
    chat.insert("tool_choice".into(), chosen);
    if choice.boolean("disable_parallel_tool_use")? == Some(true) {
        chat.insert("parallel_tool_calls".into(), false.into());
    }
    Ok(())
}
