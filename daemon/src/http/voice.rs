//! `/v1/voice`: filler phrases, and transcription.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::{Value, json};

use super::body::WavBody;
use super::query::Query;
use crate::chat::identity::conversation_id;
use crate::error::ApiError;
use crate::speech::Speech;

/// The text of the phrase.
const PHRASE: HeaderName = HeaderName::from_static("x-hob-phrase");

#[derive(Debug, Deserialize)]
pub struct FillerQuery {
    voice: Option<String>,
    conversation: Option<String>,
    #[serde(default)]
    stopped: bool,
}

/// `GET /v1/voice/filler?voice=&conversation=&stopped=`: 204 when there is no phrase to play.
pub async fn filler(
    State(speech): State<Speech>,
    Query(options): Query<FillerQuery>,
) -> Result<Response, ApiError> {
    let conversation = options.conversation.as_deref();
    let conversation =
        conversation.map(|name| conversation_id(name, "conversation")).transpose()?;
    if let Some(conversation) = conversation.as_ref().filter(|_| options.stopped) {
        speech.speech_stopped(conversation);
    }
    let voice = options.voice.as_deref().filter(|voice| !voice.is_empty());
    let Some(filled) = speech.filler(voice, conversation.as_ref())? else {
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
    State(speech): State<Speech>,
    WavBody(wav): WavBody,
) -> Result<Json<Value>, ApiError> {
    Ok(Json(json!({"text": speech.transcribe(wav).await?})))
}

/// Percent-encodes the bytes that a header cannot hold, and the percent sign.
fn in_a_header(text: &str) -> HeaderValue {
    let plain = |byte: u8| byte != b'%' && (byte.is_ascii_graphic() || byte == b' ');
    let encoded = text.bytes().map(|byte| {
        if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }
    });
    HeaderValue::from_str(&encoded.collect::<String>()).expect("it is visible ASCII and spaces")
}
