//! Which blocks may leave: all but those without which a conversation goes wrong at once.
//!
//! - The first block stays: its tokens are attention sinks, without which a model's output
//!   collapses (StreamingLLM: Xiao et al., 2023, arXiv:2309.17453).
//! - Blocks of axioms, identity and rules, and pinned ones, stay: a budget without room for them is
//!   refused, see [`Minimum`].
//! - The recent tail stays, and the last block in any case: a batch must not start behind a hole.
//! - What was just brought back stays for some turns: otherwise it leaves before it is of use.
//!
//! Cells of a block are counted whether it has some now or not, and whether it shares them or not.

use std::fmt;

use super::BlockFacts;
use crate::layer::Layer;

/// The tokens at the beginning that serve as attention sinks.
pub const SINK_TOKENS: usize = 4;

/// The turns for which a block that was brought back stays, that turn included.
pub const PROTECTED_TURNS: u32 = 2;

/// The room that a conversation has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Cells of the conversation.
    pub budget: usize,
    /// Cells of one micro-batch, which stay free for it.
    pub micro_batch: usize,
}

/// How much stays. Each level allows more to leave than the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Protection {
    /// Everything that should stay. The tail is a quarter of the budget, and at least one
    /// micro-batch.
    Full,
    /// Blocks that were just brought back may leave.
    Lowered,
    /// They may, and the tail is one micro-batch.
    Least,
}

impl Protection {
    pub const ALL: [Self; 3] = [Self::Full, Self::Lowered, Self::Least];
}

/// The indexes of the blocks that may leave at `turn`, ascending.
///
/// Where the budget is at least [`Minimum::total`], what stays under [`Protection::Least`] leaves
/// room for one micro-batch.
pub fn candidates(
    blocks: &[BlockFacts],
    limits: Limits,
    turn: u32,
    protection: Protection,
) -> Vec<usize> {
    let tail = tail_start(blocks, limits, protection);
    let may_leave = |&at: &usize| {
        let block = &blocks[at];
        let is_held = protection == Protection::Full && was_just_brought_back(block, turn);
        block.resident && !always_stays(block) && !is_held
    };
    (0..tail).filter(may_leave).collect()
}

/// The smallest budget that a conversation can be held in, in cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Minimum {
    /// Tokens of the blocks that cover the first [`SINK_TOKENS`] tokens.
    pub sinks: usize,
    /// Tokens of other blocks that are pinned, or are of axioms, identity or rules.
    pub protected: usize,
    /// Tokens of other blocks that cover the last tokens, as many as a micro-batch has.
    pub tail: usize,
    pub micro_batch: usize,
}

impl Minimum {
    /// Counts a conversation with `blocks`, computed in micro-batches of at most `micro_batch` tokens.
    pub fn of(blocks: &[BlockFacts], micro_batch: usize) -> Self {
        let (sinks, protected) = cells_that_stay(blocks);
        let tail = tail_of(blocks, micro_batch, usize::MAX);
        let tail = blocks[tail..].iter().filter(|block| !always_stays(block));
        Self { sinks, protected, tail: tail.map(|block| block.range.len()).sum(), micro_batch }
    }

    pub fn total(&self) -> usize {
        self.sinks + self.protected + self.tail + self.micro_batch
    }

    /// Whether the conversation can be held in `budget` cells.
    pub fn check(self, budget: usize) -> Result<(), BudgetTooSmall> {
        if budget < self.total() { Err(BudgetTooSmall { budget, minimum: self }) } else { Ok(()) }
    }
}

/// The cells of each part, and their sum.
impl fmt::Display for Minimum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { sinks, protected, tail, micro_batch } = self;
        write!(
            f,
            "{sinks} of attention sinks, {protected} of protected parts, {tail} of the recent tail \
             and a micro-batch of {micro_batch} need {}",
            self.total()
        )
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a budget of {budget} cells is too small: {minimum}")]
pub struct BudgetTooSmall {
    pub budget: usize,
    pub minimum: Minimum,
}

