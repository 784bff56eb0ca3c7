//! Errors in Anthropic's form.
//!
//! - On the paths of this API the errors of every layer have it; on other paths where the client sends
//!   `anthropic-version`.

use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::Response;
use serde_json::{Value, json};

use super::thread;
use crate::chat::names;
use crate::error::{ApiError, ErrorKind, Overflow};
use crate::http::respond::rewrite_error;

const PATH: &str = "/v1/messages";
const VERSION: &str = "anthropic-version";
const REQUEST_ID: &str = "request-id";

/// Anthropic's status for a busy server.
const OVERLOADED: u16 = 529;

/// The middleware that writes errors in this form and gives each request an id.
pub async fn in_anthropics_form(request: Request, next: Next) -> Response {
    let is_own = is_own(request.uri().path(), request.headers());
    let response = next.run(request).await;
    if is_own { named(response) } else { response }
}

fn is_own(path: &str, headers: &HeaderMap) -> bool {
    let below = path.strip_prefix(PATH);
    below.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        || headers.contains_key(VERSION)
}

fn named(mut response: Response) -> Response {
    let id = names::request();
    rewrite_error(&mut response, |error| {
        let mut body = to_json(error);
        body["request_id"] = id.as_str().into();
        (status(error.kind), body)
    });
    let id = HeaderValue::from_str(&id).expect("hex digits make a header");
    response.headers_mut().insert(REQUEST_ID, id);
    response
}

/// An error of a request, and an event of a stream.
pub fn to_json(error: &ApiError) -> Value {
    let mut body = json!({
        "type": "error",
        "error": {
            "type": kind(error.kind),
            "message": message(error),
            "param": error.param,
            "code": error.code,
        },
    });
    let of_threads = [thread::NOT_FOUND, thread::UNSUPPORTED, thread::CHANGED];
    if let Some(code) = error.code.filter(|code| of_threads.contains(code)) {
        body["error"]["details"] = json!({"error_code": code});
    }
    body
}

/// Clients show nothing of an error but its message, and Claude Code compacts a conversation by these words
/// and numbers.
fn message(error: &ApiError) -> String {
    let message = &error.message;
    if let Some(Overflow { prompt_tokens, context_tokens }) = error.overflow {
        return format!(
            "prompt is too long: {prompt_tokens} tokens > {context_tokens} maximum. {message}"
        );
    }
    let unnamed = |param: &&String| !message.contains(&format!("`{param}"));
    match error.param.as_ref().filter(unnamed) {
        Some(param) => format!("`{param}`: {message}"),
        None => message.clone(),
    }
}

fn status(kind: ErrorKind) -> StatusCode {
    let status = if kind == ErrorKind::Busy { OVERLOADED } else { kind.status() };
    StatusCode::from_u16(status).expect("our statuses are valid")
}

fn kind(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::Unauthorized => "authentication_error",
        ErrorKind::Forbidden => "permission_error",
        ErrorKind::NotFound => "not_found_error",
        ErrorKind::TooLarge => "request_too_large",
        ErrorKind::Timeout => "timeout_error",
        ErrorKind::Busy => "overloaded_error",
        ErrorKind::Internal
        | ErrorKind::InsufficientStorage
        | ErrorKind::NotImplemented
        | ErrorKind::Upstream => "api_error",
        ErrorKind::Invalid
        | ErrorKind::MethodNotAllowed
        | ErrorKind::Conflict
        | ErrorKind::UnsupportedMedia => "invalid_request_error",
    }
}
