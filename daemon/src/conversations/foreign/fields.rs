//! Fields of the JSON that other apps write. A field of another type counts as a missing one.

use serde_json::Value;

/// A longer name of a model is none: each answer of a chat has a copy of it.
const MAX_MODEL_BYTES: usize = 512;

/// The text of a field; empty without one.
pub fn text<'v>(value: &'v Value, name: &str) -> &'v str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// The text of a field that has one.
pub fn some_text(value: &Value, name: &str) -> Option<String> {
    Some(text(value, name)).filter(|text| !text.is_empty()).map(str::to_owned)
}

/// The name of a model, in a field that has one.
pub fn model_name(value: &Value, field: &str) -> Option<String> {
    let name = Some(text(value, field));
    name.filter(|name| (1..=MAX_MODEL_BYTES).contains(&name.len())).map(str::to_owned)
}

pub fn number(value: &Value, name: &str) -> Option<f64> {
    value.get(name).and_then(Value::as_f64)
}
