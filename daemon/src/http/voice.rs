//! `/v1/voice`: a phrase to play while the model thinks, and speech written down.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use hob_slots::ConversationId;
use serde::Deserialize;
use serde_json::{Value, json};

use super::body::WavBody;
use super::query::Query;
use crate::error::ApiError;
use crate::service::Service;

/// What the phrase says.
const PHRASE: HeaderName = HeaderName::from_static("x-hob-phrase");

/// Which voice, and where.
#[derive(Debug, Deserialize)]
pub struct Wishes {
    voice: Option<String>,
    conversation: Option<String>,
    #[serde(default)]
    stopped: bool,
}

/// `GET /v1/voice/filler?voice=&conversation=&stopped=`: 204 when there is nothing to say.
pub async fn filler(
    State(service): State<Service>,
    Query(wishes): Query<Wishes>,
) -> Result<Response, ApiError> {
    let conversation = wishes.conversation.as_deref().map(ConversationId::new).transpose();
    let conversation =
        conversation.map_err(|error| ApiError::field("conversation", error.to_string()))?;
    if let Some(conversation) = conversation.as_ref().filter(|_| wishes.stopped) {
        service.nobody_speaks(conversation);
    }
    let voice = wishes.voice.as_deref().filter(|voice| !voice.is_empty());
    let Some(filled) = service.filler(voice, conversation.as_ref())? else {
        return Ok(StatusCode::NO_CONTENT.into_response());
    };
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("audio/wav")),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")), // The next one differs.
        (PHRASE, in_a_header(&filled.text)),
    ];
    Ok((headers, filled.wav).into_response())
}

/// `POST /v1/voice/transcriptions`
pub async fn transcribe(
    State(service): State<Service>,
    WavBody(wav): WavBody,
) -> Result<Json<Value>, ApiError> {
    Ok(Json(json!({"text": service.write_down(wav).await?})))
}

/// Headers are ASCII: the rest of the text's UTF-8 is percent-encoded, and so is the percent sign.
fn in_a_header(text: &str) -> HeaderValue {
    let plain = |byte: u8| byte != b'%' && (byte.is_ascii_graphic() || byte == b' ');
    let encoded = text.bytes().map(|byte| match plain(byte) {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02X}"),
    });
    HeaderValue::from_str(&encoded.collect::<String>()).expect("it is visible ASCII and spaces")
}
