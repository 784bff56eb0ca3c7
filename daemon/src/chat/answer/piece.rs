//! What an answer hands out: its changes while it streams, and its choices once they are complete.

use hob_runtime::turn::Logprobs;
use hob_slots::Token;

use crate::chat::assembly::Delta;
use crate::chat::progress::Report;
use crate::wire::answer::EndReason;
use crate::wire::message::Message;

/// A change of the answer, for the client.
#[derive(Clone, Debug, PartialEq)]
pub enum Piece {
    /// How far the prompt is, before the first choice begins. Only if the request asks for it.
    Progress(Report),
    /// The prompt of a choice is computed.
    Begin { choice: usize },
    More {
        choice: usize,
        delta: Delta,
        /// Since the last piece.
        tokens: Vec<Token>,
        /// Log-probabilities of `tokens`, if the request asks for them.
        logprobs: Vec<Logprobs>,
    },
    /// The choice has all its text.
    End { choice: usize, reason: EndReason },
}

/// One complete choice.
#[derive(Clone, Debug)]
pub struct Choice {
    pub message: Message,
    pub reason: EndReason,
    /// Without those that ended it.
    pub tokens: Vec<Token>,
    /// Log-probabilities of `tokens`, if the request asks for them.
    pub logprobs: Vec<Logprobs>,
}
