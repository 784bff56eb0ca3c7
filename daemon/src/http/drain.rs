//! Reads what a handler left of a request's body, so that the connection can be used again.
//!
//! - A client that keeps its connection open sends its whole body, also where the answer is a refusal that
//!   needs none of it.
//! - Beyond `MAX_BYTES` or `MAX_TIME` the answer says `Connection: close` instead.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, BodyDataStream, Bytes, HttpBody};
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::middleware::Next;
use axum::response::Response;
use futures_util::{Stream, StreamExt};
use parking_lot::Mutex;

const MAX_BYTES: usize = 1 << 20;
const MAX_TIME: Duration = Duration::from_secs(1);

/// The middleware in front of every route.
pub async fn drain(request: Request, next: Next) -> Response {
    if request.body().is_end_stream() {
        return next.run(request).await;
    }
    let is_drained = may_be_drained(request.headers());
    let (head, body) = request.into_parts();
    let body = RequestBody { stream: body.into_data_stream(), is_over: false };
    let body = Arc::new(Mutex::new(body));
    let of_handler = Body::from_stream(HandlerBody(body.clone()));
    let mut response = next.run(Request::from_parts(head, of_handler)).await;
    let closes = response.headers().get(header::CONNECTION).is_some_and(|value| value == "close");
    // A handler that still reads takes all of it.
    let Some(body) = Arc::into_inner(body).map(Mutex::into_inner) else { return response };
    let is_usable = body.is_over || closes || is_drained && reached_the_end(body.stream).await;
    if !is_usable {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

/// Not a body that is too long, or that the client sends only when it is asked to.
fn may_be_drained(headers: &HeaderMap) -> bool {
    let announced = headers.get(header::CONTENT_LENGTH);
    let announced = announced.and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
    !headers.contains_key(header::EXPECT) && announced.is_none_or(|length| length <= MAX_BYTES)
}

async fn reached_the_end(mut stream: BodyDataStream) -> bool {
    let read = async {
        let mut bytes = 0;
        while let Some(Ok(chunk)) = stream.next().await {
            bytes += chunk.len();
            if bytes > MAX_BYTES {
                return false;
            }
        }
        true
    };
    tokio::time::timeout(MAX_TIME, read).await.unwrap_or(false)
}

/// A body that a handler reads from its beginning, and the middleware to its end.
struct RequestBody {
    stream: BodyDataStream,
    is_over: bool,
}

/// The body that the handler gets.
struct HandlerBody(Arc<Mutex<RequestBody>>);

impl Stream for HandlerBody {
    type Item = Result<Bytes, axum::Error>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let mut body = self.0.lock();
        let next = body.stream.poll_next_unpin(context);
        body.is_over |= matches!(next, Poll::Ready(None | Some(Err(_))));
        next
    }
}
