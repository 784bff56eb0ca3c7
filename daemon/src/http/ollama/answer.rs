//! An answer in Ollama's form: as one object, or as lines.
//!
//! - The last object has `done`, the reason and the figures; the first line of a stream has the ids of the rows
//!   where a conversation's text is saved.
//! - A call is one line, when its arguments are complete.

use std::collections::VecDeque;

use axum::Json;
use axum::response::{IntoResponse, Response};
use hob_slots::Timestamp;
use serde_json::{Value, json};

use super::super::sse::Source;
use super::calls::{Calls, of_message};
use super::figures::Timer;
use super::load::KeepAlive;
use super::object::{Form, Part};
use super::request::{Names, renamed};
use super::{errors, ndjson};
use crate::chat::answer::{Answer, Piece};
use crate::chat::assembly::begins_call;
use crate::clock::rfc3339;
use crate::error::ApiError;
use crate::wire::answer::EndReason;

/// An answer in progress. The weights' time begins when it is dropped.
pub struct Reply {
    form: Form,
    /// The names of the route's fields, besides those of all routes.
    names: &'static Names,
    /// When the answer was asked for.
    created_at: String,
    answer: Answer,
    timer: Timer,
    calls: Calls,
    is_addressed: bool,
    ready: VecDeque<Value>,
    _keep_alive: KeepAlive,
}

impl Reply {
    /// `names`: what the route calls fields of the chat.
    pub fn new(
        form: Form,
        names: &'static Names,
        answer: Answer,
        timer: Timer,
        keep_alive: KeepAlive,
    ) -> Self {
        Self {
            form,
            names,
            created_at: rfc3339(Timestamp(answer.head().created * 1000)),
            answer,
            timer,
            calls: Calls::default(),
            is_addressed: false,
            ready: VecDeque::new(),
            _keep_alive: keep_alive,
        }
    }

    /// # Errors
    /// Of an answer that is not streamed, when it fails.
    pub async fn respond(self, streams: bool) -> Result<Response, ApiError> {
        if streams {
            Ok(ndjson::stream(self))
        } else {
            Ok(Json(self.whole().await?).into_response())
        }
    }

    async fn whole(mut self) -> Result<Value, ApiError> {
        let choices = self.answer.collect().await.map_err(|error| renamed(error, self.names))?;
        self.timer.note_loaded();
        let choice = choices.first().expect("an answer has a choice");
        let mut whole = self.object(Part {
            content: choice.message.text(),
            thinking: choice.message.reasoning(),
            tool_calls: of_message(&choice.message),
            logprobs: &choice.logprobs,
        });
        self.end(&mut whole, choice.reason);
        Ok(whole)
    }

    fn object(&self, part: Part<'_>) -> Value {
        self.form.object(&self.answer.head().model, &self.created_at, part)
    }

    fn end(&self, object: &mut Value, reason: EndReason) {
        object["done"] = true.into();
        // Ollama has no reason of its own for calls.
        let reason = if reason == EndReason::Length { reason } else { EndReason::Stop };
        object["done_reason"] = reason.as_str().into();
        self.timer.write(&self.answer, object);
    }

    fn push(&mut self, piece: Piece) {
        match piece {
            Piece::Begin { .. } => self.timer.note_loaded(),
            Piece::Progress(report) => {
                let mut line = self.object(Part::default());
                line["hob"] = json!({"progress": report.to_json()});
                self.ready.push_back(line);
            }
            Piece::More { delta, logprobs, .. } => {
                let call = delta.tool_calls.first();
                let (begun, further) = match call {
                    Some(piece) if begins_call(piece) => (Some(piece), None),
                    further => (None, further),
                };
                if let Some(piece) = further {
                    self.calls.push(piece);
                }
                let has_text = !delta.content.is_empty() || !delta.reasoning.is_empty();
                if has_text || begun.is_some() {
                    self.finish_call();
                }
                if has_text || !logprobs.is_empty() {
                    let (content, thinking) = (&*delta.content, &*delta.reasoning);
                    let part = Part { content, thinking, logprobs: &logprobs, ..Part::default() };
                    self.push_line(self.object(part));
                }
                if let Some(piece) = begun {
                    self.calls.push(piece);
                }
            }
            Piece::End { reason, .. } => {
                self.finish_call();
                let mut line = self.object(Part::default());
                self.end(&mut line, reason);
                self.ready.push_back(line);
            }
        }
    }

    fn finish_call(&mut self) {
        if let Some(call) = self.calls.finish() {
            self.push_line(self.object(Part { tool_calls: vec![call], ..Part::default() }));
        }
    }

    fn push_line(&mut self, mut line: Value) {
        if !std::mem::replace(&mut self.is_addressed, true)
            && let Some(address) = self.answer.address()
        {
            line["hob"] = address;
        }
        self.ready.push_back(line);
    }
}

impl Source for Reply {
    type Object = Value;

    async fn next(&mut self) -> Option<Value> {
        while self.ready.is_empty() {
            match self.answer.next().await? {
                Ok(piece) => self.push(piece),
                Err(error) => return Some(errors::object(&renamed(error, self.names))),
            }
        }
        self.ready.pop_front()
    }
}
