//! `POST /v1/audio/speech`

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::json;

use super::events;
use crate::error::ApiError;
use crate::http::body::JsonBody;
use crate::speech::Speech;
use crate::speech::voice::named_voice;
use crate::wire::fields::Fields;

/// OpenAI's limit of `input`.
const MAX_INPUT_CHARS: usize = 4_096;

/// The rate of `pcm`, as in OpenAI's API.
const PCM_RATE: u32 = 24_000;

/// Bytes of sound in one event.
const EVENT_BYTES: usize = 48 << 10;

/// `POST /v1/audio/speech {"input", "voice", "response_format", "stream_format"}`
pub async fn speak(State(speech): State<Speech>, body: JsonBody) -> Result<Response, ApiError> {
    let fields = Fields::of_body(&body.value)?;
    let input = fields.required_string("input")?;
    let length = input.chars().count();
    if length > MAX_INPUT_CHARS {
        let message = format!("`input` has {length} characters; at most {MAX_INPUT_CHARS} fit");
        return Err(ApiError::field("input", message));
    }
    let voice = named_voice(fields.string("voice")?);
    let format = fields.string("response_format")?.unwrap_or("wav");
    if !matches!(format, "wav" | "pcm") {
        let message = format!(
            "`response_format` {:?} is not available: ask for wav or pcm",
            format.escape_debug().to_string()
        );
        return Err(ApiError::field("response_format", message));
    }
    let streams = match fields.string("stream_format")? {
        None | Some("audio") => false,
        Some("sse") => true,
        Some(other) => {
            let other = other.escape_debug();
            let message = format!("`stream_format` must be audio or sse, not `{other}`");
            return Err(ApiError::field("stream_format", message));
        }
    };
    let sound = speech.synthesize(voice, input).await?;
    let sound = sound.ok_or_else(|| ApiError::field("input", "`input` has no words to speak"))?;
    let (kind, bytes) = match format {
        "pcm" => ("audio/pcm", sound.at_rate(PCM_RATE).to_pcm()),
        _ => ("audio/wav", sound.to_wav()),
    };
    if streams {
        let piece =
            |bytes: &[u8]| json!({"type": "speech.audio.delta", "audio": BASE64.encode(bytes)});
        let done = json!({"type": "speech.audio.done"});
        return Ok(events::stream(bytes.chunks(EVENT_BYTES).map(piece).chain([done])));
    }
    Ok(([(header::CONTENT_TYPE, kind)], bytes).into_response())
}
