//! Drafts: tokens that are likely to follow, computed in one micro-batch with the token before them.
//!
//! A micro-batch of a few rows takes less time than as many of one row, because each reads all
//! weights. So the engine guesses the next tokens of an answer, computes them together, and samples
//! from each row: while the sampled token is the guessed one, the row behind it is valid. The first
//! that differs ends the draft, and the cells behind it are dropped. The answer is the one of the
//! model's logits and the sampler, token by token, whatever was guessed.
//!
//! - Pure: tokens and durations in, tokens and numbers out. `worker::draft` computes drafts.
//! - [`Lookup`] guesses from the conversation's own tokens; `drafter` asks a small model, `worker::mtp` the model's MTP
//!   heads.
//! - [`Acceptance`] and [`Confidence`] learn how often guesses are right, also of those that were not
//!   computed.
//! - [`CostCurve`] learns how long micro-batches take, by their rows.
//! - [`Ledger`] bounds the time that a draft model or MTP heads may take; [`Guesser`] has it, and measures them.
//! - [`lengths`] chooses how much of each draft to compute: nothing, where that would not be faster.

mod acceptance;
mod confidence;
mod cost;
mod guesser;
mod ledger;
mod length;
mod likeliest;
mod lookup;

use hob_slots::Token;

pub use acceptance::Acceptance;
pub use confidence::Confidence;
pub use cost::CostCurve;
pub use guesser::Guesser;
pub use ledger::Ledger;
pub use length::lengths;
pub use likeliest::likeliest;
pub use lookup::Lookup;

/// Rows of a micro-batch with drafts at most, but for one that fills a tile of attention: more would delay others, and
/// gain little while llama.cpp computes the attention of each row by itself.
pub const MAX_ROWS: usize = 16;

/// Tokens that may follow.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Draft {
    pub tokens: Vec<Token>,
    pub source: Source,
}

/// Where a draft comes from, and what speaks for it.
#[derive(Clone, Debug, PartialEq)]
pub enum Source {
    /// What followed this many equal tokens before.
    Lookup { matched: usize },
    /// The draft model, which gave each token this probability.
    Model { probabilities: Vec<f32> },
    /// The model's MTP heads, which gave each token this probability.
    Mtp { probabilities: Vec<f32> },
}

impl Default for Source {
    fn default() -> Self {
        Self::Lookup { matched: 0 }
    }
}

impl Source {
    /// Whether a [`Guesser`] measures it.
    pub fn has_guesser(&self) -> bool {
        !matches!(self, Self::Lookup { .. })
    }
}

/// The chances that the first guess is right, the first two, and so on, from that of each.
fn cumulated(chances: impl Iterator<Item = f64>) -> Vec<f64> {
    let all = chances.scan(1.0, |all, chance| {
        *all *= chance;
        Some(*all)
    });
    all.collect()
}
