//! What replaces a conversation's record: never a strict prefix of it.
//!
//! A turn that was cancelled, or stopped with the engine, may have computed less of its prompt than
//! the conversation has saved. Its record would hide the rest from the next turn, and the sweep
//! would collect the blocks. So a covering record keeps its tokens and objects, and takes over the
//! use and the snapshots of the new one.

use std::collections::BTreeSet;

use hob_slots::BlockId;
use hob_slots::format::SlotRecord;

/// Snapshots of a covering record, twice as many as of another: the lowest positions leave.
const MAX_SNAPSHOTS: usize = 8;

/// The record that replaces `before`, which covers `record`. `holds`: whether a tier has an object
/// of `record`.
pub(super) fn of_covering(
    before: &SlotRecord,
    record: SlotRecord,
    holds: impl Fn(&BlockId) -> bool,
) -> SlotRecord {
    debug_assert!(before.covers(&record.adapters, &record.tokens));
    let mut snapshots = record.snapshots;
    snapshots.retain(|snapshot| holds(&snapshot.id));
    snapshots.extend_from_slice(&before.snapshots);
    snapshots.sort_by_key(|snapshot| snapshot.position);
    snapshots.dedup_by_key(|snapshot| snapshot.position);
    snapshots.drain(..snapshots.len().saturating_sub(MAX_SNAPSHOTS));
    SlotRecord {
        tokens: before.tokens.clone(),
        blocks: before.blocks.clone(),
        snapshots,
        segments: before.segments.clone(),
        ..record
    }
}

/// The same for a record that was written without knowing `before`: what it took for an earlier
/// branch is on the timeline again.
pub(super) fn of_unread(
    before: &SlotRecord,
    record: SlotRecord,
    holds: impl Fn(&BlockId) -> bool,
) -> SlotRecord {
    let created_at = before.created_at.min(record.created_at);
    let turns = before.turns.max(record.turns);
    let branches = [record.branches.as_slice(), &before.branches].concat();
    let record = SlotRecord { created_at, turns, branches: Vec::new(), ..record };
    let mut covering = of_covering(before, record, holds);
    let mut named: BTreeSet<BlockId> = covering.objects().map(|(id, _)| id).collect();
    covering.branches = branches.into_iter().filter(|object| named.insert(object.id)).collect();
    covering
}
