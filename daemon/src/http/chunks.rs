//! An answer as the chunks of a stream, for every endpoint.
//!
//! - The last chunk carries `hob`, llama-server's `timings`, and the usage if the client asked for it.
//! - The first chunk carries the ids of the rows where the text is saved.
//! - A report of progress is a chunk without choices, before the answer.

use std::collections::VecDeque;

use serde_json::{Value, json};

use super::sse::Source;
use crate::chat::answer::{Answer, Piece};
use crate::chat::figures::Figures;
use crate::chat::progress::Report;
use crate::wire::sampling::Shape;

/// The form of an endpoint's chunks.
pub trait ChunkForm: Send + 'static {
    /// The field `object`.
    const OBJECT: &'static str;

    /// The one entry of `choices`; `None`: no chunk.
    fn choice(&mut self, piece: Piece) -> Option<Value>;
}

pub struct Chunks<F> {
    form: F,
    answer: Answer,
    include_usage: bool,
    timings_per_token: bool,
    unfinished: usize,
    addressed: bool,
    ready: VecDeque<Value>,
}

impl<F: ChunkForm> Chunks<F> {
    /// `choices`: the stream ends after this many have ended.
    pub fn new(form: F, answer: Answer, shape: &Shape, choices: usize) -> Self {
        let (include_usage, unfinished) = (shape.include_usage, choices);
        let timings_per_token = shape.timings_per_token;
        let (addressed, ready) = (false, VecDeque::new());
        Self { form, answer, include_usage, timings_per_token, unfinished, addressed, ready }
    }

    fn push(&mut self, piece: Piece) {
        if let Piece::Progress(report) = &piece {
            return self.push_report(report);
        }
        self.unfinished -= usize::from(matches!(piece, Piece::End { .. }));
        let timed = match &piece {
            Piece::More { choice, .. } if self.timings_per_token => Some(*choice),
            _ => None,
        };
        let Some(choice) = self.form.choice(piece) else { return };
        let address = self.first_address();
        let (head, with_usage) = (self.answer.head(), self.include_usage);
        let mut chunk = head.chunk(F::OBJECT, vec![choice], with_usage);
        if let Some(address) = address {
            chunk.insert("hob".into(), address);
        }
        if let Some(choice) = timed {
            chunk.insert("timings".into(), self.answer.figures(choice).timings());
        }
        let is_last = self.unfinished == 0;
        if is_last && !with_usage {
            chunk.insert("timings".into(), self.answer.figures(0).timings());
            chunk.insert("hob".into(), self.answer.hob());
        }
        self.ready.push_back(Value::Object(chunk));
        if is_last && with_usage {
            let mut chunk = head.chunk(F::OBJECT, Vec::new(), true);
            chunk.insert("usage".into(), self.answer.usage().to_json());
            chunk.insert("timings".into(), self.answer.figures(0).timings());
            chunk.insert("hob".into(), self.answer.hob());
            self.ready.push_back(Value::Object(chunk));
        }
    }

    fn push_report(&mut self, report: &Report) {
        let mut chunk = self.answer.head().chunk(F::OBJECT, Vec::new(), self.include_usage);
        let mut hob = self.first_address().unwrap_or_else(|| json!({}));
        hob["progress"] = report.to_json();
        chunk.insert("hob".into(), hob);
        chunk.insert("prompt_progress".into(), report.to_llama_server());
        if self.timings_per_token {
            chunk.insert("timings".into(), Figures::timings_of(report));
        }
        self.ready.push_back(Value::Object(chunk));
    }

    /// The address of the answer, once.
    fn first_address(&mut self) -> Option<Value> {
        if std::mem::replace(&mut self.addressed, true) {
            return None;
        }
        self.answer.address()
    }
}

impl<F: ChunkForm> Source for Chunks<F> {
    type Object = Value;

    async fn next(&mut self) -> Option<Value> {
        while self.ready.is_empty() {
            match self.answer.next().await? {
                Ok(piece) => self.push(piece),
                Err(error) => return Some(error.to_json()),
            }
        }
        self.ready.pop_front()
    }
}
