//! `/v1/conversations/{id}/speech-start`, `transcript` and `speech-end`: speculative prefill while
//! the user speaks.

use axum::Json;
use axum::extract::{Path, State};
use axum::response::Response;
use hob_slots::ConversationId;
use serde_json::{Value, json};

use super::body::{JsonBody, OptionalBody};
use super::chat;
use crate::chat::identity::conversation_id;
use crate::error::ApiError;
use crate::speech::Speech;
use crate::wire::fields::Fields;

/// `POST /v1/conversations/{id}/speech-start`, with the fields of the next request beside the
/// words.
pub async fn start(
    State(speech): State<Speech>,
    Path(id): Path<String>,
    OptionalBody(options): OptionalBody,
) -> Result<Json<Value>, ApiError> {
    let id = name(&id)?;
    speech.start(&id, &options)?;
    Ok(Json(json!({"conversation": id, "object": "conversation.speech", "listening": true})))
}

/// `POST /v1/conversations/{id}/transcript {"text", "final"}`
pub async fn transcript(
    State(speech): State<Speech>,
    Path(id): Path<String>,
    body: JsonBody,
) -> Result<Json<Value>, ApiError> {
    let fields = Fields::of_body(&body.value)?;
    let text = fields.required_string("text")?.to_owned();
    let is_final = fields.boolean("final")?.unwrap_or(false);
    let id = name(&id)?;
    let certain = speech.transcript(&id, text, is_final, &Value::Null)?;
    Ok(Json(json!({
        "conversation": id, "object": "conversation.speech", "listening": true,
        "certain": certain,
    })))
}

/// `POST /v1/conversations/{id}/speech-end`: answers as `/v1/chat/completions` does.
pub async fn end(
    State(speech): State<Speech>,
    Path(id): Path<String>,
    OptionalBody(options): OptionalBody,
) -> Result<Response, ApiError> {
    let (request, answer) = speech.end(&name(&id)?, &options).await?;
    chat::respond(&request, answer).await
}

/// Unlike elsewhere, the conversation need not exist yet.
pub(super) fn name(id: &str) -> Result<ConversationId, ApiError> {
    conversation_id(id, "id")
}
