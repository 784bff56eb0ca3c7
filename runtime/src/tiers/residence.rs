//! Which blocks of a saved timeline get cells when there is no room for all.
//!
//! - The last block always does: a sequence continues right behind a cell. The first block does, too: its
//!   tokens are attention sinks.
//! - Then come blocks that the conversation must not lose (axioms, identity, rules, pinned parts), the latest
//!   blocks, and blocks that had cells when the conversation was saved, the latest first.
//! - `recall` finds the blocks later that the new text asks for.

use std::ops::Range;

use hob_slots::Block;
use hob_slots::format::{SegmentRef, SlotRecord};

use crate::labels::Labels;

/// The part of the room that the latest blocks take first (1/3).
const RECENT_SHARE: usize = 3;

/// Keeps those of `blocks`, in order, that get cells, within `room` tokens; all where they fit. The first
/// and the last one are kept in any case.
/// `segments`: of the prompt.
pub(super) fn choose(
    blocks: Vec<Block>,
    segments: &[SegmentRef],
    record: Option<&SlotRecord>,
    room: usize,
) -> Vec<Block> {
    let tokens: usize = blocks.iter().map(|block| block.range.len()).sum();
    if tokens <= room || blocks.len() < 2 {
        return blocks;
    }
    let mut kept = Kept { blocks: &blocks, is_kept: vec![false; blocks.len()], room };
    let last = blocks.len() - 1;
    kept.keep(last);
    kept.keep(0);
    let mut labels = Labels::new(segments);
    for (at, block) in blocks.iter().enumerate() {
        if labels.of(&block.range).stays() {
            kept.keep_if_it_fits(at);
        }
    }
    let enough = kept.room - kept.room / RECENT_SHARE;
    for at in (0..last).rev() {
        if kept.room <= enough || !kept.keep_if_it_fits(at) {
            break;
        }
    }
    let away = record.map_or(&[][..], |record| &record.lineage.away);
    let was_away = |range: &Range<usize>| {
        away.iter().any(|away| (away.start as usize) < range.end && range.start < away.end as usize)
    };
    for at in (0..last).rev() {
        if !was_away(&blocks[at].range) {
            kept.keep_if_it_fits(at);
        }
    }
    let is_kept = kept.is_kept;
    blocks.into_iter().zip(is_kept).filter_map(|(block, kept)| kept.then_some(block)).collect()
}

struct Kept<'b> {
    blocks: &'b [Block],
    is_kept: Vec<bool>,
    room: usize,
}

impl Kept<'_> {
    fn keep(&mut self, at: usize) {
        if !std::mem::replace(&mut self.is_kept[at], true) {
            self.room = self.room.saturating_sub(self.blocks[at].range.len());
        }
    }

    /// Returns whether the block is kept.
    fn keep_if_it_fits(&mut self, at: usize) -> bool {
        let fits = self.is_kept[at] || self.blocks[at].range.len() <= self.room;
        if fits {
            self.keep(at);
        }
        fits
    }
}

#[cfg(test)]
mod tests {
    use hob_slots::{Layer, Lineage, ModelHash, Token, blocks_of};

    use super::super::empty_record::empty_record;
    use super::*;

    fn blocks(count: usize) -> Vec<Block> {
        blocks_of(ModelHash([1; 8]), &vec![Token(5); count * 64], |_| false)
    }

    fn record(away: Vec<Range<u32>>) -> SlotRecord {
        let lineage = Lineage { views: Vec::new(), away };
        SlotRecord { lineage, ..empty_record("chat") }
    }

    fn starts(blocks: &[Block]) -> Vec<usize> {
        blocks.iter().map(|block| block.range.start / 64).collect()
    }

    #[test]
    fn all_get_cells_where_they_fit() {
        assert_eq!(choose(blocks(10), &[], None, 640), blocks(10));
    }

    #[test]
    fn the_first_the_last_and_the_latest_come_first() {
        assert_eq!(starts(&choose(blocks(10), &[], None, 320)), [0, 6, 7, 8, 9]);
        assert_eq!(
            starts(&choose(blocks(10), &[], None, 0)),
            [0, 9],
            "without them nothing goes on"
        );
    }

    #[test]
    fn rules_come_before_the_latest_and_what_was_away_last() {
        let rules =
            vec![SegmentRef::new(64, Layer::User, "a"), SegmentRef::new(150, Layer::Rules, "b")];
        let record = record(vec![320..512]);
        assert_eq!(starts(&choose(blocks(10), &rules, Some(&record), 448)), [0, 1, 2, 3, 4, 8, 9]);
    }
}
