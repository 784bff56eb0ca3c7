//! Server-sent events: one `data:` line an object; by default without names, and `[DONE]` at the end.
//!
//! - The stream owns its source. A disconnect drops the stream and the source, which cancels the
//!   turn; no buffer in between keeps it alive.
//! - Without an event for ten seconds, a comment or the source's own event keeps the connection alive.

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

    /// Sent where nothing else is.
    const WAITING: &'static str = ": waiting\n\n";
    /// Sent behind the last object; empty: nothing.
    const DONE: &'static str = "data: [DONE]\n\n";

    /// The name of the event; `None`: it has none.
    fn name(_object: &Self::Object) -> Option<&str> {
        None
    }

    /// The next object; `None` at the end.
    fn next(&mut self) -> impl Future<Output = Option<Self::Object>> + Send;
}

pub fn stream<S: Source>(source: S) -> Response {
    let events = stream::unfold(Some(source), |source| async {
        let mut source = source?;
        let (bytes, source) = match tokio::time::timeout(KEEP_ALIVE, source.next()).await {
            Err(_) => (Bytes::from_static(S::WAITING.as_bytes()), Some(source)),
            Ok(Some(object)) => (Bytes::from(event::<S>(&object)), Some(source)),
            Ok(None) if S::DONE.is_empty() => return None,
            Ok(None) => (Bytes::from_static(S::DONE.as_bytes()), None),
        };
        Some((Ok::<_, Infallible>(bytes), source))
    });
    let mut response = Response::new(Body::from_stream(events));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}

fn event<S: Source>(object: &S::Object) -> String {
    match S::name(object) {
        Some(name) => format!("event: {name}\ndata: {object}\n\n"),
        None => format!("data: {object}\n\n"),
    }
}
