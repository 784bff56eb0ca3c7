//! From OpenAI's messages to what templates, made for Hugging Face's library, expect.
//!
//! - Arguments of calls are objects there and JSON text here.
//! - Content that is missing or null becomes empty text, unless the template asks for it.
//! - Content in parts becomes one text, unless the template reads parts.
//! - Developers speak as the system where a template does not know them.

use serde_json::{Map, Value};

/// One message as a template expects it.
pub(super) fn as_templates_expect(message: &Value, source: &str) -> Value {
    let Value::Object(message) = message else { return message.clone() };
    let mut message = message.clone();
    if message.get("role").is_some_and(|role| role == "developer") && !source.contains("developer")
    {
        message.insert("role".to_owned(), "system".into());
    }
    let text = content_text(message.get("content"), source);
    if let Some(text) = text {
        message.insert("content".to_owned(), text.into());
    }
    if let Some(Value::Array(calls)) = message.get_mut("tool_calls") {
        for call in calls {
            let call = match call.get("function") {
                Some(Value::Object(_)) => &mut call["function"],
                _ => call,
            };
            call.as_object_mut().map(parse_arguments);
        }
    }
    Value::Object(message)
}

/// The text that takes the content's place; `None` leaves it as it is.
fn content_text(content: Option<&Value>, source: &str) -> Option<String> {
    match content {
        None => Some(String::new()),
        Some(Value::Null) if asks_for_null(source) => None,
        Some(Value::Null) => Some(String::new()),
        Some(Value::Array(parts)) if !reads_parts(source) => {
            let texts = parts.iter().map(|part| part.get("text").and_then(Value::as_str));
            texts.collect::<Option<String>>()
        }
        Some(_) => None,
    }
}

/// Some templates tell calls from text by `content is none`.
fn asks_for_null(source: &str) -> bool {
    let forms = [".content", "['content']", "[\"content\"]"];
    let asks = [" is none", " is not none", " == none", " != none"];
    forms.iter().any(|form| asks.iter().any(|asks| source.contains(&format!("{form}{asks}"))))
}

fn reads_parts(source: &str) -> bool {
    ["['type']", "[\"type\"]", ".type == 'text'", ".type == \"text\""]
        .iter()
        .any(|form| source.contains(form))
}

/// Text that is not an object's stays text.
fn parse_arguments(call: &mut Map<String, Value>) {
    let Some(Value::String(text)) = call.get("arguments") else { return };
    if let Ok(arguments @ Value::Object(_)) = serde_json::from_str(text) {
        call.insert("arguments".to_owned(), arguments);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn content(content: Value, source: &str) -> Value {
        as_templates_expect(&json!({"role": "assistant", "content": content}), source)["content"]
            .clone()
    }

    #[test]
    fn arguments_become_an_object() {
        let message = json!({"role": "assistant", "tool_calls": [
            {"function": {"name": "f", "arguments": "{\"b\": 1, \"a\": 2}"}},
            {"function": {"name": "g", "arguments": "not JSON"}},
            {"name": "h", "arguments": "{}"},
        ]});
        let calls = &as_templates_expect(&message, "")["tool_calls"];
        assert_eq!(calls[0]["function"]["arguments"].to_string(), r#"{"b":1,"a":2}"#);
        assert_eq!(calls[1]["function"]["arguments"], "not JSON");
        assert_eq!(calls[2]["arguments"], json!({}));
    }

    #[test]
    fn no_content_is_empty_text_unless_the_template_asks() {
        assert_eq!(content(Value::Null, "{{ message.content }}"), "");
        assert_eq!(content(Value::Null, "{% if message['content'] is none %}"), Value::Null);
        assert_eq!(as_templates_expect(&json!({"role": "assistant"}), "")["content"], "");
    }

    #[test]
    fn parts_of_text_are_joined_unless_the_template_reads_them() {
        let parts = json!([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]);
        assert_eq!(content(parts.clone(), "{{ message.content }}"), "ab");
        assert_eq!(content(parts.clone(), "{% if item['type'] == 'text' %}"), parts);
    }

    #[test]
    fn developers_speak_as_the_system_unless_they_are_known() {
        let message = json!({"role": "developer", "content": "x"});
        assert_eq!(as_templates_expect(&message, "")["role"], "system");
        assert_eq!(as_templates_expect(&message, "'developer'")["role"], "developer");
    }
}
