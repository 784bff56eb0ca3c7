//! Errors and JSON as HTTP responses.
//!
//! - The response to an error carries the error itself, so that the layer of another API can write it in
//!   that API's form.

use axum::Json;
use axum::body::Body;
use axum::http::{HeaderValue, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};

use serde_json::Value;

use super::paths;
use crate::error::{ApiError, ErrorKind};

/// When a client may retry a request to a busy daemon, unless an engine at another address says so.
const RETRY_AFTER_SECS: &str = "1";

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.kind.status()).expect("our statuses are valid");
        let mut response = (status, Json(self.to_json())).into_response();
        let (kind, headers) = (self.kind, response.headers_mut());
        match kind {
            ErrorKind::Busy => {
                let said =
                    self.retry_after.as_deref().and_then(|it| HeaderValue::from_str(it).ok());
                let own = HeaderValue::from_static(RETRY_AFTER_SECS);
                headers.insert(header::RETRY_AFTER, said.unwrap_or(own));
            }
            ErrorKind::Unauthorized => {
                headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            }
            // The rest of the body is not read, so the connection cannot be reused.
            ErrorKind::TooLarge | ErrorKind::Timeout => {
                headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
            }
            _ => {}
        }
        response.extensions_mut().insert(self); // For protocols with errors of another shape.
        response
    }
}

/// Writes the error that a response carries anew, in another API's form.
pub fn rewrite_error(
    response: &mut Response,
    write: impl FnOnce(&ApiError) -> (StatusCode, Value),
) {
    let Some(error) = response.extensions_mut().remove::<ApiError>() else { return };
    let (status, body) = write(&error);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.remove(header::CONTENT_LENGTH);
    headers.remove(header::CONTENT_ENCODING); // What no route has is answered compressed.
    *response.body_mut() = Body::from(body.to_string());
}

/// No route has this path.
pub async fn no_such_path(method: Method, uri: Uri) -> ApiError {
    let path = paths::shown(uri.path());
    let remedy = match paths::instead(uri.path()) {
        Some(route) => format!("use {route}"),
        None => "docs/HTTP.md lists the routes".to_owned(),
    };
    ApiError::not_found(format!("hobd has no route `{method} {path}`: {remedy}"))
}

/// The route does not take this method.
pub async fn no_such_method(method: Method, uri: Uri) -> ApiError {
    let message = format!("`{}` does not take {method}", paths::shown(uri.path()));
    ApiError::new(ErrorKind::MethodNotAllowed, message).code("method_not_allowed")
}
