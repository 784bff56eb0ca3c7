//! What a response repeats of its request, and is stored with it.

use serde_json::{Map, Value, json};

use crate::error::ApiError;
use crate::wire::fields::Fields;

/// What the response to these fields repeats, with OpenAI's defaults.
///
/// # Errors
/// Names a value of `metadata` that is no text.
pub fn echo(fields: &Fields<'_>) -> Result<Map<String, Value>, ApiError> {
    for (name, value) in fields.map("metadata")?.into_iter().flatten() {
        if !value.is_string() {
            let path = format!("metadata.{}", name.escape_debug());
            let message = format!("`{path}` must be a string");
            return Err(ApiError::field(path, message).code("invalid_type"));
        }
    }
    let mut echo = defaults();
    for (name, value) in &mut echo {
        if let Some(set) = fields.get(name) {
            *value = set.clone();
        }
    }
    if let Some(text) = echo.get_mut("text").and_then(Value::as_object_mut) {
        text.entry("format").or_insert_with(|| json!({"type": "text"}));
    }
    Ok(echo)
}

/// The fields of a response that no request to this route asked for.
pub fn defaults() -> Map<String, Value> {
    let defaults = json!({
        "background": false,
        "instructions": null,
        "max_output_tokens": null,
        "max_tool_calls": null,
        "metadata": {},
        "parallel_tool_calls": true,
        "previous_response_id": null,
        "prompt_cache_key": null,
        "reasoning": {"effort": null, "summary": null},
        "safety_identifier": null,
        "service_tier": "default",
        "store": true,
        "temperature": null,
        "text": {"format": {"type": "text"}},
        "tool_choice": "auto",
        "tools": [],
        "top_logprobs": 0,
        "top_p": null,
        "truncation": "disabled",
        "user": null,
    });
    match defaults {
        Value::Object(defaults) => defaults,
        _ => unreachable!("it is an object"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_repeats_its_request() {
        let body = json!({"metadata": {"a": "b"}, "text": {"verbosity": "low"}});
        let echo = echo(&Fields::of_body(&body).unwrap()).unwrap();
        assert_eq!(echo["metadata"], json!({"a": "b"}));
        assert_eq!(echo["text"], json!({"verbosity": "low", "format": {"type": "text"}}));
        assert_eq!((&echo["tools"], &echo["store"]), (&json!([]), &json!(true)));
    }
}