fn is_sink(block: &BlockFacts) -> bool {
    block.range.start < SINK_TOKENS
}

fn always_stays(block: &BlockFacts) -> bool {
    is_sink(block) || label_stays(block.layer, block.pinned)
}

/// Whether what has this layer, or is pinned, always stays.
pub fn label_stays(layer: Layer, pinned: bool) -> bool {
    pinned || matches!(layer, Layer::Axioms | Layer::Identity | Layer::Rules)
}

fn was_just_brought_back(block: &BlockFacts, turn: u32) -> bool {
    block.brought_back.is_some_and(|back| turn.saturating_sub(back) < PROTECTED_TURNS)
}

/// Cells of the sinks, and of other blocks that always stay.
fn cells_that_stay(blocks: &[BlockFacts]) -> (usize, usize) {
    let (mut sinks, mut protected) = (0, 0);
    for block in blocks.iter().filter(|block| always_stays(block)) {
        *(if is_sink(block) { &mut sinks } else { &mut protected }) += block.range.len();
    }
    (sinks, protected)
}

/// The index of the first block of the tail.
fn tail_start(blocks: &[BlockFacts], limits: Limits, protection: Protection) -> usize {
    let Limits { budget, micro_batch } = limits;
    let tokens = match protection {
        Protection::Full | Protection::Lowered => micro_batch.max(budget / 4),
        Protection::Least => micro_batch,
    };
    // Of a message longer than the budget the oldest part must be able to leave.
    let (sinks, protected) = cells_that_stay(blocks);
    tail_of(blocks, tokens, budget.saturating_sub(sinks + protected + micro_batch))
}

