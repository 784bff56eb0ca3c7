//! A choice while it is generated.

use hob_runtime::turn::{FinishReason, Logprobs};
use hob_slots::Token;

use crate::chat::assembly::{Assembly, Delta};
use crate::chat::figures::Figures;

pub(super) struct PartialChoice {
    pub assembly: Assembly,
    /// Not handed out yet.
    pub tokens: Vec<Token>,
    /// Log-probabilities that are not handed out yet.
    pub logprobs: Vec<Logprobs>,
    pub figures: Figures,
    /// The model ended it.
    pub is_ended: bool,
    /// A stop token of the request ended it.
    pub is_stopped: bool,
    /// OpenAI's `finish_reason`, from its end on.
    pub reason: &'static str,
}

impl PartialChoice {
    pub fn new(assembly: Assembly) -> Self {
        Self {
            assembly,
            tokens: Vec::new(),
            logprobs: Vec::new(),
            figures: Figures::default(),
            is_ended: false,
            is_stopped: false,
            reason: "stop",
        }
    }

    /// Takes its last text, and learns why it ended. `by_text`: by a stop text, which may have cut the arguments of a
    /// call, as a stop token may.
    pub fn finish(&mut self, reason: FinishReason, by_text: bool, text: &str) -> Delta {
        let mut delta = self.assembly.push(text);
        let is_in_call = self.assembly.is_in_call();
        let is_cut = (by_text || self.is_stopped) && self.assembly.is_in_arguments();
        delta.append(if self.is_ended { self.assembly.finish() } else { self.assembly.cut() });
        self.reason = match reason {
            FinishReason::Length if is_in_call => "length",
            FinishReason::Stop if is_cut => "stop",
            _ if self.assembly.calls_tools() => "tool_calls",
            FinishReason::Stop => "stop",
            FinishReason::Length => "length",
        };
        delta
    }
}
