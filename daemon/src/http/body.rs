//! Reads a request's body, bounded in size and time, and of the type that the route accepts.
//!
//! - JSON may come as any type: many clients send it as text or as a form.
//! - A request without the token names no stored conversation, profile or document: their texts are for those who have
//!   the token.

use std::time::Duration;

use axum::body::HttpBody;
use axum::extract::{FromRequest, Request};
use axum::http::{HeaderMap, header};
use futures_util::StreamExt;
use serde_json::Value;

use super::Shared;
use super::guard::WithoutToken;
use crate::chat::identity::{Identity, Session};
use crate::error::{ApiError, ErrorKind};
use crate::wire::hob::{ProfileChoice, profile_choice};

#[derive(Clone, Copy, Debug)]
pub struct BodyLimits {
    pub bytes: usize,
    /// For the whole body.
    pub time: Duration,
}

/// A JSON body, and the session that the headers name.
pub struct JsonBody {
    pub value: Value,
    pub session: Session,
}

impl FromRequest<Shared> for JsonBody {
    type Rejection = ApiError;

    async fn from_request(request: Request, shared: &Shared) -> Result<Self, ApiError> {
        let has_token = request.extensions().get::<WithoutToken>().is_none();
        let session = session(request.headers())?;
        let is_announced = announces_json(request.headers());
        let bytes = read_in_time(request, shared.limits).await?;
        let explained = |error| if is_announced { error } else { must_be("application/json") };
        let value = parsed(&bytes).map_err(explained)?;
        if !has_token {
            check_without_token(&value, &session)?;
        }
        Ok(Self { value, session })
    }
}

/// # Errors
/// 401 with the field that names something stored.
fn check_without_token(body: &Value, session: &Session) -> Result<(), ApiError> {
    let (param, what) = if Identity::of(body, session)?.named().is_some() {
        ("conversation".to_owned(), "conversation")
    } else if matches!(profile_choice(body), Ok(ProfileChoice::Named(_))) {
        ("hob.profile".to_owned(), "profile")
    } else if let Some(path) = documents_of(body) {
        (path, "document")
    } else {
        return Ok(());
    };
    Err(needs_token(param, &format!("a stored {what} needs the token: send")))
}

/// `message`: what needs the token, up to the header that has it.
pub(super) fn needs_token(param: impl Into<String>, message: &str) -> ApiError {
    let message = format!("{message} `Authorization: Bearer <token>`");
    ApiError::new(ErrorKind::Unauthorized, message).param(param).code("missing_token")
}

/// The first message that names documents.
fn documents_of(body: &Value) -> Option<String> {
    ["messages", "input"].into_iter().find_map(|list| {
        let mut entries = body[list].as_array()?.iter();
        let n = entries.position(|entry| !entry["hob"]["documents"].is_null())?;
        Some(format!("{list}[{n}].hob.documents"))
    })
}

/// Parses JSON.
pub(super) fn parsed(bytes: &[u8]) -> Result<Value, ApiError> {
    // serde_json reports the position and never quotes the text.
    serde_json::from_slice(bytes).map_err(|error| {
        ApiError::new(ErrorKind::Invalid, format!("the body is not JSON: {error}"))
            .code("invalid_json")
    })
}

/// A JSON body; `null` without one.
pub struct OptionalBody(pub Value);

impl FromRequest<Shared> for OptionalBody {
    type Rejection = ApiError;

    async fn from_request(request: Request, shared: &Shared) -> Result<Self, ApiError> {
        if request.body().is_end_stream() {
            return Ok(Self(Value::Null));
        }
        Ok(Self(JsonBody::from_request(request, shared).await?.value))
    }
}

/// A body whose type is WAV.
pub struct WavBody(pub Vec<u8>);

impl FromRequest<Shared> for WavBody {
    type Rejection = ApiError;

    async fn from_request(request: Request, shared: &Shared) -> Result<Self, ApiError> {
        const KINDS: [&str; 4] = ["audio/wav", "audio/x-wav", "audio/wave", "audio/vnd.wave"];
        if !kind(request.headers()).is_some_and(|kind| KINDS.contains(&kind.as_str())) {
            return Err(must_be("audio/wav"));
        }
        Ok(Self(read_in_time(request, shared.limits).await?))
    }
}

/// A piece of sound, as raw samples.
pub struct PcmBody(pub Vec<u8>);

/// 11 s at 48 kHz. A client that could not send for a while sends several.
const MAX_PCM_BYTES: usize = 1 << 20;

impl FromRequest<Shared> for PcmBody {
    type Rejection = ApiError;

