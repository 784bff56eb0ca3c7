//! `/v1/conversations/{id}/speech-start`, `transcript` and `speech-end`: computing ahead of somebody
//! who speaks.

use axum::Json;
use axum::extract::{Path, State};
use axum::response::Response;
use hob_slots::ConversationId;
use serde_json::{Value, json};

use super::body::{JsonBody, OptionalBody};
use super::chat;
use crate::error::ApiError;
use crate::service::Service;
use crate::wire::fields::Fields;

/// `POST /v1/conversations/{id}/speech-start`, with what the request of the turn will have beside
/// the words, if anything.
pub async fn start(
    State(service): State<Service>,
    Path(id): Path<String>,
    OptionalBody(options): OptionalBody,
) -> Result<Json<Value>, ApiError> {
    let id = name(&id)?;
    service.speech_start(&id, &options)?;
    Ok(Json(json!({"conversation": id, "object": "conversation.speech", "listening": true})))
}

/// `POST /v1/conversations/{id}/transcript {"text", "final"}`
pub async fn transcript(
    State(service): State<Service>,
    Path(id): Path<String>,
    body: JsonBody,
) -> Result<Json<Value>, ApiError> {
    let fields = Fields::of_body(&body.value)?;
    let text = fields.required_string("text")?.to_owned();
    let is_final = fields.boolean("final")?.unwrap_or(false);
    let id = name(&id)?;
    let certain = service.transcript(&id, text, is_final)?;
    Ok(Json(json!({
        "conversation": id, "object": "conversation.speech", "listening": true,
        "certain": certain,
    })))
}

/// `POST /v1/conversations/{id}/speech-end`: the answer, as `/v1/chat/completions` gives it.
pub async fn end(
    State(service): State<Service>,
    Path(id): Path<String>,
    OptionalBody(options): OptionalBody,
) -> Result<Response, ApiError> {
    let (request, answering) = service.speech_end(&name(&id)?, &options).await?;
    chat::respond(&request, answering).await
}

/// Unlike elsewhere, the conversation need not exist yet.
fn name(id: &str) -> Result<ConversationId, ApiError> {
    ConversationId::new(id)
        .map_err(|error| ApiError::field("id", format!("this cannot name a conversation: {error}")))
}
