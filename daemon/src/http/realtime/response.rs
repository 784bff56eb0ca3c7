//! An answer as events.

use std::pin::Pin;

use serde_json::{Value, json};

use super::Events;
use crate::chat::answer::{Answer, Piece};
use crate::chat::names;
use crate::error::ApiError;
use crate::wire::chat::ChatRequest;

type Beginning =
    Pin<Box<dyn Future<Output = Result<(ChatRequest, Answer), ApiError>> + Send + 'static>>;

pub(super) struct Response {
    id: String,
    item: String,
    state: State,
    text: String,
    reason: &'static str,
}

enum State {
    /// The turn is not queued yet.
    Begins(Beginning),
    Runs(Box<Answer>),
    Over,
}

/// One event, with an id of its own.
pub(super) fn event(kind: &str, mut fields: Value) -> Value {
    fields["type"] = kind.into();
    fields["event_id"] = names::answer("event").into();
    fields
}

impl Response {
    pub fn new(beginning: Beginning) -> Self {
        Self {
            id: names::answer("resp"),
            item: names::answer("item"),
            state: State::Begins(beginning),
            text: String::new(),
            reason: "stop",
        }
    }

    /// Whether its last event was returned.
    pub fn is_over(&self) -> bool {
        matches!(self.state, State::Over)
    }

    /// The next events. The wait may be cancelled and repeated.
    pub async fn next(&mut self) -> Events {
        match &mut self.state {
            State::Begins(beginning) => match beginning.await {
                Ok((_, answer)) => {
                    self.state = State::Runs(Box::new(answer));
                    vec![event("response.created", json!({"response": self.body("in_progress")}))]
                }
                Err(error) => self.failed(&error),
            },
            State::Runs(answer) => match answer.next().await {
                Some(Ok(piece)) => self.events_of(piece),
                Some(Err(error)) => self.failed(&error),
                None => self.done(),
            },
            State::Over => std::future::pending().await,
        }
    }

    /// Ends the answer before it is complete.
    pub fn cancelled(mut self) -> Events {
        let mut body = self.body("cancelled");
        body["output"] = self.output();
        self.state = State::Over;
        vec![event("response.done", json!({"response": body}))]
    }

    fn events_of(&mut self, piece: Piece) -> Events {
        match piece {
            Piece::Begin { .. } => Vec::new(),
            Piece::More { delta, .. } if delta.content.is_empty() => Vec::new(),
            Piece::More { delta, .. } => {
                self.text.push_str(&delta.content);
                vec![self.part("response.output_text.delta", json!({"delta": delta.content}))]
            }
            Piece::End { reason, .. } => {
                self.reason = reason;
                Vec::new()
            }
        }
    }

    fn done(&mut self) -> Events {
        let mut body = self.body(if self.reason == "length" { "incomplete" } else { "completed" });
        body["output"] = self.output();
        let text = self.part("response.output_text.done", json!({"text": self.text}));
        let State::Runs(answer) = std::mem::replace(&mut self.state, State::Over) else {
            return Vec::new();
        };
        let usage = answer.usage();
        body["usage"] = json!({
            "input_tokens": usage.prompt,
            "output_tokens": usage.completion,
            "total_tokens": usage.prompt + usage.completion,
            "input_token_details": {"cached_tokens": usage.cached},
        });
        vec![text, event("response.done", json!({"response": body, "hob": answer.hob()}))]
    }

    fn failed(&mut self, error: &ApiError) -> Events {
        self.state = State::Over;
        let mut body = self.body("failed");
        body["status_details"] = error.to_json();
        vec![event("error", error.to_json()), event("response.done", json!({"response": body}))]
    }

    fn part(&self, kind: &str, mut fields: Value) -> Value {
        fields["response_id"] = self.id.as_str().into();
        fields["item_id"] = self.item.as_str().into();
        fields["output_index"] = 0.into();
        fields["content_index"] = 0.into();
        event(kind, fields)
    }

    fn body(&self, status: &str) -> Value {
        json!({"id": self.id, "object": "realtime.response", "status": status, "output": []})
    }

    /// The message, then the calls of tools.
    fn output(&self) -> Value {
        let message = json!({
            "id": self.item, "object": "realtime.item", "type": "message", "role": "assistant",
            "content": [{"type": "output_text", "text": self.text}],
        });
        let State::Runs(answer) = &self.state else { return json!([message]) };
        let calls = answer.message(0).to_json()["tool_calls"].take();
        let call = |call: &Value| {
            json!({
                "object": "realtime.item", "type": "function_call", "call_id": call["id"],
                "name": call["function"]["name"], "arguments": call["function"]["arguments"],
            })
        };
        let calls = calls.as_array().into_iter().flatten().map(call);
        std::iter::once(message).chain(calls).collect()
    }
}
