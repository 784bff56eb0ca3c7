//! The forms of a prompt: a text, tokens, texts and tokens in one row, an object with a text, or a list of these.

use hob_slots::Token;
use serde_json::{Value, json};

use crate::chat::Chat;
use crate::error::ApiError;
use crate::wire::fields::{Fields, unsupported, wrong_type};
use crate::wire::tokens::tokens;

const FORMS: &str = "a string, an array of tokens and strings, or an object with a `prompt_string`";

/// The prompt or the input in the forms that OpenAI's API has: a text, tokens, or a list of these.
///
/// # Errors
/// Names the part that has another form.
pub async fn normalised(chat: &Chat, value: &Value, path: &str) -> Result<Value, ApiError> {
    match value {
        Value::Array(list) if !list.is_empty() && !is_one(list) => {
            let mut all = Vec::with_capacity(list.len());
            for (n, entry) in list.iter().enumerate() {
                all.push(one(chat, entry, &format!("{path}[{n}]")).await?);
            }
            Ok(all.into())
        }
        value => one(chat, value, path).await,
    }
}

/// Whether an array is one prompt: it has tokens itself.
fn is_one(list: &[Value]) -> bool {
    let is_part = |value: &Value| value.is_number() || value.is_string();
    list.iter().any(Value::is_number) && list.iter().all(is_part)
}

async fn one(chat: &Chat, value: &Value, path: &str) -> Result<Value, ApiError> {
    match value {
        Value::String(_) => Ok(value.clone()),
        Value::Array(list) if list.iter().all(Value::is_number) => Ok(value.clone()),
        Value::Array(list) => row(chat, list, path).await,
        Value::Object(_) => text_of(value, path).map(Value::from),
        other => Err(wrong_type(path, FORMS, other)),
    }
}

/// Tokens and texts as tokens. A text that begins the row has the model's begin token in front.
async fn row(chat: &Chat, list: &[Value], path: &str) -> Result<Value, ApiError> {
    let vocabulary = chat.token_bound();
    let mut row: Vec<Token> = Vec::new();
    for (n, part) in list.iter().enumerate() {
        match part {
            Value::String(text) => {
                row.extend(chat.tokenize(text.clone(), n == 0, true, path).await?)
            }
            part => {
                let one = tokens(std::slice::from_ref(part), path, vocabulary);
                row.extend(one.map_err(|error| error.param(format!("{path}[{n}]")))?);
            }
        }
    }
    Ok(row.iter().map(|token| json!(token.0)).collect())
}

/// The text of `{"prompt_string"}`, or of `{"content": [{"type": "text", "text"}]}`.
fn text_of(value: &Value, path: &str) -> Result<String, ApiError> {
    let fields = Fields::of(value, path)?;
    if fields.list("multimodal_data")?.is_some_and(|data| !data.is_empty()) {
        let path = fields.path("multimodal_data");
        let message = format!("`{path}` is not supported: hobd's models read text alone");
        return Err(unsupported(path, message));
    }
    let Some(parts) = fields.list("content")? else {
        return Ok(fields.required_string("prompt_string")?.to_owned());
    };
    let mut text = String::new();
    for (n, part) in parts.iter().enumerate() {
        let path = format!("{path}.content[{n}]");
        let part = Fields::of(part, &path)?;
        if part.required_string("type")? != "text" {
            let path = part.path("type");
            let message = format!("`{path}` must be text: hobd's models read text alone");
            return Err(unsupported(path, message));
        }
        text.push_str(part.required_string("text")?);
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_array_with_tokens_is_one_prompt() {
        for (list, expected) in [
            (json!([1, 2]), true),
            (json!([1, "a", 2]), true),
            (json!(["a", "b"]), false),
            (json!([[1], "a"]), false),
            (json!([1, [2]]), false),
        ] {
            assert_eq!(is_one(list.as_array().unwrap()), expected, "{list}");
        }
    }

    #[test]
    fn an_object_has_one_text() {
        let text = |value: Value| text_of(&value, "prompt");
        assert_eq!(text(json!({"prompt_string": "a"})).unwrap(), "a");
        let parts = [json!({"type": "text", "text": "a "}), json!({"type": "text", "text": "b"})];
        assert_eq!(text(json!({"content": parts})).unwrap(), "a b");
        for (value, param) in [
            (json!({}), "prompt.prompt_string"),
            (json!({"prompt_string": "a", "multimodal_data": ["x"]}), "prompt.multimodal_data"),
            (json!({"content": "a"}), "prompt.content"),
            (json!({"content": [{"type": "image_url"}]}), "prompt.content[0].type"),
        ] {
            assert_eq!(text(value).unwrap_err().param.as_deref(), Some(param));
        }
    }
}
