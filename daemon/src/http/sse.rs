//! Server-sent events: one `data:` line an object; by default without names, and `[DONE]` at the end.
//!
//! - The stream owns its source. A disconnect drops the stream and the source, which cancels the
//!   turn; no buffer in between keeps it alive.
//! - Without an event for ten seconds, a comment or the source's own event keeps the connection alive. The wait for the
//!   event goes on behind it.

use std::convert::Infallible;
use std::fmt::Display;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, header};
use axum::response::Response;
use futures_util::future::BoxFuture;
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
    let events = stream::unfold(Some(next_of(source)), |wait| async {
        let mut wait = wait?;
        let (bytes, wait) = match tokio::time::timeout(KEEP_ALIVE, &mut wait).await {
            Err(_) => (Bytes::from_static(S::WAITING.as_bytes()), Some(wait)),
            Ok((Some(object), source)) => (Bytes::from(event::<S>(&object)), Some(next_of(source))),
            Ok((None, _)) if S::DONE.is_empty() => return None,
            Ok((None, _)) => (Bytes::from_static(S::DONE.as_bytes()), None),
        };
        Some((Ok::<_, Infallible>(bytes), wait))
    });
    let mut response = Response::new(Body::from_stream(events));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}

/// The wait for the next object. It owns the source.
fn next_of<S: Source>(mut source: S) -> BoxFuture<'static, (Option<S::Object>, S)> {
    Box::pin(async move {
        let object = source.next().await;
        (object, source)
    })
}

fn event<S: Source>(object: &S::Object) -> String {
    match S::name(object) {
        Some(name) => format!("event: {name}\ndata: {object}\n\n"),
        None => format!("data: {object}\n\n"),
    }
}

#[cfg(test)]
mod tests {
    use axum::body::to_bytes;
    use tokio::time::{sleep, timeout};

    use super::*;

    struct Slow {
        has_ended: bool,
    }

    impl Source for Slow {
        type Object = &'static str;

        async fn next(&mut self) -> Option<&'static str> {
            if self.has_ended {
                return None;
            }
            sleep(KEEP_ALIVE * 5 / 2).await;
            self.has_ended = true;
            Some("{}")
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_goes_on_behind_keep_alives() {
        let body = stream(Slow { has_ended: false }).into_body();
        let sent = timeout(KEEP_ALIVE * 10, to_bytes(body, usize::MAX)).await;
        let sent = sent.expect("the event is sent").unwrap();
        assert_eq!(sent, ": waiting\n\n: waiting\n\ndata: {}\n\ndata: [DONE]\n\n");
    }
}
