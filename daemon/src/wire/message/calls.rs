//! The calls of an answer: checked, made and read.

use serde_json::{Value, json};

use super::role::Role;
use crate::error::ApiError;
use crate::wire::fields::{Fields, unsupported};
use crate::wire::freeform;
use crate::wire::tools::CUSTOM;

/// A call of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallMade<'m> {
    pub id: &'m str,
    pub name: &'m str,
    /// JSON, or the beginning of it where the answer was cut.
    pub arguments: &'m str,
}

/// The calls of a message's field `tool_calls`.
pub fn calls_made(calls: Option<&Value>) -> impl Iterator<Item = CallMade<'_>> {
    calls.and_then(Value::as_array).into_iter().flatten().map(|call| {
        let part = |pointer| call.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let (id, name) = (part("/id"), part("/function/name"));
        CallMade { id, name, arguments: part("/function/arguments") }
    })
}

/// `None` without a call. Clients write an empty list in messages of every role.
pub(super) fn tool_calls(fields: &Fields<'_>, role: Role) -> Result<Option<Vec<Value>>, ApiError> {
    let calls = fields.list("tool_calls")?.filter(|calls| !calls.is_empty());
    let Some(calls) = calls else { return Ok(None) };
    let path = fields.path("tool_calls");
    if role != Role::Assistant {
        return Err(ApiError::field(path, "only assistant messages have `tool_calls`"));
    }
    let call = |(n, call)| checked_call(call, &format!("{path}[{n}]"));
    calls.iter().enumerate().map(call).collect::<Result<_, _>>().map(Some)
}

/// The call of a function with its arguments as a text.
fn checked_call(call: &Value, path: &str) -> Result<Value, ApiError> {
    let fields = Fields::of(call, path)?;
    fields.string("id")?;
    match fields.string("type")? {
        None | Some("function") => {}
        Some(CUSTOM) => return custom_call(&fields),
        Some(_) => {
            let message = "only calls of the types `function` and `custom` exist";
            return Err(unsupported(fields.path("type"), message));
        }
    }
    let function_path = fields.path("function");
    let function = Fields::of(fields.required("function")?, &function_path)?;
    function.required_string("name")?;
    let arguments = match function.required("arguments")? {
        object @ Value::Object(_) => object.to_string(),
        _ => function.required_string("arguments")?.to_owned(),
    };
    let mut call = call.clone();
    call["type"] = "function".into(); // Some clients leave it out, and some templates write it.
    call["function"]["arguments"] = arguments.into();
    Ok(call)
}

/// The call of the function that stands for a custom tool.
fn custom_call(fields: &Fields<'_>) -> Result<Value, ApiError> {
    let path = fields.path(CUSTOM);
    let custom = Fields::of(fields.required(CUSTOM)?, &path)?;
    let (name, input) = (custom.required_string("name")?, custom.required_string("input")?);
    let id = fields.string("id")?.unwrap_or_default();
    Ok(tool_call(id, name, &freeform::arguments_of(input)))
}

/// Whether two fields `tool_calls` have the same calls. Arguments are compared as JSON where they are JSON.
pub(super) fn are_same(one: Option<&Value>, other: Option<&Value>) -> bool {
    let (one, other) = (list(one), list(other));
    one.len() == other.len() && one.iter().zip(other).all(|(one, other)| is_same_call(one, other))
}

fn list(calls: Option<&Value>) -> &[Value] {
    calls.and_then(Value::as_array).map_or(&[][..], Vec::as_slice)
}

fn is_same_call(one: &Value, other: &Value) -> bool {
    one.pointer("/function/name") == other.pointer("/function/name")
        && arguments(one) == arguments(other)
        && is_same_id(one["id"].as_str(), other["id"].as_str())
}

fn arguments(call: &Value) -> Value {
    let arguments = call.pointer("/function/arguments").cloned().unwrap_or_default();
    let read = arguments.as_str().and_then(|text| serde_json::from_str(text).ok());
    read.unwrap_or(arguments)
}

/// Whether two ids may name the same call: the client may have sent none.
pub(super) fn is_same_id(one: Option<&str>, other: Option<&str>) -> bool {
    one == other || [one, other].into_iter().any(|id| id.is_none_or(is_made_id))
}

/// Whether an id is one of [`id_of_place`], or empty: no client and no model gave it.
pub fn is_made_id(id: &str) -> bool {
    let place = id.strip_prefix("call").filter(|place| place.len() >= 5);
    id.is_empty() || place.is_some_and(|place| place.bytes().all(|digit| digit.is_ascii_digit()))
}

/// The id of a call without one, by its place among all calls: nine letters and digits, as the templates of Mistral's
/// models demand.
pub fn id_of_place(place: usize) -> String {
    format!("call{place:05}")
}

pub fn tool_call(id: &str, name: &str, arguments: &str) -> Value {
    json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}})
}