/// The index of the first of the last blocks that cover `tokens` tokens, or as many as fit `cells`
/// cells beside what always stays. The last block is always one of them.
fn tail_of(blocks: &[BlockFacts], tokens: usize, cells: usize) -> usize {
    let mut start = blocks.len();
    let (mut covered, mut used) = (0, 0);
    for (at, block) in blocks.iter().enumerate().rev() {
        covered += block.range.len();
        used += if always_stays(block) { 0 } else { block.range.len() };
        if used > cells && start < blocks.len() {
            break;
        }
        start = at;
        if covered >= tokens {
            break;
        }
    }
    start
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::fixtures;
    use super::*;

    const LIMITS: Limits = Limits { budget: 64 * 8, micro_batch: 64 };

    #[test]
    fn the_first_block_and_the_last_quarter_of_the_budget_stay() {
        let blocks = fixtures::chat(10);
        assert_eq!(candidates(&blocks, LIMITS, 10, Protection::Full), [1, 2, 3, 4, 5, 6, 7]);
    }

    #[test]
    fn short_blocks_stay_together_while_they_cover_the_sinks() {
        let mut blocks = fixtures::of_lengths(&[2, 1, 3, 64, 64, 64, 64, 64, 64]);
        blocks[3].resident = false;
        let limits = Limits { budget: 64 * 4, micro_batch: 64 };
        assert_eq!(candidates(&blocks, limits, 9, Protection::Full), [4, 5, 6, 7]);
    }

    #[test]
    fn rules_and_pinned_blocks_never_leave() {
        let mut blocks = fixtures::chat(10);
        blocks[2].layer = Layer::Axioms;
        blocks[3].layer = Layer::Identity;
        blocks[4].layer = Layer::Rules;
        blocks[5].layer = Layer::Capabilities;
        blocks[6].pinned = true;
        for protection in Protection::ALL {
            let leave = candidates(&blocks, LIMITS, 10, protection);
            assert!(leave.starts_with(&[1, 5, 7]), "{leave:?}");
        }
    }

    #[test]
    fn a_block_that_was_brought_back_stays_for_two_turns() {
        let mut blocks = fixtures::chat(10);
        blocks[1].brought_back = Some(10);
        let stays = |turn| !candidates(&blocks, LIMITS, turn, Protection::Full).contains(&1);
        assert_eq!([10, 11, 12].map(stays), [true, true, false]);
        assert!(candidates(&blocks, LIMITS, 10, Protection::Lowered).contains(&1));
    }

    #[test]
    fn at_least_protection_the_tail_is_one_micro_batch() {
        let blocks = fixtures::chat(10);
        let leave = |protection| candidates(&blocks, LIMITS, 10, protection).len();
        assert_eq!(Protection::ALL.map(leave), [7, 7, 8]);
    }

    #[test]
    fn a_message_longer_than_the_budget_loses_its_oldest_part() {
        // Rules of 3 blocks and one message: the tail has 8 - 1 - 3 - 1 blocks at most.
        let mut blocks = fixtures::chat(40);
        for block in &mut blocks[1..4] {
            block.layer = Layer::Rules;
        }
        let limits = Limits { budget: 64 * 8, micro_batch: 64 };
        let leave = candidates(&blocks, limits, 40, Protection::Full);
        assert_eq!(leave, (4..38).collect::<Vec<_>>()); // a quarter of the budget: 2
        let limits = Limits { budget: 64 * 6, micro_batch: 64 };
        let leave = candidates(&blocks, limits, 40, Protection::Full);
        assert_eq!(leave, (4..39).collect::<Vec<_>>()); // 6 - 1 - 3 - 1 = 1, less than a quarter
    }

    #[test]
    fn a_budget_below_the_minimum_is_refused_with_all_four_numbers() {
        let mut blocks = fixtures::of_lengths(&[64, 60, 60, 64, 64, 50]);
        blocks[1].layer = Layer::Rules;
        blocks[2].pinned = true;
        let minimum = Minimum::of(&blocks, 64);

        // The last 64 tokens reach 14 into the block before the last: 50 + 64 cells.
        assert_eq!(minimum, Minimum { sinks: 64, protected: 120, tail: 114, micro_batch: 64 });
        assert_eq!(minimum.check(362), Ok(()));
        assert_eq!(
            minimum.check(300).unwrap_err().to_string(),
            "a budget of 300 cells is too small: 64 of attention sinks, 120 of protected parts, \
             114 of the recent tail and a micro-batch of 64 need 362"
        );
    }

    proptest! {
        #[test]
        fn a_level_allows_all_that_the_one_before_does(
            (blocks, turn) in fixtures::conversations(),
            budget in 0_usize..4_000,
            micro_batch in 1_usize..200,
        ) {
            let limits = Limits { budget, micro_batch };
            let [full, lowered, least] =
                Protection::ALL.map(|protection| candidates(&blocks, limits, turn, protection));
            prop_assert!(full.iter().all(|at| lowered.contains(at)));
            prop_assert!(lowered.iter().all(|at| least.contains(at)));
            prop_assert!(!least.contains(&(blocks.len() - 1)));
            prop_assert!(least.iter().all(|&at| blocks[at].resident && !always_stays(&blocks[at])));
        }

        #[test]
        fn within_the_smallest_budget_a_micro_batch_finds_room(
            (mut blocks, turn) in fixtures::conversations(),
            micro_batch in 1_usize..200,
            more in 0_usize..1_000,
        ) {
            blocks.iter_mut().for_each(|block| block.resident = true);
            let budget = Minimum::of(&blocks, micro_batch).total() + more;
            let limits = Limits { budget, micro_batch };
            let leave = candidates(&blocks, limits, turn, Protection::Least);
            let cells = |at: usize| blocks[at].range.len();
            let stay: usize = (0..blocks.len()).filter(|at| !leave.contains(at)).map(cells).sum();
            prop_assert!(stay + micro_batch <= budget, "{stay} stay of {budget}");
        }
    }
}
