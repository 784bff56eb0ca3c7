//! Errors below `/api/` in Ollama's form: `{"error": "message"}`, under the status that they have anyway.

use axum::Json;
use axum::extract::Request;
use axum::http::header;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use super::super::paths::is_ollamas;
use crate::error::ApiError;

/// The middleware in front of every route.
pub async fn in_ollamas_form(request: Request, next: Next) -> Response {
    let is_ollamas = is_ollamas(request.uri().path());
    let mut response = next.run(request).await;
    let Some(error) = response.extensions_mut().remove::<ApiError>() else { return response };
    if !is_ollamas {
        return response;
    }
    let (mut head, _) = response.into_parts();
    head.headers.remove(header::CONTENT_LENGTH);
    head.headers.remove(header::CONTENT_TYPE);
    (head.status, head.headers, Json(object(&error))).into_response()
}

/// The field that is wrong has no place of its own: the message names it.
pub fn object(error: &ApiError) -> Value {
    match &error.param {
        Some(param) if !error.message.contains(param) => {
            json!({"error": format!("`{param}`: {}", error.message)})
        }
        _ => json!({"error": error.message}),
    }
}
