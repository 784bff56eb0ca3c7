//! Server-sent events: one `data:` line an object, `[DONE]` at the end.
//!
//! - The stream owns its source. A disconnect drops the stream and the source, which cancels the
//!   turn; no buffer in between keeps it alive.
//! - Without an event for ten seconds, a comment keeps the connection alive.

use std::convert::Infallible;
use std::fmt::Display;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, header};
use axum::response::Response;
use futures_util::stream;

const KEEP_ALIVE: Duration = Duration::from_secs(10);

pub trait Source: Send + 'static {
    /// Displays as JSON on one line.
    type Object: Display + Send;

    /// The next object; `None` at the end.
    fn next(&mut self) -> impl Future<Output = Option<Self::Object>> + Send;
}

/// The response that streams `source`.
pub fn stream(source: impl Source) -> Response {
    let events = stream::unfold(Some(source), |source| async {
        let mut source = source?;
        let (bytes, source) = match tokio::time::timeout(KEEP_ALIVE, source.next()).await {
            Err(_) => (Bytes::from_static(b": waiting\n\n"), Some(source)),
            Ok(Some(object)) => (Bytes::from(format!("data: {object}\n\n")), Some(source)),
            Ok(None) => (Bytes::from_static(b"data: [DONE]\n\n"), None),
        };
        Some((Ok::<_, Infallible>(bytes), source))
    });
    let mut response = Response::new(Body::from_stream(events));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}
