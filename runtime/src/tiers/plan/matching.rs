//! Which objects that a record names belong to a prompt: those whose names follow from its tokens.

use std::collections::HashMap;
use std::ops::Range;

use hob_slots::format::{BranchRef, ObjectKind, SlotRecord, SnapshotRef};
use hob_slots::{Block, BlockId, Timeline};

/// Whole blocks of branches that are a part of a block of `timeline`, the longest at each start.
pub(super) fn branch_ends<'r>(
    branches: impl Iterator<Item = &'r BranchRef>,
    timeline: &Timeline,
    limit: usize,
) -> Vec<(BlockId, Range<usize>)> {
    let mut ends: HashMap<usize, (BlockId, Range<usize>)> = HashMap::new();
    for object in branches.filter(|object| object.kind == ObjectKind::Block) {
        let range = object.start as usize..object.end as usize;
        let blocks = timeline.blocks();
        let Ok(at) = blocks.binary_search_by_key(&range.start, |block| block.range.start) else {
            continue;
        };
        let is_part = range.end < blocks[at].range.end && range.end <= limit;
        let is_longer = ends.get(&range.start).is_none_or(|(_, known)| known.end < range.end);
        if is_part && is_longer && timeline.id_at(range.end) == object.id {
            ends.insert(range.start, (object.id, range));
        }
    }
    ends.into_values().collect()
}

/// The blocks in which these snapshots are, up to there: what took a snapshot inside a block has exported the
/// block so far.
pub(super) fn parts_of_blocks(
    snapshots: &[SnapshotRef],
    timeline: &Timeline,
) -> impl Iterator<Item = (BlockId, Range<usize>)> {
    snapshots.iter().filter_map(move |snapshot| {
        let end = snapshot.position as usize;
        let within = |block: &&Block| block.range.start < end && end < block.range.end;
        let block = timeline.blocks().iter().find(within)?;
        Some((timeline.id_at(end), block.range.start..end))
    })
}

/// Snapshots of the record and of its branches that match this prompt, by position. The one at the
/// prompt's end cannot be restored for an answer, which computes the last token; the next record
/// goes on naming it for a prompt that continues there.
pub(super) fn snapshots_of(
    record: Option<&SlotRecord>,
    timeline: &Timeline,
    expected: usize,
) -> Vec<SnapshotRef> {
    let Some(record) = record else { return Vec::new() };
    let own = record.snapshots.iter().copied();
    let own = own.filter(|snapshot| snapshot.position as usize <= expected);
    let branches = record.branches.iter().filter(|object| object.kind == ObjectKind::Snapshot);
    let of_branches = branches
        .map(|&BranchRef { end, id, bytes, .. }| SnapshotRef { position: end, id, bytes })
        .filter(|snapshot| {
            let position = snapshot.position as usize;
            position <= timeline.len() && is_snapshot(&snapshot.id, timeline, position)
        });
    let mut snapshots: Vec<SnapshotRef> = own.chain(of_branches).collect();
    snapshots.sort_by_key(|snapshot| snapshot.position);
    snapshots
}

/// The snapshots of the timeline behind `hot`, up to `reachable`, by position.
pub(super) fn snapshots_within(
    snapshots: impl Iterator<Item = SnapshotRef>,
    timeline: &Timeline,
    hot: usize,
    reachable: usize,
) -> Vec<SnapshotRef> {
    let sought = snapshots.filter(|snapshot| {
        let position = snapshot.position as usize;
        (hot + 1..=reachable).contains(&position) && is_snapshot(&snapshot.id, timeline, position)
    });
    let mut sought: Vec<SnapshotRef> = sought.collect();
    sought.sort_by_key(|snapshot| snapshot.position);
    sought
}

/// Whether the name is of a snapshot, whole or partial, of the first `position` tokens.
fn is_snapshot(id: &BlockId, timeline: &Timeline, position: usize) -> bool {
    let at = timeline.id_at(position);
    [BlockId::snapshot(at), BlockId::partial(at)].contains(id)
}
