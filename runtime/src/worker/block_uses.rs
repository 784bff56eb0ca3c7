//! Counts how a slot's blocks were used, and describes them for the policies that choose who leaves.

use std::collections::BTreeMap;

use hob_slots::Timeline;
use hob_slots::away::{BlockFacts, Sketch};
use hob_slots::format::SegmentRef;

use super::cell_numbers::CellNumbers;
use crate::labels::Labels;

/// By the positions at which blocks begin.
#[derive(Debug, Default)]
pub(super) struct BlockUses {
    /// Turns since the owner was pinned.
    turn: u32,
    /// Where the tokens of each turn begin, ascending.
    turns: Vec<(usize, u32)>,
    blocks: BTreeMap<usize, BlockUse>,
}

/// Of a block: what its tokens do not say.
#[derive(Clone, Copy, Debug, Default)]
struct BlockUse {
    last_used: u32,
    hits: u32,
    asked_for: Option<u32>,
    /// Computed once the block takes no more tokens.
    sketch: Option<Sketch>,
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

    /// The block at `start` was asked for: it stays for a while, as one does that was brought back.
    pub fn asked_for(&mut self, start: usize) {
        let turn = self.turn;
        let block = self.blocks.entry(start).or_default();
        block.hits += 1;
        block.last_used = turn;
        block.asked_for = Some(turn);
    }

    /// The timeline has `len` tokens.
    pub fn truncate(&mut self, len: usize) {
        self.turns.retain(|&(start, _)| start <= len);
        self.blocks.retain(|&start, _| start < len);
    }

    /// All blocks of the timeline. `shared`: tokens from the first one on whose cells other slots have too.
    pub fn facts(
        &mut self,
        timeline: &Timeline,
        cells: &CellNumbers,
        segments: &[SegmentRef],
        shared: usize,
    ) -> Vec<BlockFacts> {
        let mut labels = Labels::new(segments);
        let whole = timeline.whole_blocks().len();
        let fact = |(at, block): (usize, &hob_slots::Block)| {
            let range = block.range.clone();
            let tokens = &timeline.tokens()[range.clone()];
            let known = self.blocks.entry(range.start).or_default();
            let sketch = match known.sketch {
                Some(sketch) => sketch,
                None if at < whole => *known.sketch.insert(Sketch::of(tokens)),
                None => Sketch::of(tokens),
            };
            let before = self.turns.partition_point(|&(start, _)| start <= range.start);
            let first_turn = before.checked_sub(1).map_or(0, |turn| self.turns[turn].1);
            let label = labels.of(&range);
            BlockFacts {
                own_cells: range.end.saturating_sub(range.start.max(shared)),
                resident: cells.has(&range),
                range,
                layer: label.layer,
                weight: label.weight,
                pinned: label.pinned,
                group: label.group,
                last_used_turn: known.last_used.max(first_turn),
                hits: known.hits,
                brought_back: known.asked_for,
                first_turn,
                sketch,
            }
        };
        timeline.blocks().iter().enumerate().map(fact).collect()
    }
}
