//! `/v1/templates`: prompt templates, which all clients of the daemon share.
//!
//! - A client replaces the whole list. Until one has, there is none, and clients offer their own.

use axum::Json;
use axum::extract::State;
use serde_json::{Value, json};

use super::body::JsonBody;
use crate::conversations::Conversations;
use crate::error::ApiError;
use crate::wire::fields::{Fields, wrong_type};

const NAME: &str = "templates";
const MAX_TEMPLATES: usize = 200;
const MAX_NAME_CHARS: usize = 60;
const MAX_TEXT_BYTES: usize = 64 * 1024;

/// `GET /v1/templates`
pub async fn list(State(conversations): State<Conversations>) -> Result<Json<Value>, ApiError> {
    let saved = conversations.transcript.preference(NAME).done().await?;
    Ok(Json(list_of(saved)))
}

/// `PUT /v1/templates {"data": [{"name", "text"}]}`
pub async fn replace(
    State(conversations): State<Conversations>,
    body: JsonBody,
) -> Result<Json<Value>, ApiError> {
    let templates = checked(&body.value)?;
    conversations.transcript.set_preference(NAME, Some(templates.clone())).done().await?;
    Ok(Json(list_of(Some(templates))))
}

/// `DELETE /v1/templates`: clients offer their own again.
pub async fn delete(State(conversations): State<Conversations>) -> Result<Json<Value>, ApiError> {
    conversations.transcript.set_preference(NAME, None).done().await?;
    Ok(Json(list_of(None)))
}

fn list_of(saved: Option<Value>) -> Value {
    let is_set = saved.is_some();
    json!({"object": "list", "is_set": is_set, "data": saved.unwrap_or_else(|| json!([]))})
}

fn checked(body: &Value) -> Result<Value, ApiError> {
    let fields = Fields::of_body(body)?;
    let list = fields.required("data")?;
    let list = list.as_array().ok_or_else(|| wrong_type("data", "an array of templates", list))?;
    if list.len() > MAX_TEMPLATES {
        let message = format!("there can be {MAX_TEMPLATES} templates, not {}", list.len());
        return Err(ApiError::field("data", message));
    }
    let mut names: Vec<String> = Vec::new();
    let mut templates = Vec::new();
    for (at, template) in list.iter().enumerate() {
        let path = format!("data[{at}]");
        let fields = Fields::of(template, &path)?;
        let (name, text) =
            (fields.required_string("name")?.trim(), fields.required_string("text")?);
        let length = name.chars().count();
        if !(1..=MAX_NAME_CHARS).contains(&length) || name.contains(char::is_control) {
            let message =
                format!("a template's name has 1 to {MAX_NAME_CHARS} characters, on one line");
            return Err(ApiError::field(fields.path("name"), message));
        }
        if names.iter().any(|other| other == name) {
            let message = format!("two templates are called `{}`", name.escape_debug());
            return Err(ApiError::field(fields.path("name"), message));
        }
        if text.len() > MAX_TEXT_BYTES {
            let message = format!("a template has {MAX_TEXT_BYTES} bytes at most");
            return Err(ApiError::field(fields.path("text"), message));
        }
        names.push(name.to_owned());
        templates.push(json!({"name": name, "text": text}));
    }
    Ok(templates.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_template_is_named() {
        for (list, param) in [
            (json!("x"), "data"),
            (json!([{"name": "a"}]), "data[0].text"),
            (json!([{"name": " ", "text": "x"}]), "data[0].name"),
            (json!([{"name": "a\nb", "text": "x"}]), "data[0].name"),
            (json!([{"name": "a", "text": "x"}, {"name": " a", "text": "y"}]), "data[1].name"),
            (json!([{"name": "a", "text": "x".repeat(MAX_TEXT_BYTES + 1)}]), "data[0].text"),
        ] {
            let error = checked(&json!({ "data": list })).expect_err(param);
            assert_eq!(error.param.as_deref(), Some(param));
        }
        let kept = checked(&json!({"data": [{"name": " a ", "text": "x", "more": 1}]})).unwrap();
        assert_eq!(kept, json!([{"name": "a", "text": "x"}]));
    }
}
