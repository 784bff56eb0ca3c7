//! Ollama's messages in OpenAI's form.
//!
//! - Arguments of calls are objects in Ollama's form, and texts in OpenAI's.
//! - Ollama's clients send calls and results without ids: [`CallIds`] gives them some.
//! - Images are refused, but for those before an answer or another message of the user: see `wire/message/pictures.rs`.

use serde_json::{Map, Value, json};

use crate::error::ApiError;
use crate::wire::call_ids::CallIds;
use crate::wire::fields::{Fields, unsupported, wrong_type};
use crate::wire::message::pictures::{SENT_PICTURE, before_newest, is_assistants};
use crate::wire::message::tool_call;

/// `continues_last`: the request continues the last message.
///
/// # Errors
/// Names the field of a message that Hob cannot read.
pub fn translated(messages: &[Value], continues_last: bool) -> Result<Vec<Value>, ApiError> {
    let mut calls = CallIds::default();
    let mut read = Vec::with_capacity(messages.len());
    let followed = before_newest(messages, continues_last, is_assistants);
    for (n, message) in messages.iter().enumerate() {
        let path = format!("messages[{n}]");
        read.push(translated_one(message, &path, n < followed, &mut calls)?);
    }
    Ok(read)
}

/// # Errors
/// Where `images` has one.
pub fn refuse_images(fields: &Fields<'_>) -> Result<(), ApiError> {
    if has_images(fields)? {
        let path = fields.path("images");
        let message = format!(
            "`{path}` is not supported: Hob reads no images; leave it out, or say in the text what it shows"
        );
        return Err(unsupported(path, message));
    }
    Ok(())
}

fn has_images(fields: &Fields<'_>) -> Result<bool, ApiError> {
    Ok(fields.list("images")?.is_some_and(|images| !images.is_empty()))
}

/// `is_followed`: by an answer, or by another message of the user.
fn translated_one(
    message: &Value,
    path: &str,
    is_followed: bool,
    calls: &mut CallIds,
) -> Result<Value, ApiError> {
    let fields = Fields::of(message, path)?;
    let has_words = is_followed && fields.string("role")? == Some("user") && has_images(&fields)?;
    if !has_words {
        refuse_images(&fields)?;
    }
    let mut read = fields.object().clone();
    if has_words {
        let text = fields.string("content")?.filter(|text| !text.is_empty());
        let lines: Vec<&str> = text.into_iter().chain([SENT_PICTURE]).collect();
        read.insert("content".into(), lines.join("\n").into());
    }
    for name in ["images", "thinking", "tool_name", "tool_calls"] {
        read.shift_remove(name);
    }
    if let Some(thinking) = fields.string("thinking")?.filter(|text| !text.is_empty()) {
        read.insert("reasoning_content".into(), thinking.into());
    }
    if let Some(list) = fields.list("tool_calls")?.filter(|list| !list.is_empty()) {
        let path = fields.path("tool_calls");
        let each = list.iter().enumerate();
        let list = each.map(|(n, call)| call_of(call, &format!("{path}[{n}]"), calls));
        read.insert("tool_calls".into(), list.collect::<Result<Vec<_>, _>>()?.into());
    }
    if fields.string("role")? == Some("tool") {
        name_result(&fields, &mut read, calls)?;
    }
    Ok(read.into())
}

fn call_of(call: &Value, path: &str, calls: &mut CallIds) -> Result<Value, ApiError> {
    let fields = Fields::of(call, path)?;
    let function_path = fields.path("function");
    let function = Fields::of(fields.required("function")?, &function_path)?;
    let name = function.required_string("name")?;
    let arguments = match function.get("arguments") {
        None => "{}".to_owned(),
        Some(Value::String(text)) => text.clone(), // As OpenAI's clients send them.
        Some(object @ Value::Object(_)) => object.to_string(),
        Some(other) => return Err(wrong_type(&function.path("arguments"), "an object", other)),
    };
    let id = fields.string("id")?.filter(|id| !id.is_empty());
    let id = id.map_or_else(|| calls.next_id(), str::to_owned);
    calls.called(&id, name);
    Ok(tool_call(&id, name, &arguments))
}

