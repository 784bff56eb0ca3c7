//! The block of a record that stands in place of one that a prompt cuts otherwise. Pure.

use std::ops::Range;

use hob_slots::format::SlotRecord;
use hob_slots::{Block, BlockId, View};

/// Name and range of the record's block that begins as `ours` does: at the same position, behind the same
/// block, and computed with the same view. The KV of their equal tokens is equal, wherever the two end.
pub(super) fn block_like(record: &SlotRecord, ours: &Block) -> Option<(BlockId, Range<usize>)> {
    let SlotRecord { blocks, lineage, .. } = record;
    let start = ours.range.start;
    let index = blocks.partition_point(|block| block.end as usize <= start);
    let block = blocks.get(index)?;
    let before = index.checked_sub(1).map(|before| &blocks[before]);
    let is_behind = before.map(|before| before.id) == ours.before();
    let run = lineage.views.iter().find(|run| start < run.end as usize);
    let view = run.map_or(View::WHOLE, |run| run.view);
    (is_behind && view == ours.view).then_some((block.id, start..block.end as usize))
}

#[cfg(test)]
mod tests {
    use hob_slots::format::BlockRef;
    use hob_slots::{Lineage, ModelHash, Timeline, Token};

    use super::super::empty_record::empty_record;
    use super::*;

    fn timeline(tokens: usize, view: View) -> Timeline {
        let mut timeline = Timeline::new(ModelHash([1; 8]));
        timeline.push(&vec![Token(1); tokens.min(100)], |_| false);
        timeline.push_seeing(&vec![Token(1); tokens.saturating_sub(100)], view, |_| false);
        timeline
    }

    fn record(of: &Timeline) -> SlotRecord {
        let block = |block: &Block| BlockRef {
            end: u32::try_from(block.range.end).unwrap(),
            id: block.id,
            bytes: 1,
        };
        SlotRecord {
            tokens: of.tokens().to_vec(),
            blocks: of.blocks().iter().map(block).collect(),
            lineage: Lineage { views: of.views(), away: Vec::new() },
            ..empty_record("chat")
        }
    }

    #[test]
    fn a_block_stands_for_one_that_ends_elsewhere_where_both_begin_alike() {
        let saved = timeline(150, View::without([0..64]));
        let [.., saved_last] = saved.blocks() else { panic!("it has blocks") };
        let ours = timeline(130, View::without([0..64]));
        let [.., last] = ours.blocks() else { panic!("it has blocks") };
        assert_eq!(block_like(&record(&saved), last), Some((saved_last.id, 100..150)));
    }

    #[test]
    fn a_block_that_saw_something_else_stands_for_none() {
        let saved = record(&timeline(150, View::without([0..64])));
        for view in [View::WHOLE, View::without([64..100])] {
            let ours = timeline(200, view);
            let behind_100 = ours.blocks().iter().filter(|block| block.range.start >= 100);
            for block in behind_100 {
                assert_eq!(block_like(&saved, block), None, "{:?}", block.range);
            }
        }
    }
}
