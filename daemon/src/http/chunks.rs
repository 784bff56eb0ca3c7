//! An answer under way as the chunks of a stream, whatever the endpoint.
//!
//! The last chunk carries `hob`, and the usage if the client asked for it. Where the text is stored,
//! the first one tells under which id.

use std::collections::VecDeque;

use serde_json::Value;

use super::sse::Source;
use crate::service::answering::{Answering, Piece};
use crate::wire::sampling::Shape;

/// How an endpoint writes its chunks.
pub trait Face: Send + 'static {
    /// What `object` says.
    const OBJECT: &'static str;

    /// The one entry of `choices`; `None` when there is nothing to tell.
    fn choice(&mut self, piece: Piece) -> Option<Value>;
}

/// The chunks of an answer.
pub struct Chunks<F> {
    face: F,
    answering: Answering,
    include_usage: bool,
    unfinished: usize,
    addressed: bool,
    ready: VecDeque<Value>,
}

impl<F: Face> Chunks<F> {
    /// `choices`: how many have to end before the stream does.
    pub fn new(face: F, answering: Answering, shape: &Shape, choices: usize) -> Self {
        let (include_usage, unfinished) = (shape.include_usage, choices);
        let (addressed, ready) = (false, VecDeque::new());
        Self { face, answering, include_usage, unfinished, addressed, ready }
    }

    fn push(&mut self, piece: Piece) {
        self.unfinished -= usize::from(matches!(piece, Piece::End { .. }));
        let Some(choice) = self.face.choice(piece) else { return };
        let (head, with_usage) = (self.answering.head(), self.include_usage);
        let mut chunk = head.chunk(F::OBJECT, vec![choice], with_usage);
        if !std::mem::replace(&mut self.addressed, true)
            && let Some(address) = self.answering.address()
        {
            chunk.insert("hob".into(), address);
        }
        let is_last = self.unfinished == 0;
        if is_last && !with_usage {
            chunk.insert("hob".into(), self.answering.hob());
        }
        self.ready.push_back(Value::Object(chunk));
        if is_last && with_usage {
            let mut chunk = head.chunk(F::OBJECT, Vec::new(), true);
            chunk.insert("usage".into(), self.answering.usage().to_json());
            chunk.insert("hob".into(), self.answering.hob());
            self.ready.push_back(Value::Object(chunk));
        }
    }
}

impl<F: Face> Source for Chunks<F> {
    type Object = Value;

    async fn next(&mut self) -> Option<Value> {
        while self.ready.is_empty() {
            match self.answering.next().await? {
                Ok(piece) => self.push(piece),
                Err(error) => return Some(error.to_json()),
            }
        }
        self.ready.pop_front()
    }
}
