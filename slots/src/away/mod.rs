//! Which blocks leave a live conversation that outgrows its budget of cells: one policy a file.
//!
//! - Pure: no clock, no I/O. The same blocks always give the same choice, whatever was asked
//!   before.
//! - Any block may leave, also one in the middle. Its bytes stay in memory or on disk, so the
//!   choice costs time, never text. (In [`evict`](crate::evict), which bounds memory, only tails
//!   leave.)
//! - A protected block never leaves, see [`protect`]; what is left is ranked by a [`Scorer`].
//! - A decision about 2,000 blocks takes less than 200 us: no policy compares all pairs of blocks.
//!
//! Reading order: [`BlockFacts`]; [`protect`], which may leave; [`leaving`], which do; [`Policy`] and
//! [`recency`], the simplest one; [`sketch`], by which [`evoke`] and [`graph`] compare texts.

pub mod evoke;
pub mod graph;
mod policy;
pub mod protect;
pub mod random;
pub mod recency;
pub mod sketch;
pub mod streaming;

#[cfg(test)]
mod fixtures;
#[cfg(test)]
mod tests;

use std::fmt;
use std::ops::Range;

pub use policy::{Policy, UnknownPolicy};
pub use protect::{BudgetTooSmall, Limits, Minimum, Protection, candidates, label_stays};
pub use sketch::Sketch;

use crate::layer::Layer;

/// A block of a live conversation, as the engine describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockFacts {
    /// Its positions. Blocks follow each other without gaps, from 0 on.
    pub range: Range<usize>,
    /// The most durable layer of the segments that it touches.
    pub layer: Layer,
    /// 0 to 100: of the heaviest segment that it touches.
    pub weight: u8,
    /// Whether it touches a pinned segment.
    pub pinned: bool,
    /// Equal for blocks that belong together, as a call and its result or the blocks of one file; 0
    /// for none.
    pub group: u64,
    /// Whether it has cells.
    pub resident: bool,
    /// The cells that it frees by leaving.
    pub own_cells: usize,
    /// Whether another sequence has some of its cells, too.
    pub is_shared: bool,
    /// The first turn that computed it.
    pub first_turn: u32,
    /// The last turn that computed it, brought it back or mentioned it.
    pub last_used_turn: u32,
    /// The turns that mentioned it or brought it back.
    pub hits: u32,
    /// The last turn that brought it back.
    pub brought_back: Option<u32>,
    pub sketch: Sketch,
}

impl BlockFacts {
    /// The weight of a segment that the request does not weigh.
    pub const DEFAULT_WEIGHT: u8 = 50;

    /// A resident block that `turn` has computed, alone in its cells.
    pub fn new(range: Range<usize>, layer: Layer, turn: u32, sketch: Sketch) -> Self {
        Self {
            own_cells: range.len(),
            is_shared: false,
            range,
            layer,
            weight: Self::DEFAULT_WEIGHT,
            pinned: false,
            group: 0,
            resident: true,
            first_turn: turn,
            last_used_turn: turn,
            hits: 0,
            brought_back: None,
            sketch,
        }
    }

    /// The factor by which the request raises or lowers it: 1 by default, 2 at most.
    fn priority(&self) -> f32 {
        f32::from(self.weight) / f32::from(Self::DEFAULT_WEIGHT)
    }
}

/// What a [`Scorer`] sees of a conversation.
#[derive(Clone, Copy, Debug)]
pub struct ScorerInput<'a> {
    /// All blocks of the conversation in order, resident or not.
    pub blocks: &'a [BlockFacts],
    /// The indexes of those that may leave, ascending.
    pub candidates: &'a [usize],
    /// The current turn, at least as high as every turn in `blocks`.
    pub turn: u32,
}

impl ScorerInput<'_> {
    /// The length of the timeline.
    fn tokens(&self) -> usize {
        self.blocks.last().map_or(0, |block| block.range.end)
    }

    /// Turns from `turn` to the current one.
    fn turns_since(&self, turn: u32) -> u32 {
        self.turn.saturating_sub(turn)
    }
}

/// Ranks the candidates.
pub trait Scorer: fmt::Debug + Send {
    /// One finite score for each candidate, in their order. The lowest leaves first; of equal ones
    /// the older block does.
    fn scores(&self, input: &ScorerInput<'_>) -> Vec<f32>;
}

/// The candidates that leave, in this order, so that they free at least `cells` cells; all that
/// free any where these are fewer.
pub fn choose(scorer: &dyn Scorer, input: &ScorerInput<'_>, cells: usize) -> Vec<usize> {
    if cells == 0 {
        return Vec::new();
    }
    let scores = scorer.scores(input);
    assert_eq!(scores.len(), input.candidates.len(), "a score for each candidate");
    let mut ranked: Vec<(u32, usize)> =
        scores.into_iter().map(sortable).zip(input.candidates.iter().copied()).collect();
    ranked.sort_unstable();
    let mut freed = 0;
    let mut chosen = Vec::new();
    for (_, at) in ranked {
        let own_cells = input.blocks[at].own_cells;
        if freed >= cells {
            break;
        }
        if own_cells > 0 {
            freed += own_cells;
            chosen.push(at);
        }
    }
    chosen
}

/// How many cells of a conversation should become free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Demand {
    /// These must: protection is given up for them.
    pub needed: usize,
    /// These should, so that the next decision is not due at once: down to a low watermark.
    pub wanted: usize,
}

/// The blocks that leave, in this order. They free what is wanted, where [`Protection::Full`]
/// allows it, and what is needed, where any does: a kind of protection is given up only after
/// everything that it does not protect has left.
pub fn leaving(
    scorer: &dyn Scorer,
    blocks: &[BlockFacts],
    limits: Limits,
    turn: u32,
    demand: Demand,
) -> Vec<usize> {
    let mut chosen = Vec::new();
    let mut leaves = vec![false; blocks.len()];
    let mut freed = 0;
    for protection in Protection::ALL {
        let cells = match protection {
            Protection::Full => demand.needed.max(demand.wanted),
            Protection::Lowered | Protection::Least => demand.needed,
        };
        if freed >= cells {
            break;
        }
        let mut candidates = candidates(blocks, limits, turn, protection);
        candidates.retain(|&at| !leaves[at]);
        let input = ScorerInput { blocks, candidates: &candidates, turn };
        for at in choose(scorer, &input, cells - freed) {
            freed += blocks[at].own_cells;
            leaves[at] = true;
            chosen.push(at);
        }
    }
    chosen
}

/// Integers in the order of finite scores; both zeros are equal. They sort faster than floats.
fn sortable(score: f32) -> u32 {
    debug_assert!(score.is_finite(), "a finite score");
    let bits = (score + 0.0).to_bits();
    if bits >> 31 == 0 { bits | 1 << 31 } else { !bits }
}
