//! Streams of JSON objects, one a line.
//!
//! - The stream owns its source, as that of server-sent events does: a disconnect cancels the turn.
//! - Nothing keeps the connection alive between two objects: clients parse every line.

use std::convert::Infallible;

use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, header};
use axum::response::Response;
use futures_util::stream;

use super::super::sse::Source;

pub fn stream(source: impl Source) -> Response {
    let lines = stream::unfold(source, |mut source| async {
        let object = source.next().await?;
        Some((Ok::<_, Infallible>(Bytes::from(format!("{object}\n"))), source))
    });
    let mut response = Response::new(Body::from_stream(lines));
    let kind = HeaderValue::from_static("application/x-ndjson");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}
