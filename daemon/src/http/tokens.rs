//! `/apply-template`, `/tokenize` and `/detokenize`, as llama.cpp's server has them.

use axum::Json;
use axum::extract::State;
use serde_json::{Value, json};

use super::body::JsonBody;
use crate::chat::Chat;
use crate::error::ApiError;
use crate::wire::completion::tokens;
use crate::wire::fields::{Fields, wrong_type};

/// `POST /apply-template`, with the body of a chat.
pub async fn apply_template(
    State(chat): State<Chat>,
    body: JsonBody,
) -> Result<Json<Value>, ApiError> {
    Ok(Json(json!({"prompt": chat.prompt_text(&body.value).await?})))
}

/// `POST /tokenize {"content", "add_special", "parse_special"}`
pub async fn tokenize(State(chat): State<Chat>, body: JsonBody) -> Result<Json<Value>, ApiError> {
    let fields = Fields::of_body(&body.value)?;
    let content = fields.required_string("content")?.to_owned();
    let add_special = fields.boolean("add_special")?.unwrap_or(false);
    let parse_special = fields.boolean("parse_special")?.unwrap_or(true);
    let tokens = chat.tokenize(content, add_special, parse_special).await;
    let ids: Vec<i32> = tokens.iter().map(|token| token.0).collect();
    Ok(Json(json!({"tokens": ids})))
}

/// `POST /detokenize {"tokens"}`; bytes that are no text become U+FFFD.
pub async fn detokenize(State(chat): State<Chat>, body: JsonBody) -> Result<Json<Value>, ApiError> {
    let fields = Fields::of_body(&body.value)?;
    let list = fields.required("tokens")?;
    let list = list.as_array().ok_or_else(|| wrong_type("tokens", "an array of tokens", list))?;
    let tokens = tokens(list, "tokens", chat.engine().model().vocabulary().len())?;
    Ok(Json(json!({"content": chat.detokenize(tokens).await})))
}
