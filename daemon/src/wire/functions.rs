//! Calls of functions as OpenAI's API had them before it had tools: the fields `functions` and `function_call`, and
//! messages of the role `function`.
//!
//! - Each is read as the tool, the choice, the call or the result that means the same.
//! - Such an answer has one call.

use std::borrow::Cow;

use serde_json::{Value, json};

use super::call_ids::CallIds;
use super::fields::{Fields, wrong_type};
use super::message::tool_call;
use super::tools::{Tool, ToolChoice};
use crate::error::ApiError;

const FUNCTIONS: &str = "functions";

/// A message's call, and a request's choice.
pub const FUNCTION_CALL: &str = "function_call";

/// The functions of a request, if it has any.
pub(super) fn functions<'a>(fields: &Fields<'a>) -> Result<Option<&'a [Value]>, ApiError> {
    let functions = fields.list(FUNCTIONS)?.map(Vec::as_slice);
    Ok(functions.filter(|functions| !functions.is_empty()))
}

/// The functions as tools.
pub(super) fn as_tools(fields: &Fields<'_>, functions: &[Value]) -> Result<Vec<Tool>, ApiError> {
    if fields.list("tools")?.is_some_and(|tools| !tools.is_empty()) {
        let message = "send `tools` or `functions`, not both";
        return Err(ApiError::field(FUNCTIONS, message));
    }
    let tool = |function: &Value| json!({"type": "function", "function": function});
    let tools: Vec<Value> = functions.iter().map(tool).collect();
    Tool::list(&tools, FUNCTIONS).map_err(|error| match &error.param {
        Some(param) => {
            let own = param.replace("].function", "]");
            let message = error.message.replace(param, &own);
            ApiError { message, param: Some(own), ..error }
        }
        None => error,
    })
}

/// The choice of a request with functions. `tools`: these, and those of the profile.
pub(super) fn choice(fields: &Fields<'_>, tools: &[Tool]) -> Result<ToolChoice, ApiError> {
    let path = fields.path(FUNCTION_CALL);
    match fields.get(FUNCTION_CALL) {
        None => Ok(ToolChoice::Auto),
        Some(Value::String(word)) if word == "auto" => Ok(ToolChoice::Auto),
        Some(Value::String(word)) if word == "none" => Ok(ToolChoice::None),
        Some(object @ Value::Object(_)) => {
            let choice = Fields::of(object, &path)?;
            let name = choice.required_string("name")?;
            if !tools.iter().any(|tool| tool.name == name) {
                let path = choice.path("name");
                let message = format!("`{path}` is the name of none of the `functions`");
                return Err(ApiError::field(path, message));
            }
            Ok(ToolChoice::Named(name.to_owned()))
        }
        Some(other) => Err(wrong_type(&path, "none, auto or a function", other)),
    }
}

/// The message with a call of a tool in place of that of a function, or with the result of a tool.
///
/// # Errors
/// Names the wrong field below `path`.
pub(super) fn read<'m>(
    message: &'m Value,
    path: &str,
    ids: &mut CallIds,
) -> Result<Cow<'m, Value>, ApiError> {
    let fields = Fields::of(message, path)?;
    match fields.get("role").and_then(Value::as_str) {
        Some("assistant") if message.get(FUNCTION_CALL).is_some() => {
            let mut read = message.clone();
            if let Some(object) = read.as_object_mut() {
                object.shift_remove(FUNCTION_CALL);
            }
            let has_calls = fields.list("tool_calls")?.is_some_and(|calls| !calls.is_empty());
            if let Some(call) = fields.get(FUNCTION_CALL).filter(|_| !has_calls) {
                let path = fields.path(FUNCTION_CALL);
                let call = Fields::of(call, &path)?;
                let name = call.required_string("name")?;
                let arguments = match call.required("arguments")? {
                    object @ Value::Object(_) => object.to_string(),
                    _ => call.required_string("arguments")?.to_owned(),
                };
                let id = ids.next_id();
                ids.called(&id, name);
                read["tool_calls"] = json!([tool_call(&id, name, &arguments)]);
            }
            Ok(Cow::Owned(read))
        }
        Some("function") => {
            let id = ids.of_result(Some(fields.required_string("name")?));
            let mut read = message.clone();
            read["role"] = "tool".into();
            read["tool_call_id"] = id.into();
            if fields.get("content").is_none() {
                read["content"] = "".into();
            }
            Ok(Cow::Owned(read))
        }
        _ => Ok(Cow::Borrowed(message)),
    }
}
