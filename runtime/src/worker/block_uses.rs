//! Counts how a slot's blocks were used, and describes them for the policies that choose which blocks leave.

use hob_slots::away::{BlockFacts, Sketch};
use hob_slots::format::SegmentRef;
use hob_slots::{Block, Timeline};

use super::cell_numbers::CellNumbers;
use crate::labels::Labels;

#[derive(Debug, Default)]
pub(super) struct BlockUses {
    /// Turns since the owner was pinned.
    turn: u32,
    /// Where the tokens of each turn begin, ascending.
    turns: Vec<(usize, u32)>,
    /// Ascending; [`Self::follow`] adds those that the timeline has and that are missing.
    blocks: Vec<BlockUse>,
}

/// What the tokens of a block do not tell about it.
#[derive(Debug)]
struct BlockUse {
    /// Its first position.
    start: usize,
    last_used: u32,
    hits: u32,
    asked_for: Option<u32>,
    /// Computed once the block takes no more tokens.
    sketch: Option<Sketch>,
}

impl BlockUse {
    fn new(start: usize) -> Self {
        Self { start, last_used: 0, hits: 0, asked_for: None, sketch: None }
    }
}

impl BlockUses {
    /// A turn begins behind the first `tokens` tokens.
    pub fn begin_turn(&mut self, tokens: usize) {
        self.turn += 1;
        self.turns.push((tokens, self.turn));
    }

    pub fn turn(&self) -> u32 {
        self.turn
    }

    /// A prompt asks for the block at `start`: the block stays for a while, also where it was brought back for that.
    pub fn count_hit(&mut self, start: usize) {
        let at = self.blocks.partition_point(|block| block.start < start);
        if self.blocks.get(at).is_none_or(|block| block.start != start) {
            self.blocks.insert(at, BlockUse::new(start));
        }
        let block = &mut self.blocks[at];
        block.hits += 1;
        block.last_used = self.turn;
        block.asked_for = Some(self.turn);
    }

    /// The timeline has `len` tokens.
    pub fn truncate(&mut self, len: usize) {
        self.turns.retain(|&(start, _)| start <= len);
        self.blocks.retain(|block| block.start < len);
        if let Some(last) = self.blocks.last_mut() {
            last.sketch = None; // The cut may be in it.
        }
    }

    /// Sketches the whole blocks of a timeline that was restored, so that no decision waits for it.
    pub fn sketch(&mut self, timeline: &Timeline) {
        self.follow(timeline.blocks());
        let whole = timeline.whole_blocks();
        for (known, block) in self.blocks.iter_mut().zip(whole) {
            known.sketch.get_or_insert_with(|| sketch(timeline, block));
        }
    }

    /// All blocks of the timeline. `shared`: tokens from the first one on whose cells other slots have too.
    /// `frees_shared`: whether those count as freed by a block that leaves.
    pub fn facts(
        &mut self,
        timeline: &Timeline,
        cells: &CellNumbers,
        segments: &[SegmentRef],
        shared: usize,
        frees_shared: bool,
    ) -> Vec<BlockFacts> {
        let freed_from = if frees_shared { 0 } else { shared };
        self.sketch(timeline);
        let mut labels = Labels::new(segments);
        let (mut turns, mut first_turn) = (self.turns.iter().peekable(), 0);
        let fact = |(known, block): (&BlockUse, &Block)| {
            let range = block.range.clone();
            while let Some((_, turn)) = turns.next_if(|(start, _)| *start <= range.start) {
                first_turn = *turn;
            }
            let label = labels.of(&range);
            BlockFacts {
                own_cells: range.end.saturating_sub(range.start.max(freed_from)),
                is_shared: range.start < shared,
                resident: cells.has(&range),
                layer: label.layer,
                weight: label.weight,
                pinned: label.pinned,
                group: label.group,
                last_used_turn: known.last_used.max(first_turn),
                hits: known.hits,
                brought_back: known.asked_for,
                first_turn,
                sketch: known.sketch.unwrap_or_else(|| sketch(timeline, block)),
                range,
            }
        };
        self.blocks.iter().zip(timeline.blocks()).map(fact).collect()
    }

    /// One entry for each block.
    fn follow(&mut self, blocks: &[Block]) {
        for (at, block) in blocks.iter().enumerate() {
            let start = block.range.start;
            if self.blocks.get(at).is_none_or(|known| known.start != start) {
                self.blocks.insert(at, BlockUse::new(start));
            }
        }
        debug_assert_eq!(self.blocks.len(), blocks.len(), "an entry begins where a block does");
    }
}

fn sketch(timeline: &Timeline, block: &Block) -> Sketch {
    Sketch::of(&timeline.tokens()[block.range.clone()])
}

#[cfg(test)]
mod tests {
    use hob_slots::{ModelHash, Token};

    use super::*;

    #[test]
    fn cells_that_others_have_too_are_told_whether_or_not_they_count_as_freed() {
        let mut timeline = Timeline::new(ModelHash([0; 8]));
        timeline.push(&(0..192).map(Token).collect::<Vec<_>>(), |_| false);
        let (mut uses, cells) = (BlockUses::default(), CellNumbers::default());
        let mut told = |frees_shared| {
            let facts = uses.facts(&timeline, &cells, &[], 100, frees_shared);
            facts.iter().map(|fact| (fact.own_cells, fact.is_shared)).collect::<Vec<_>>()
        };
        assert_eq!(told(false), [(0, true), (28, true), (64, false)]);
        assert_eq!(told(true), [(64, true), (64, true), (64, false)]);
    }

    #[test]
    fn a_block_that_was_cut_and_grew_again_is_sketched_again() {
        let mut timeline = Timeline::new(ModelHash([0; 8]));
        let tokens = |from: i32| (from..from + 200).map(Token).collect::<Vec<_>>();
        timeline.push(&tokens(0), |_| false);
        let (mut uses, cells) = (BlockUses::default(), CellNumbers::default());
        uses.facts(&timeline, &cells, &[], 0, false);
        timeline.truncate(70);
        uses.truncate(70);
        timeline.push(&tokens(1_000), |_| false);
        let facts = uses.facts(&timeline, &cells, &[], 0, false);
        for (fact, block) in facts.iter().zip(timeline.blocks()) {
            assert_eq!(fact.sketch, sketch(&timeline, block), "{:?}", block.range);
        }
    }
}
