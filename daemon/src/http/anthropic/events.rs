//! An answer as the events of a stream.
//!
//! - `message_start`; of each block `content_block_start`, `content_block_delta` and
//!   `content_block_stop`; `message_delta` and `message_stop`. Blocks do not overlap.
//! - The message begins when its prompt is computed, so that its usage is known. Before, and in pauses,
//!   there are `ping`s; with reports of progress, if the client asked for them.
//! - An error is the last event.

use std::collections::VecDeque;

use serde_json::{Value, json};

use super::answer::{Form, SIGNATURE, begin, stop, usage};
use super::errors;
use super::names::Names;
use crate::chat::answer::{Answer, Piece};
use crate::chat::assembly::{Delta, begins_call};
use crate::http::sse::Source;

pub struct Events {
    form: Form,
    answer: Answer,
    names: Names,
    /// The open block.
    block: Option<Kind>,
    /// How many blocks have ended.
    ended: usize,
    ready: VecDeque<Value>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Thinking,
    Text,
    Call,
}

impl Events {
    pub fn new(form: Form, answer: Answer, names: Names) -> Self {
        Self { form, answer, names, block: None, ended: 0, ready: VecDeque::new() }
    }

    fn push(&mut self, piece: Piece) {
        match piece {
            Piece::Progress(report) => {
                let hob = json!({"progress": report.to_json()});
                self.ready.push_back(json!({"type": "ping", "hob": hob}));
            }
            Piece::Begin { .. } => {
                let mut message = begin(&self.answer, self.form);
                if let Some(address) = self.answer.address() {
                    message["hob"] = address;
                }
                self.ready.push_back(json!({"type": "message_start", "message": message}));
            }
            Piece::More { delta, .. } => self.more(delta),
            Piece::End { reason, .. } => {
                self.close();
                let (reason, sequence) = stop(&self.answer, reason);
                let delta = json!({"stop_reason": reason, "stop_sequence": sequence});
                let usage = usage(&self.answer, self.form);
                let hob = self.answer.hob();
                let event =
                    json!({"type": "message_delta", "delta": delta, "usage": usage, "hob": hob});
                self.ready.push_back(event);
                self.ready.push_back(json!({"type": "message_stop"}));
            }
        }
    }

    fn more(&mut self, delta: Delta) {
        if !delta.reasoning.is_empty() {
            let block = || json!({"type": "thinking", "thinking": "", "signature": ""});
            self.open(Kind::Thinking, block);
            if !self.form.omits_thinking {
                self.delta(json!({"type": "thinking_delta", "thinking": delta.reasoning}));
            }
        }
        if !delta.content.is_empty() {
            self.open(Kind::Text, || json!({"type": "text", "text": ""}));
            self.delta(json!({"type": "text_delta", "text": delta.content}));
        }
        for piece in delta.tool_calls {
            let function = &piece["function"];
            if begins_call(&piece) {
                self.close();
                let (id, name) = (&piece["id"], &function["name"]);
                let block = || json!({"type": "tool_use", "id": id, "name": name, "input": {}});
                self.open(Kind::Call, block);
            }
            let arguments = function["arguments"].as_str().unwrap_or_default();
            if !arguments.is_empty() {
                self.delta(json!({"type": "input_json_delta", "partial_json": arguments}));
            }
        }
    }

    /// Opens a block, unless one of this kind is open.
    fn open(&mut self, kind: Kind, block: impl FnOnce() -> Value) {
        if self.block == Some(kind) {
            return;
        }
        self.close();
        self.block = Some(kind);
        let event = json!({
            "type": "content_block_start", "index": self.ended, "content_block": block(),
        });
        self.ready.push_back(event);
    }

    fn delta(&mut self, delta: Value) {
        let event = json!({"type": "content_block_delta", "index": self.ended, "delta": delta});
        self.ready.push_back(event);
    }

    fn close(&mut self) {
        let Some(kind) = self.block.take() else { return };
        if kind == Kind::Thinking {
            self.delta(json!({"type": "signature_delta", "signature": SIGNATURE}));
        }
        self.ready.push_back(json!({"type": "content_block_stop", "index": self.ended}));
        self.ended += 1;
    }
}

impl Source for Events {
    type Object = Value;
    const WAITING: &'static str = "event: ping\ndata: {\"type\":\"ping\"}\n\n";
    const DONE: &'static str = "";

    fn name(event: &Value) -> Option<&str> {
        event["type"].as_str()
    }

    async fn next(&mut self) -> Option<Value> {
        while self.ready.is_empty() {
            match self.answer.next().await? {
                Ok(piece) => self.push(piece),
                Err(error) => return Some(errors::to_json(&self.names.rename(error))),
            }
        }
        self.ready.pop_front()
    }
}
