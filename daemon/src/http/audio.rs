//! `/v1/audio`: speech and transcription as in OpenAI's API.

use axum::Json;
use axum::body::Bytes;
use axum::extract::{FromRequest, Request, State};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use multer::Multipart;
use serde_json::json;

use super::Shared;
use super::body::{self, JsonBody};
use crate::error::{ApiError, ErrorKind};
use crate::speech::Speech;
use crate::wire::fields::Fields;

/// OpenAI's limit of `input`.
const MAX_INPUT_CHARS: usize = 4_096;

/// Of `pcm`, as in OpenAI's API.
const PCM_RATE: u32 = 24_000;

/// OpenAI's voices. Its clients always name one, so the default voice speaks for all of them.
const OPENAI_VOICES: [&str; 13] = [
    "alloy", "ash", "ballad", "cedar", "coral", "echo", "fable", "marin", "nova", "onyx", "sage",
    "shimmer", "verse",
];

/// `POST /v1/audio/speech {"input", "voice", "response_format"}`
pub async fn speak(State(speech): State<Speech>, body: JsonBody) -> Result<Response, ApiError> {
    let fields = Fields::of_body(&body.value)?;
    let input = fields.required_string("input")?;
    let length = input.chars().count();
    if length > MAX_INPUT_CHARS {
        let message = format!("`input` has {length} characters; at most {MAX_INPUT_CHARS} fit");
        return Err(ApiError::field("input", message));
    }
    let voice = fields.string("voice")?.filter(|voice| !OPENAI_VOICES.contains(voice));
    let format = fields.string("response_format")?.unwrap_or("wav");
    if !matches!(format, "wav" | "pcm") {
        let message = format!(
            "`response_format` {:?} is not available: ask for wav or pcm",
            format.escape_debug().to_string()
        );
        return Err(ApiError::field("response_format", message));
    }
    let sound = speech.synthesize(voice, input).await?;
    let sound = sound.ok_or_else(|| ApiError::field("input", "`input` has no words to speak"))?;
    let (kind, bytes) = match format {
        "pcm" => ("audio/pcm", sound.at_rate(PCM_RATE).to_pcm()),
        _ => ("audio/wav", sound.to_wav()),
    };
    Ok(([(header::CONTENT_TYPE, kind)], bytes).into_response())
}

/// `POST /v1/audio/transcriptions`: a form with `file`, a WAV, and `response_format`.
pub async fn transcribe(
    State(speech): State<Speech>,
    Form { file, format }: Form,
) -> Result<Response, ApiError> {
    let text = speech.transcribe(file).await?;
    Ok(match format.as_str() {
        "text" => format!("{text}\n").into_response(),
        _ => Json(json!({"text": text})).into_response(),
    })
}

/// The fields of a transcription's form.
pub struct Form {
    file: Vec<u8>,
    format: String,
}

impl FromRequest<Shared> for Form {
    type Rejection = ApiError;

    async fn from_request(request: Request, shared: &Shared) -> Result<Self, ApiError> {
        let kind = request.headers().get(header::CONTENT_TYPE);
        let boundary = kind.and_then(|kind| multer::parse_boundary(kind.to_str().ok()?).ok());
        let boundary = boundary.ok_or_else(|| body::must_be("multipart/form-data"))?;
        let bytes = body::read_in_time(request, shared.limits).await?;
        let whole = stream::iter([Ok::<_, std::convert::Infallible>(Bytes::from(bytes))]);
        read(Multipart::new(whole, boundary)).await
    }
}

async fn read(mut form: Multipart<'_>) -> Result<Form, ApiError> {
    let broken = |error: multer::Error| {
        ApiError::new(ErrorKind::Invalid, format!("the form cannot be read: {error}"))
            .code("invalid_form")
    };
    let (mut file, mut format) = (None, "json".to_owned());
    while let Some(field) = form.next_field().await.map_err(broken)? {
        match field.name() {
            Some("file") => file = Some(field.bytes().await.map_err(broken)?.to_vec()),
            Some("response_format") => format = field.text().await.map_err(broken)?,
            _ => {} // The model is the configured one; the language is the command's.
        }
    }
    if !matches!(format.as_str(), "json" | "text") {
        let message = "`response_format` must be json or text";
        return Err(ApiError::field("response_format", message));
    }
    let file = file.ok_or_else(|| ApiError::field("file", "the form has no `file`: send a WAV"))?;
    Ok(Form { file, format })
}
