//! A caller's request to the engine.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use hob_slots::content::Repair;
use hob_slots::format::SegmentRef;
use hob_slots::{ConversationId, Token, TtlClass};

use crate::adapters::Adapters;
use crate::grammar::Grammar;
use crate::sample::Sampling;

/// One request to continue `prompt`.
#[derive(Clone, Debug)]
pub struct TurnRequest {
    /// Owns the KV. `None`: nothing is parked or saved; cells may still be shared, and where blocks have left them,
    /// the next such turn whose prompt continues this one's finds them. Turns of a conversation run one after the
    /// other, turns of a hint side by side.
    pub conversation: Option<ConversationId>,
    /// The whole prompt, at least one token, from position 0.
    pub prompt: Vec<Token>,
    /// Added to those of the model for this turn. KV that other adapters computed is not reused.
    pub adapters: Adapters,
    pub sampling: Sampling,
    /// 0 computes the prompt and stops.
    pub max_tokens: usize,
    /// No token and no stop text ends the answer before it has this number of tokens, unless nothing else may come
    /// next. A stop text that begins in them is none.
    pub min_tokens: usize,
    /// Whether KV may be used that was computed at another place.
    pub reuse: Reuse,
    /// Uses no rounded KV, whatever the engine's options say.
    pub lossless: bool,
    /// The prompt is a new timeline of its conversation: what that computed elsewhere may be moved, whatever
    /// `reuse` says, also what is impure. KV of others is used as `reuse` says.
    pub reanchored: bool,
    /// The conversation whose private and impure KV the turn moves as that of its own; `None`: `conversation`. So a
    /// comparison reads what the answer has read that it repeats. Only with `keep.in_memory`: such KV is never saved
    /// for another conversation.
    pub sources_of: Option<ConversationId>,
    /// Cells that the conversation may have at any time; `None`: those of the cache. Blocks leave a longer
    /// conversation's cells, and come back when it turns to them.
    pub budget: Option<usize>,
    /// Tokens of the answer may be guessed and computed ahead, where the engine's options allow it.
    pub drafts: bool,
    /// Stop texts; the answer does not contain the one that ended it.
    pub stop: Vec<String>,
    /// Tokens that end the answer, whose text does not contain them.
    pub stop_tokens: BTreeSet<Token>,
    /// The answer ends with the first line break that comes no earlier than this behind its first token.
    pub max_time_to_line: Option<Duration>,
    pub grammar: Option<Arc<Grammar>>,
    /// `Some(n)`: report each token's log-probability and those of the `n` likeliest.
    pub logprobs: Option<usize>,
    /// The log-probabilities are those after penalties, filters and temperature, and not the model's own.
    pub logprobs_of_sampling: bool,
    /// Generate past end-of-generation tokens (benchmarks and tests), except those in `stop_tokens`.
    pub ignore_eog: bool,
    pub keep: Retention,
    pub purpose: Purpose,
    /// Reuses nothing: computes every token of the prompt, to measure what reuse saves. Saved KV
    /// stays, and the new KV is saved under the same names.
    pub cold: bool,
    /// For a speculation: its prompt is stored text, so that the KV is saved as an answer's is.
    pub is_stored: bool,
    /// For a speculation: restores what is saved of the prompt, and computes nothing.
    pub restores_only: bool,
    /// Send [`TurnEvent::Progress`](super::TurnEvent::Progress) while the prompt is restored and computed.
    pub reports_progress: bool,
}

impl TurnRequest {
    /// A greedy answer of at most `max_tokens`; the other fields follow by struct update.
    pub fn answer(
        conversation: Option<ConversationId>,
        prompt: Vec<Token>,
        max_tokens: usize,
    ) -> Self {
        Self {
            conversation,
            prompt,
            adapters: Adapters::default(),
            sampling: Sampling::greedy(),
            max_tokens,
            min_tokens: 0,
            reuse: Reuse::Exact,
            lossless: false,
            reanchored: false,
            sources_of: None,
            budget: None,
            drafts: true,
            stop: Vec::new(),
            stop_tokens: BTreeSet::new(),
            max_time_to_line: None,
            grammar: None,
            logprobs: None,
            logprobs_of_sampling: false,
            ignore_eog: false,
            keep: Retention::default(),
            purpose: Purpose::Answer,
            cold: false,
            is_stored: false,
            restores_only: false,
            reports_progress: false,
        }
    }

    /// Whether its timeline may hold KV that was computed at another place.
    pub fn accepts_moved(&self) -> bool {
        self.reanchored || self.reuse != Reuse::Exact
    }

    /// Computes `prompt` into the conversation's slot and generates nothing.
    pub fn prefill(conversation: ConversationId, prompt: Vec<Token>, purpose: Purpose) -> Self {
        Self { purpose, ..Self::answer(Some(conversation), prompt, 0) }
    }
}

/// Which KV of a prompt may be used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reuse {
    /// Only what was computed behind the very tokens that precede it in the prompt.
    #[default]
    Exact,
    /// Behind that, also what was computed behind others, moved to its place. Its seams are repaired so.
    Repaired(Repair),
}

/// Why a prompt is computed, by priority: a later purpose yields to an earlier one within one
/// micro-batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Purpose {
    /// A caller waits for the answer.
    #[default]
    Answer,
    /// Speculative prefill in the conversation's own slot, while the user still types or talks. It
    /// is not recorded, unless its prompt is stored text, and does not count as a use. A newer turn of the conversation supersedes
    /// it, and reuses what it computed.
    Speculate,
    /// Computes a prefix that conversations share, in a prefix slot, and saves it.
    Prewarm,
    /// Touches a prefix that should be hot already, so that it stays so.
    KeepAlive,
}

impl Purpose {
    /// Whether the turn generates nothing and no caller waits for it.
    pub fn is_background(self) -> bool {
        self != Self::Answer
    }

    /// Whether it runs in a prefix slot.
    pub fn is_prefix(self) -> bool {
        self >= Self::Prewarm
    }
}

/// How a conversation's KV is saved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retention {
    /// The class that the caller asks for; `None`: the one asked for before.
    pub class: Option<TtlClass>,
    /// The class of a conversation for which none was ever asked.
    pub default_class: TtlClass,
    /// `Some(true)`: KV that this turn computes never reaches the disk; the cells of a turn without
    /// a conversation are dropped at its end. `None`: as recorded, or false.
    pub in_memory: Option<bool>,
    /// The parts of the prompt, by ascending ends within it. The answer follows the last one.
    pub segments: Vec<SegmentRef>,
}

impl Default for Retention {
    fn default() -> Self {
        Self {
            class: None,
            default_class: TtlClass::Permanent,
            in_memory: None,
            segments: Vec::new(),
        }
    }
}
