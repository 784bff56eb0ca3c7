//! Sound and transcripts as server-sent events. The commands are over when the first one is sent.

use std::collections::VecDeque;

use axum::response::Response;
use serde_json::Value;

use crate::http::sse;

/// A stream of these.
pub fn stream(events: impl IntoIterator<Item = Value>) -> Response {
    sse::stream(Events(events.into_iter().collect()))
}

struct Events(VecDeque<Value>);

impl sse::Source for Events {
    type Object = Value;

    async fn next(&mut self) -> Option<Value> {
        self.0.pop_front()
    }
}
