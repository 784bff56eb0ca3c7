//! `/v1/conversations/{id}/typing`: speculative prefill while the user types.

use axum::Json;
use axum::extract::{Path, State};
use serde_json::{Value, json};

use super::body::JsonBody;
use super::speech::name;
use crate::error::ApiError;
use crate::speech::Speech;
use crate::wire::fields::Fields;

const OBJECT: &str = "conversation.typing";

/// `POST /v1/conversations/{id}/typing {"text"}`: the message so far, and the fields of the next
/// request beside it.
pub async fn typed(
    State(speech): State<Speech>,
    Path(id): Path<String>,
    body: JsonBody,
) -> Result<Json<Value>, ApiError> {
    let text = Fields::of_body(&body.value)?.required_string("text")?.to_owned();
    let mut options = body.value;
    if let Some(options) = options.as_object_mut() {
        options.shift_remove("text");
    }
    let id = name(&id)?;
    let reason = speech.typed(&id, text, &options).await?.reason();
    Ok(Json(json!({
        "conversation": id, "object": OBJECT, "ahead": reason.is_none(), "reason": reason,
    })))
}

/// `DELETE /v1/conversations/{id}/typing`: no message follows.
pub async fn left(
    State(speech): State<Speech>,
    Path(id): Path<String>,
) -> Result<Json<Value>, ApiError> {
    let id = name(&id)?;
    speech.typing_left(&id);
    Ok(Json(json!({"conversation": id, "object": OBJECT, "ahead": false, "reason": null})))
}
