//! Converts OpenAI's messages to the form of Hugging Face's library, for which templates are
//! written.
//!
//! - Arguments of calls are JSON text in OpenAI's form, and become objects. Some clients write none as empty text.
//! - Missing or null content becomes empty text, unless the template checks for `none`.
//! - Content in parts becomes one text, unless the template writes the texts of parts.
//! - The role `developer` becomes `system` where a template does not know it.
//! - Reasoning stands where the template reads it, see `reasoning`.

use hob_dialect::Dialect;
use serde_json::{Value, json};

use super::gemma::Results;
use super::malformed::mended;
use super::reasoning::Place;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arguments {
    /// Parsed. Text that is not a JSON object stays text.
    Objects,
    Text,
    /// Parsed, and mended where they are no object.
    MendedObjects,
}

/// What a template expects of messages.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Expected {
    /// The template knows the role `developer`.
    pub developer: bool,
    /// The template distinguishes calls from text by `content is none`.
    pub null: bool,
    /// The template writes the texts of parts; a trial tells, see `ChatTemplate::writes_parts`.
    pub parts: bool,
    /// Where the template reads the reasoning of an answer.
    pub reasoning: Place,
    /// Where the template reads the results of calls.
    pub results: Results,
    /// The form in which the template writes calls.
    pub dialect: Dialect,
}

impl Expected {
    /// As far as the source says it.
    pub fn by(source: &str) -> Self {
        let dialect = Dialect::detect(source);
        Self {
            developer: source.contains("developer"),
            null: asks_for_null(source),
            parts: false,
            reasoning: Place::by(source),
            results: Results::by(source, dialect),
            dialect,
        }
    }
}

/// The messages as a template expects them.
pub(super) fn all_as_templates_expect(
    messages: &[Value],
    expected: Expected,
    arguments: Arguments,
) -> Vec<Value> {
    let converted = messages.iter().map(|one| as_templates_expect(one, expected, arguments));
    expected.results.place(converted.collect())
}

fn as_templates_expect(message: &Value, expected: Expected, arguments: Arguments) -> Value {
    let Value::Object(message) = message else { return message.clone() };
    let mut message = message.clone();
    if message.get("role").is_some_and(|role| role == "developer") && !expected.developer {
        message.insert("role".to_owned(), "system".into());
    }
    if let Some(content) = converted_content(message.get("content"), expected) {
        message.insert("content".to_owned(), content);
    }
    // Null or empty `tool_calls` are removed: templates test `tool_calls is defined`.
    let calls = message.get_mut("tool_calls").and_then(Value::as_array_mut);
    match calls.filter(|calls| !calls.is_empty()) {
        Some(_) if arguments == Arguments::Text => {}
        Some(calls) => {
            let mends = arguments == Arguments::MendedObjects;
            calls.iter_mut().for_each(|call| parse_arguments(call, mends));
        }
        None => drop(message.shift_remove("tool_calls")),
    }
    expected.reasoning.write_in(&mut message);
    Value::Object(message)
}

/// The converted content; `None`: unchanged.
fn converted_content(content: Option<&Value>, expected: Expected) -> Option<Value> {
    match content {
        None | Some(Value::Null) if expected.null => Some(Value::Null),
        None | Some(Value::Null) => Some("".into()),
        Some(Value::Array(parts)) if !expected.parts => {
            let texts = parts.iter().map(|part| part.get("text").and_then(Value::as_str));
            texts.collect::<Option<String>>().map(Value::from)
        }
        Some(_) => None,
    }
}

fn asks_for_null(source: &str) -> bool {
    let forms = [".content", "['content']", "[\"content\"]"];
    let asks = [" is none", " is not none", " == none", " != none"];
    forms.iter().any(|form| asks.iter().any(|asks| source.contains(&format!("{form}{asks}"))))
}

/// Text that is not a JSON object is mended or stays text.
fn parse_arguments(call: &mut Value, mends: bool) {
    let call = match call.get("function") {
        Some(Value::Object(_)) => &mut call["function"],
        _ => call,
    };
    let Some(Value::String(text)) = call.get("arguments") else { return };
    let arguments = match serde_json::from_str(text) {
        Ok(arguments @ Value::Object(_)) => arguments,
        _ if text.trim().is_empty() => json!({}),
        _ if mends => mended(text),
        _ => return,
    };
    call["arguments"] = arguments;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expected(message: &Value, source: &str) -> Value {
        as_templates_expect(message, Expected::by(source), Arguments::Objects)
    }

    fn content(content: Value, source: &str) -> Value {
        expected(&json!({"role": "assistant", "content": content}), source)["content"].clone()
    }

    #[test]
    fn arguments_become_an_object() {
        let message = json!({"role": "assistant", "tool_calls": [
            {"function": {"name": "f", "arguments": "{\"b\": 1, \"a\": 2}"}},
            {"function": {"name": "g", "arguments": "not JSON"}},
            {"name": "h", "arguments": "{}"},
            {"function": {"name": "i", "arguments": ""}},
        ]});
        let calls = &expected(&message, "")["tool_calls"];
        assert_eq!(calls[0]["function"]["arguments"].to_string(), r#"{"b":1,"a":2}"#);
        assert_eq!(calls[1]["function"]["arguments"], "not JSON");
        assert_eq!(calls[2]["arguments"], json!({}));
        assert_eq!(calls[3]["function"]["arguments"], json!({}));
    }

    #[test]
    fn arguments_stay_text_where_text_is_expected() {
        let message = json!({"tool_calls": [{"function": {"name": "f", "arguments": "{}"}}]});
        let kept = as_templates_expect(&message, Expected::default(), Arguments::Text);
        assert_eq!(kept["tool_calls"][0]["function"]["arguments"], "{}");
    }

    #[test]
    fn empty_tool_calls_are_removed() {
        for calls in [json!(null), json!([])] {
            let message = json!({"role": "assistant", "tool_calls": calls, "content": "a"});
            assert_eq!(expected(&message, ""), json!({"role": "assistant", "content": "a"}));
        }
    }

    #[test]
    fn missing_content_is_empty_text_unless_the_template_checks_for_none() {
        assert_eq!(content(Value::Null, "{{ message.content }}"), "");
        assert_eq!(content(Value::Null, "{% if message['content'] is none %}"), Value::Null);
        assert_eq!(expected(&json!({"role": "assistant"}), "")["content"], "");
        let asked = "{% if message.content is not none %}";
        assert_eq!(expected(&json!({"role": "assistant"}), asked)["content"], Value::Null);
    }

    #[test]
    fn parts_of_text_are_joined_unless_the_template_reads_them() {
        let parts = json!([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]);
        assert_eq!(content(parts.clone(), ""), "ab");
        let message = json!({"role": "user", "content": parts});
        let expected = Expected { parts: true, ..Expected::default() };
        assert_eq!(as_templates_expect(&message, expected, Arguments::Objects), message);
    }

    #[test]
    fn developer_becomes_system_unless_the_template_knows_it() {
        let message = json!({"role": "developer", "content": "x"});
        assert_eq!(expected(&message, "")["role"], "system");
        assert_eq!(expected(&message, "'developer'")["role"], "developer");
    }
}
