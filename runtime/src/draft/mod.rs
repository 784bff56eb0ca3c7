//! Drafts: tokens that are likely to follow, computed in one micro-batch with the token before them.
//!
//! A micro-batch of a few rows takes less time than as many of one row, because each reads all
//! weights. So the engine guesses the next tokens of an answer, computes them together, and samples
//! from each row: while the sampled token is the guessed one, the row behind it is valid. The first
//! that differs ends the draft, and the cells behind it are dropped. The answer is the one of the
//! model's logits and the sampler, token by token, whatever was guessed.
//!
//! - Pure: tokens and durations in, tokens and numbers out. `worker::draft` computes drafts.
//! - [`Lookup`] guesses from the conversation's own tokens.
//! - [`Acceptance`] learns how often guesses are right, also of those that were not computed.
//! - [`CostCurve`] learns how long micro-batches take, by their rows.
//! - [`lengths`] chooses how much of each draft to compute: nothing, where that would not be faster.

mod acceptance;
mod cost;
mod length;
mod lookup;

use hob_slots::Token;

pub use acceptance::Acceptance;
pub use cost::CostCurve;
pub use length::lengths;
pub use lookup::Lookup;

/// Rows of a micro-batch with drafts at most: a longer one would delay others, and gain little.
pub const MAX_ROWS: usize = 16;

/// Tokens that may follow.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Draft {
    pub tokens: Vec<Token>,
    /// So many tokens in front of them are equal to those in front of their source.
    pub matched: usize,
}
