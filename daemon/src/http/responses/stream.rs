//! A response as events.
//!
//! - `response.created` comes when the question is on disk, before the prompt is computed. It has the id.
//! - Items are open one after the other. [`Items`] writes the events of items, this file those around
//!   them.

use std::collections::VecDeque;

use serde_json::{Value, json};

use super::items::Items;
use super::object::{Frame, Outcome, Status};
use super::request::Request;
use crate::chat::answer::{Answer, Piece};
use crate::error::ApiError;
use crate::http::sse::Source;
use crate::wire::answer::{chat_logprobs, of_text};

pub struct Events {
    request: Request,
    answer: Answer,
    /// Whether the question is on disk, or could not be written.
    has_begun: bool,
    /// `None`: it has not begun.
    growing: Option<(Frame, Items)>,
    ready: VecDeque<Value>,
    sent: u64,
}

impl Events {
    pub fn new(request: Request, answer: Answer) -> Self {
        let (has_begun, growing, ready) = (false, None, VecDeque::new());
        Self { request, answer, has_begun, growing, ready, sent: 0 }
    }

    /// Sends the id, once the question is on disk.
    async fn begin(&mut self) {
        let stored = self.answer.stored().await;
        self.has_begun = true;
        if let Err(error) = stored {
            return self.fail(error);
        }
        let frame = Frame::of(&self.answer, self.request.echo.clone());
        let response = frame.response(Status::InProgress, Outcome::default());
        for kind in ["response.created", "response.in_progress"] {
            self.ready.push_back(json!({"type": kind, "response": response}));
        }
        let items = Items::new(frame.ids.clone(), frame.tools(), frame.reasoning_form());
        self.growing = Some((frame, items));
    }

    fn push(&mut self, piece: Piece) {
        let Some((frame, items)) = &mut self.growing else { return };
        match piece {
            Piece::Progress(_) | Piece::Begin { .. } => {}
            Piece::More { delta, logprobs, .. } => {
                let in_text = of_text(&delta.content, &logprobs);
                let logprobs = chat_logprobs(in_text)["content"].take();
                self.ready.extend(items.push(delta, logprobs));
            }
            Piece::End { reason, .. } => {
                let status = Status::of_reason(reason);
                self.ready.extend(items.end(status));
                let response = frame.response(status, Outcome::of(&self.answer, items.whole()));
                let kind = format!("response.{}", status.as_str());
                self.ready.push_back(json!({"type": kind, "response": response}));
            }
        }
    }

    fn fail(&mut self, error: ApiError) {
        let error = self.request.paths.own(error);
        let Some((frame, items)) = &mut self.growing else {
            let (code, message, param) = (error.code, error.message, error.param);
            let event = json!({"type": "error", "code": code, "message": message, "param": param});
            self.ready.push_back(event);
            return;
        };
        self.ready.extend(items.end(Status::Failed));
        let outcome = Outcome { output: items.whole(), error: Some(error), ..Outcome::default() };
        let response = frame.response(Status::Failed, outcome);
        self.ready.push_back(json!({"type": "response.failed", "response": response}));
    }
}

impl Source for Events {
    type Object = Value;

    const DONE: &'static str = "";

    fn name(object: &Value) -> Option<&str> {
        object["type"].as_str()
    }

    async fn next(&mut self) -> Option<Value> {
        while self.ready.is_empty() {
            if !self.has_begun {
                self.begin().await;
                continue;
            }
            match self.answer.next().await? {
                Ok(piece) => self.push(piece),
                Err(error) => self.fail(error),
            }
        }
        let mut event = self.ready.pop_front()?;
        event["sequence_number"] = self.sent.into();
        self.sent += 1;
        Some(event)
    }
}
