//! A choice while it is generated.

use hob_runtime::turn::FinishReason;

use super::held::HeldTokens;
use crate::chat::assembly::{Assembly, Delta};
use crate::chat::figures::Figures;

pub(super) struct PartialChoice {
    pub assembly: Assembly,
    pub held: HeldTokens,
    pub figures: Figures,
    /// The model ended it.
    pub is_ended: bool,
    /// A stop token of the request ended it.
    pub is_stopped: bool,
    /// A stop text of the request ended it.
    pub by_text: bool,
    /// OpenAI's `finish_reason`, from its end on.
    pub reason: &'static str,
}

impl PartialChoice {
    pub fn new(assembly: Assembly) -> Self {
        Self {
            assembly,
            held: HeldTokens::default(),
            figures: Figures::default(),
            is_ended: false,
            is_stopped: false,
            by_text: false,
            reason: "stop",
        }
    }

    /// Takes its last text, and learns why it ended. `by_text`: by a stop text, which may have cut the arguments of a
    /// call, as a stop token may.
    pub fn finish(&mut self, reason: FinishReason, by_text: bool, text: &str) -> Delta {
        self.by_text = by_text;
        self.held.add_text(text.len());
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
