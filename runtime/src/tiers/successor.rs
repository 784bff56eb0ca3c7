//! What replaces a conversation's record: never a strict prefix of it.
//!
//! A turn that was cancelled, or stopped with the engine, may have computed less of its prompt than
//! the conversation has saved. Its record would hide the rest from the next turn, and the sweep
//! would collect the blocks. So a covering record keeps its tokens and objects, and takes over the
//! use and the snapshots of the new one.

use std::collections::BTreeSet;

use hob_slots::branches::carry;
use hob_slots::format::SlotRecord;
use hob_slots::lineage::views_within;
use hob_slots::{BlockId, Timeline};

use super::records::split;

/// Snapshots of a covering record: the lowest positions leave.
const MAX_SNAPSHOTS: usize = 2 * hob_slots::branches::MAX_SNAPSHOTS;

/// The record that replaces `before`, which covers `record`. `holds`: whether a tier has an object
/// of `record`.
pub(super) fn of_covering(
    before: &SlotRecord,
    record: SlotRecord,
    holds: impl Fn(&BlockId) -> bool,
) -> SlotRecord {
    debug_assert!(before.covers(&record.adapters, &record.tokens));
    let mut snapshots = record.snapshots;
    // A snapshot of tokens that attended to something else has another name than those of `before`.
    let saw_the_same = |tokens| {
        views_within(&before.lineage.views, tokens) == views_within(&record.lineage.views, tokens)
    };
    snapshots.retain(|snapshot| holds(&snapshot.id) && saw_the_same(snapshot.position));
    snapshots.extend_from_slice(&before.snapshots);
    snapshots.sort_by_key(|snapshot| snapshot.position);
    snapshots.dedup_by_key(|snapshot| snapshot.position);
    snapshots.drain(..snapshots.len().saturating_sub(MAX_SNAPSHOTS));
    SlotRecord {
        tokens: before.tokens.clone(),
        blocks: before.blocks.clone(),
        snapshots,
        segments: before.segments.clone(),
        lineage: before.lineage.clone(),
        ..record
    }
}

/// The successor of a record that was made without reading `before`: what that record took for an earlier branch is
/// on the timeline again.
pub(super) fn of_unread(
    before: &SlotRecord,
    record: SlotRecord,
    holds: impl Fn(&BlockId) -> bool,
) -> SlotRecord {
    let mut record = with_history(before, record);
    let since = std::mem::take(&mut record.branches);
    let mut covering = of_covering(before, record, holds);
    let mut named: BTreeSet<BlockId> = covering.objects().map(|(id, _)| id).collect();
    let branches = since.iter().chain(&before.branches).copied();
    covering.branches = branches.filter(|object| named.insert(object.id)).collect();
    covering
}

/// The record that replaces `before`, which does not cover `record`, where that was made without reading it: it
/// names what `before` has of other branches. `timeline`: the record's tokens. What is surplus is left to
/// the sweep.
pub(super) fn beside_unread(
    before: &SlotRecord,
    record: SlotRecord,
    timeline: &Timeline,
    holds: impl Fn(&BlockId) -> bool,
) -> SlotRecord {
    let mut record = with_history(before, record);
    let since = std::mem::take(&mut record.branches);
    let (own, older) = split(before);
    carry(&mut record, timeline, own, [since, older].concat(), holds);
    record
}

fn with_history(before: &SlotRecord, record: SlotRecord) -> SlotRecord {
    let created_at = before.created_at.min(record.created_at);
    let turns = before.turns.max(record.turns);
    SlotRecord { created_at, turns, ..record }
}

#[cfg(test)]
mod tests {
    use hob_slots::format::{BlockRef, BranchRef, ObjectKind, SnapshotRef};
    use hob_slots::{Lineage, ModelHash, Token, View, ViewRun};

    use super::super::empty_record::empty_record;
    use super::*;

    fn record(tokens: usize, views: Vec<ViewRun>, snapshots: &[(u32, u8)]) -> SlotRecord {
        let snapshot = |&(position, digit): &(u32, u8)| SnapshotRef {
            position,
            id: BlockId([digit; 32]),
            bytes: 1,
        };
        SlotRecord {
            tokens: vec![Token(1); tokens],
            snapshots: snapshots.iter().map(snapshot).collect(),
            lineage: Lineage { views, away: Vec::new() },
            ..empty_record("chat")
        }
    }

    #[test]
    fn a_covering_record_keeps_its_lineage_and_takes_snapshots_of_tokens_that_saw_the_same() {
        let apart = View::without([0..64]);
        let views =
            |end| vec![ViewRun { end: 100, view: View::WHOLE }, ViewRun { end, view: apart }];
        let before = record(200, views(200), &[(140, 1)]);
        let ids = |next: &SlotRecord| -> Vec<u8> {
            next.snapshots.iter().map(|snapshot| snapshot.id.0[0]).collect()
        };
        let seen_alike = record(150, views(150), &[(90, 2), (140, 3)]);
        let next = of_covering(&before, seen_alike, |_| true);
        assert_eq!((&next.lineage, ids(&next)), (&before.lineage, vec![2, 3]));

        let computed_whole = record(150, Vec::new(), &[(90, 2), (140, 3)]);
        let next = of_unread(&before, computed_whole, |_| true);
        assert_eq!((&next.lineage, ids(&next)), (&before.lineage, vec![2, 1]));
    }

    #[test]
    fn a_record_beside_one_that_was_not_read_names_its_blocks_and_branches_as_branches() {
        let block = |digit| BranchRef {
            kind: ObjectKind::Block,
            start: 0,
            end: 64,
            id: BlockId([digit; 32]),
            bytes: 1,
        };
        let of_timeline = BlockRef { end: 64, id: BlockId([1; 32]), bytes: 1 };
        let before = SlotRecord {
            turns: 7,
            blocks: vec![of_timeline],
            branches: vec![block(3)],
            ..record(64, Vec::new(), &[])
        };
        let edited = SlotRecord {
            tokens: vec![Token(2); 10],
            branches: vec![block(2)],
            ..empty_record("chat")
        };
        let mut timeline = Timeline::new(ModelHash([0; 8]));
        timeline.push(&edited.tokens, |_| false);
        let next = beside_unread(&before, edited, &timeline, |_| true);
        assert_eq!((next.turns, next.tokens.len()), (7, 10));
        assert_eq!(next.branches, [1, 2, 3].map(block));
    }
}
