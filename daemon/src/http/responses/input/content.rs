//! The content of an item, in the form of a chat's: a text, or parts.

use serde_json::{Map, Value};

use crate::error::ApiError;
use crate::wire::fields::{Fields, wrong_type};
use crate::wire::message::{PICTURE, unsupported_part};

/// What a content belongs to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Holder {
    Message,
    /// A message of an agent to another.
    Agent,
    /// The result of a tool.
    Result,
}

/// The content of an item, with the parts of a chat.
pub fn content(content: &Value, path: &str, holder: Holder) -> Result<Value, ApiError> {
    let parts = match content {
        Value::String(_) => return Ok(content.clone()),
        Value::Array(parts) => parts,
        other => return Err(wrong_type(path, "a string or an array of parts", other)),
    };
    let mut read = Vec::with_capacity(parts.len());
    for (n, part) in parts.iter().enumerate() {
        let path = format!("{path}[{n}]");
        let fields = Fields::of(part, &path)?;
        let (kind, text) = match (fields.required_string("type")?, holder) {
            ("input_text" | "output_text" | "text", _) => ("text", fields.required_string("text")?),
            ("refusal", _) => ("refusal", fields.required_string("refusal")?),
            // The argument of a call, which OpenAI's servers encrypt and hobd does not.
            ("encrypted_content", Holder::Agent) => {
                ("text", fields.required_string("encrypted_content")?)
            }
            ("input_image", Holder::Result) => ("text", PICTURE),
            (other, _) => {
                let known = "`input_text` and `output_text`";
                return Err(unsupported_part(&fields, other, known));
            }
        };
        let mut part = Map::new();
        part.insert("type".into(), kind.into());
        part.insert(kind.into(), text.into());
        read.push(Value::Object(part));
    }
    Ok(read.into())
}

/// The output of a tool. Clients that have an object send it as text.
pub fn result(output: &Value, path: &str) -> Result<Value, ApiError> {
    match output {
        Value::String(_) | Value::Array(_) => content(output, path, Holder::Result),
        other => Err(wrong_type(path, "a string or an array of parts", other)),
    }
}

/// Adds a further text of an answer to its content, which becomes one text.
pub fn append(content: &mut Value, further: &Value) {
    if !content.is_string() {
        *content = text_of(content).into();
    }
    if let Value::String(text) = content {
        text.push_str(&text_of(further));
    }
}

fn text_of(content: &Value) -> String {
    match content {
        Value::Array(parts) => {
            let texts: Vec<&str> = parts.iter().filter_map(|part| part["text"].as_str()).collect();
            texts.join("\n")
        }
        content => content.as_str().unwrap_or_default().to_owned(),
    }
}
