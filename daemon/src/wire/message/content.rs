//! The content of a message as one text.

use serde_json::Value;

use super::role::Role;
use crate::error::ApiError;
use crate::wire::fields::{Fields, unsupported, wrong_type};

/// What a model reads in place of a picture that a tool returned. Agents send such a result with each later request: to
/// refuse it would end their session.
pub const PICTURE: &str = "(The tool returned a picture. This model reads text alone.)";

/// `None` where it is null.
pub(super) fn content(fields: &Fields<'_>, role: Role) -> Result<Option<String>, ApiError> {
    let path = fields.path("content");
    match fields.get("content") {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(Value::Array(parts)) => {
            let mut texts = Vec::with_capacity(parts.len());
            for (n, part) in parts.iter().enumerate() {
                texts.push(text_part(part, &format!("{path}[{n}]"), role)?);
            }
            Ok(Some(texts.join("\n")))
        }
        Some(other) => Err(wrong_type(&path, "a string or an array of text parts", other)),
    }
}

fn text_part(part: &Value, path: &str, role: Role) -> Result<String, ApiError> {
    let fields = Fields::of(part, path)?;
    match fields.required_string("type")? {
        kind @ ("text" | "refusal") => fields.required_string(kind).map(str::to_owned),
        "image_url" if role == Role::Tool => Ok(PICTURE.to_owned()),
        other => Err(unsupported_part(&fields, other, "`text`")),
    }
}

/// Refuses a part of a message's content by its type. `known`: the types that are read.
pub fn unsupported_part(part: &Fields<'_>, kind: &str, known: &str) -> ApiError {
    let kind = kind.escape_debug();
    let message = match kind.to_string().as_str() {
        "image_url" | "input_image" | "image" => format!(
            "content parts of type `{kind}` are not supported: Hob reads no images; leave the part out, or say in \
             {known} what the picture shows"
        ),
        _ => format!("content parts of type `{kind}` are not supported, only {known}"),
    };
    unsupported(part.path("type"), message)
}

/// Instructions as text of the user: chat templates know instructions at the beginning only. Claude Code marks its
/// own so.
pub fn reminder(text: &str) -> String {
    format!("<system-reminder>\n{text}\n</system-reminder>")
}
