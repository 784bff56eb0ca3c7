//! A choice while it is generated.

use std::collections::BTreeSet;

use hob_runtime::Vocabulary;
use hob_runtime::turn::FinishReason;
use hob_slots::Token;

use super::held::{HeldTokens, TokenRun};
use crate::chat::assembly::{Assembly, Delta};
use crate::chat::figures::Figures;
use crate::wire::answer::EndReason;

pub(super) struct PartialChoice {
    pub assembly: Assembly,
    pub held: HeldTokens,
    pub figures: Figures,
    pub last_token: LastToken,
    /// From its end on.
    pub reason: EndReason,
}

/// What the newest token of a choice is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum LastToken {
    /// A token of its text, or none yet.
    #[default]
    Text,
    /// The model ends it.
    EndOfGeneration,
    /// A stop token of the request ends it.
    Stop,
}

impl LastToken {
    /// `stop_tokens`: of the request.
    pub fn of(token: Token, vocabulary: &Vocabulary, stop_tokens: &BTreeSet<Token>) -> Self {
        if vocabulary.is_eog(token) {
            Self::EndOfGeneration
        } else if stop_tokens.contains(&token) {
            Self::Stop
        } else {
            Self::Text
        }
    }
}

/// What is new of a choice.
#[derive(Default)]
pub(super) struct Growth {
    pub delta: Delta,
    pub run: TokenRun,
}

impl PartialChoice {
    pub fn new(assembly: Assembly) -> Self {
        Self {
            assembly,
            held: HeldTokens::default(),
            figures: Figures::default(),
            last_token: LastToken::default(),
            reason: EndReason::default(),
        }
    }

    /// Takes its last text, and learns why it ended. `by_text`: by a stop text, which may have cut the arguments of a
    /// call, as a stop token may.
    pub fn finish(&mut self, reason: FinishReason, by_text: bool, text: &str) -> Growth {
        self.held.add_text(text.len());
        let mut delta = self.assembly.push(text);
        let is_in_call = self.assembly.is_in_call();
        let is_stopped = by_text || self.last_token == LastToken::Stop;
        let is_cut = is_stopped && self.assembly.is_in_arguments();
        delta.append(match self.last_token {
            LastToken::EndOfGeneration => self.assembly.finish(),
            LastToken::Text | LastToken::Stop => self.assembly.cut(),
        });
        self.reason = match reason {
            FinishReason::Length | FinishReason::Time if is_in_call => EndReason::Length,
            FinishReason::Stop if is_cut => EndReason::Stop,
            _ if self.assembly.calls_tools() => EndReason::ToolCalls,
            FinishReason::Stop => EndReason::Stop,
            FinishReason::Length | FinishReason::Time => EndReason::Length,
        };
        let run = if by_text { self.held.take_begun() } else { self.held.take_all() };
        Growth { delta, run }
    }
}