/// Names the call and the tool of a result.
fn name_result(
    fields: &Fields<'_>,
    read: &mut Map<String, Value>,
    calls: &mut CallIds,
) -> Result<(), ApiError> {
    let tool = fields.string("tool_name")?.or(fields.string("name")?);
    let tool = tool.filter(|tool| !tool.is_empty());
    let id = fields.string("tool_call_id")?.filter(|id| !id.is_empty());
    let id = match id {
        Some(id) => {
            calls.answered(id);
            id.to_owned()
        }
        None => calls.of_result(tool),
    };
    read.insert("tool_call_id".into(), id.into());
    if let Some(tool) = tool {
        read.insert("name".into(), json!(tool));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(name: &str) -> Value {
        json!({"function": {"name": name, "arguments": {"at": name}}})
    }

    #[test]
    fn results_belong_to_the_calls_of_their_tools() {
        let result = |tool: &str| json!({"role": "tool", "tool_name": tool, "content": "x"});
        let read = translated(
            &[
                json!({"role": "assistant", "content": "", "tool_calls": [call("a"), call("b")]}),
                result("b"),
                result("a"),
                json!({"role": "assistant", "content": "", "tool_calls": [call("a")]}),
                json!({"role": "tool", "content": "x"}),
            ],
            false,
        )
        .unwrap();
        let id = |message: usize, call: usize| &read[message]["tool_calls"][call]["id"];
        assert_eq!((id(0, 0), id(0, 1)), (&json!("call00001"), &json!("call00002")));
        assert_eq!(read[0]["tool_calls"][0]["function"]["arguments"], "{\"at\":\"a\"}");
        let answered = |message: usize| &read[message]["tool_call_id"];
        assert_eq!((answered(1), answered(2), answered(4)), (id(0, 1), id(0, 0), id(3, 0)));
        assert_eq!(read[1]["name"], "b");
    }

    #[test]
    fn each_wrong_field_is_named() {
        let arguments = json!({"function": {"name": "a", "arguments": 1}});
        for (message, param) in [
            (json!({"role": "user", "content": "x", "images": ["aGk="]}), "images"),
            (json!({"role": "user", "content": "x", "images": "aGk="}), "images"),
            (json!({"role": "assistant", "content": "x", "thinking": 1}), "thinking"),
            (
                json!({"role": "assistant", "tool_calls": [arguments]}),
                "tool_calls[0].function.arguments",
            ),
        ] {
            let error = translated(std::slice::from_ref(&message), false).unwrap_err();
            let path = format!("messages[0].{param}");
            assert_eq!(error.param, Some(path.clone()), "{message}");
            assert!(error.message.contains(&path), "{}", error.message);
        }
        let plain = json!({"role": "user", "content": "x", "images": []});
        assert_eq!(
            translated(&[plain], false).unwrap()[0],
            json!({"role": "user", "content": "x"})
        );
    }

    #[test]
    fn words_stand_in_place_of_images_that_were_answered() {
        let answer = json!({"role": "assistant", "content": "A cat."});
        let seen =
            |text: &str| json!({"role": "user", "content": text, "images": ["aGk=", "aGk="]});
        let read = translated(&[seen("Look"), seen(""), answer.clone()], false).unwrap();
        let words = json!({"role": "user", "content": format!("Look\n{SENT_PICTURE}")});
        assert_eq!(read, [words, json!({"role": "user", "content": SENT_PICTURE}), answer.clone()]);
        let error = translated(&[answer, seen("Look")], false).unwrap_err();
        assert_eq!(error.param.as_deref(), Some("messages[1].images"));
    }
}
