//! `POST /v1/audio/transcriptions`, and why there is no translation.

use axum::body::Bytes;
use axum::extract::{FromRequest, Request, State};
use axum::http::header;
use axum::response::Response;
use futures_util::stream;
use multer::Multipart;

use super::transcript::{Format, Transcript};
use crate::error::{ApiError, ErrorKind};
use crate::http::Shared;
use crate::http::body;
use crate::speech::Speech;
use crate::speech::wav::seconds_of;
use crate::wire::fields::unsupported;

/// `POST /v1/audio/transcriptions`: a form with `file`, a WAV, `response_format` and `stream`.
pub async fn transcribe(
    State(speech): State<Speech>,
    Form { file, format, streams, language }: Form,
) -> Result<Response, ApiError> {
    let seconds = seconds_of(&file);
    let text = speech.transcribe(file).await?;
    let transcript = Transcript { text, seconds: seconds.unwrap_or_default(), language };
    Ok(if streams { transcript.streamed() } else { transcript.written(format) })
}

/// `POST /v1/audio/translations`: refused. The command is one program with fixed arguments, and writes the language
/// that it hears.
pub async fn translate() -> ApiError {
    const MESSAGE: &str = "`/v1/audio/translations` is not supported: `voice_recognizer` writes down the language \
                           that is spoken. Send the file to /v1/audio/transcriptions, and have a chat translate the \
                           text";
    ApiError::new(ErrorKind::Invalid, MESSAGE).code("unsupported")
}

/// The fields of a transcription's form.
pub struct Form {
    file: Vec<u8>,
    format: Format,
    streams: bool,
    /// As the client knows it.
    language: Option<String>,
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
    let (mut file, mut format, mut streams, mut language) = (None, Format::Json, false, None);
    while let Some(field) = form.next_field().await.map_err(broken)? {
        let name = field.name().unwrap_or_default().to_owned();
        if name == "file" {
            file = Some(field.bytes().await.map_err(broken)?.to_vec());
            continue;
        }
        let value = field.text().await.map_err(broken)?;
        match name.as_str() {
            "response_format" => format = value.parse()?,
            "stream" => streams = boolean(&name, &value)?,
            "language" => language = Some(value).filter(|language| !language.is_empty()),
            "timestamp_granularities[]" | "timestamp_granularities" if value == "word" => {
                let message = "`timestamp_granularities`: the command says no times of words";
                return Err(unsupported("timestamp_granularities", message));
            }
            _ => {} // The model is the configured one.
        }
    }
    if streams && format != Format::Json {
        let message = "`stream` needs `response_format` json: events have no other";
        return Err(ApiError::field("response_format", message));
    }
    let file = file.ok_or_else(|| ApiError::field("file", "the form has no `file`: send a WAV"))?;
    Ok(Form { file, format, streams, language })
}

fn boolean(name: &str, value: &str) -> Result<bool, ApiError> {
    match value.to_ascii_lowercase().as_str() {
        "true" | "1" => Ok(true),
        "false" | "0" | "" => Ok(false),
        _ => Err(ApiError::field(name, format!("`{name}` must be true or false"))),
    }
}