    async fn from_request(request: Request, shared: &Shared) -> Result<Self, ApiError> {
        if kind(request.headers()).as_deref() != Some("audio/pcm") {
            return Err(must_be("audio/pcm"));
        }
        let BodyLimits { bytes, time } = shared.limits;
        let limits = BodyLimits { bytes: bytes.min(MAX_PCM_BYTES), time };
        let refused = |error| match error {
            ApiError { kind: ErrorKind::TooLarge, .. } => too_large_piece(limits.bytes),
            other => other,
        };
        Ok(Self(read_in_time(request, limits).await.map_err(refused)?))
    }
}

/// The content type, without parameters.
pub(super) fn kind(headers: &HeaderMap) -> Option<String> {
    let kind = headers.get(header::CONTENT_TYPE)?.to_str().unwrap_or_default();
    Some(kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase())
}

/// A body without a type counts as JSON.
fn announces_json(headers: &HeaderMap) -> bool {
    kind(headers).is_none_or(|kind| {
        kind == "application/json" || kind.starts_with("application/") && kind.ends_with("+json")
    })
}

/// The answer to a body of another type.
pub(super) fn must_be(kind: &str) -> ApiError {
    ApiError::new(ErrorKind::UnsupportedMedia, format!("the body must be {kind}"))
        .code("unsupported_media_type")
}

fn session(headers: &HeaderMap) -> Result<Session, ApiError> {
    let named = |name: &str| {
        let Some(session) = headers.get(name) else { return Ok(None) };
        let session = std::str::from_utf8(session.as_bytes()).map(str::to_owned);
        let refused = |_| ApiError::field(name, format!("`{name}` is not valid UTF-8"));
        session.map(Some).map_err(refused)
    };
    Ok(Session { own: named("X-Session-Id")?, evoke: named("X-Evoke-Session")? })
}

/// A body of any type.
pub(super) async fn read_in_time(
    request: Request,
    limits: BodyLimits,
) -> Result<Vec<u8>, ApiError> {
    tokio::time::timeout(limits.time, read(request, limits.bytes)).await.map_err(|_| {
        let secs = limits.time.as_secs();
        let message = format!(
            "the body did not arrive within {secs} s: send it again, or start hobd with a larger request_timeout_secs"
        );
        ApiError::new(ErrorKind::Timeout, message).code("timeout")
    })?
}

/// No setting allows a longer piece of sound.
fn too_large_piece(max_bytes: usize) -> ApiError {
    let message = format!("a piece of sound has at most {max_bytes} bytes: send several pieces");
    ApiError::new(ErrorKind::TooLarge, message).code("body_too_large")
}

async fn read(request: Request, max_bytes: usize) -> Result<Vec<u8>, ApiError> {
    let too_large = || {
        let message = format!(
            "the body has more than {max_bytes} bytes: send less, or start hobd with a larger max_body_bytes"
        );
        ApiError::new(ErrorKind::TooLarge, message).code("body_too_large")
    };
    let announced = request.headers().get(header::CONTENT_LENGTH);
    let announced = announced.and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
    if announced.is_some_and(|length| length > max_bytes) {
        return Err(too_large());
    }
    let mut bytes = Vec::with_capacity(announced.unwrap_or(0));
    let mut stream = request.into_body().into_data_stream();
    while let Some(chunk) = stream.next().await {
        let chunk = chunk.map_err(|_| {
            ApiError::new(ErrorKind::Invalid, "the body broke off").code("incomplete_body")
        })?;
        if bytes.len() + chunk.len() > max_bytes {
            return Err(too_large());
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use axum::body::{Body, Bytes};
    use futures_util::stream;

    use super::*;

    async fn refused(body: Body) -> ApiError {
        let limits = BodyLimits { bytes: 3, time: Duration::from_secs(60) };
        read_in_time(Request::new(body), limits).await.unwrap_err()
    }

    #[tokio::test(start_paused = true)]
    async fn the_refusal_of_a_body_names_its_limit_and_the_setting_that_moves_it() {
        let large = refused(Body::from("four")).await;
        assert_eq!(large.kind, ErrorKind::TooLarge);
        let late = refused(Body::from_stream(stream::pending::<Result<Bytes, Infallible>>())).await;
        assert_eq!(late.kind, ErrorKind::Timeout);
        for (error, limit, setting) in
            [(large, "3 bytes", "max_body_bytes"), (late, "60 s", "request_timeout_secs")]
        {
            assert!(error.message.contains(limit) && error.message.contains(setting), "{error}");
        }
    }
}
