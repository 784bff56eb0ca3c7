//! Errors below `/api/` in Ollama's form: `{"error": "message"}`, under the status that they have anyway.

use axum::extract::Request;
use axum::middleware::Next;
use axum::response::Response;
use serde_json::{Value, json};

use super::super::paths::is_ollamas;
use super::super::respond::rewrite_error;
use crate::error::ApiError;

/// The middleware in front of every route.
pub async fn in_ollamas_form(request: Request, next: Next) -> Response {
    let is_ollamas = is_ollamas(request.uri().path());
    let mut response = next.run(request).await;
    if is_ollamas {
        let status = response.status();
        rewrite_error(&mut response, |error| (status, object(error)));
    }
    response
}

/// The field that is wrong has no place of its own: the message names it.
pub fn object(error: &ApiError) -> Value {
    match &error.param {
        Some(param) if !error.message.contains(&format!("`{param}")) => {
            json!({"error": format!("`{param}`: {}", error.message)})
        }
        _ => json!({"error": error.message}),
    }
}
