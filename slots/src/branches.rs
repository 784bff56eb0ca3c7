//! Which objects of earlier branches a conversation's record names.
//!
//! - A branch is what an edit, another answer or a cancelled turn has replaced. Going back to it
//!   restores its KV; deleting the conversation deletes it.
//! - The newest branch comes first, and in it a block before those that continue it. So the end of
//!   the list, which leaves first, is the end of the oldest branch.
//! - Branches together have at most twice the tokens of the longest timeline, and
//!   [`MIN_BRANCH_TOKENS`] in any case. Of a branch's snapshots, only the
//!   furthest stays, and those of the newest [`MAX_BRANCH_SNAPSHOTS`] branches.
//! - Another answer may repeat the one before and go on. The earlier snapshots are on its timeline
//!   then, and stay with its own, the furthest [`MAX_SNAPSHOTS`].

use std::collections::BTreeSet;

use crate::block::Timeline;
use crate::format::{BranchRef, ObjectKind, SlotRecord, SnapshotRef};
use crate::id::BlockId;

/// Branches up to this length stay, however short the conversation is.
pub const MIN_BRANCH_TOKENS: u64 = 4096;

pub const MAX_BRANCH_SNAPSHOTS: usize = 4;

/// Snapshots of one timeline: after its last answers, and before the one from which the
/// conversation left a slot. A record that has more when it comes keeps as many.
pub const MAX_SNAPSHOTS: usize = 4;

/// Makes `record`, which has no branches yet, name what the conversation has left behind. Returns
/// the objects that no record of it names any more: surplus branches and superseded snapshots.
///
/// `timeline`: the conversation's own. `left`: the objects of its last timeline, and those saved
/// since. `older`: the branches of its last record. `holds`: whether a tier has a snapshot.
pub fn carry(
    record: &mut SlotRecord,
    timeline: &Timeline,
    left: Vec<BranchRef>,
    older: Vec<BranchRef>,
    holds: impl Fn(&BlockId) -> bool,
) -> Vec<BlockId> {
    let mut seen: BTreeSet<BlockId> = record.objects().map(|(id, _)| id).collect();
    let of_branch = |object: &&BranchRef| {
        object.kind == ObjectKind::Snapshot
            && !seen.contains(&object.id)
            && !is_on(timeline, object)
    };
    let furthest = left.iter().filter(of_branch).max_by_key(|object| object.end);
    let furthest = furthest.map(|object| object.id);
    let left = left
        .into_iter()
        .map(|object| (object, object.kind == ObjectKind::Block || Some(object.id) == furthest));
    let before: Vec<(BranchRef, bool)> =
        left.chain(older.into_iter().map(|object| (object, true))).collect();
    let ends = before.iter().map(|(object, _)| object.end as usize);
    let longest = ends.fold(timeline.len(), usize::max);
    let mut room = Room {
        tokens: (2 * longest as u64).max(MIN_BRANCH_TOKENS),
        snapshots: MAX_BRANCH_SNAPSHOTS,
    };
    let most = record.snapshots.len().max(MAX_SNAPSHOTS);
    let mut dropped = Vec::new();
    for (object, may_stay) in before {
        if !seen.insert(object.id) {
            continue;
        }
        if is_on(timeline, &object) {
            let BranchRef { end: position, id, bytes, kind, .. } = object;
            // A longer block has replaced a block. The sweep collects blocks, because another
            // prompt may find them by their tokens.
            if matches!(kind, ObjectKind::Snapshot | ObjectKind::Partial) {
                // The record may have only the beginning of the timeline: what could be exported.
                if position as usize <= record.tokens.len() && holds(&id) {
                    record.snapshots.push(SnapshotRef { position, id, bytes });
                } else {
                    dropped.push(id);
                }
            }
        } else if may_stay && room.takes(&object) {
            record.branches.push(object);
        } else {
            dropped.push(object.id);
        }
    }
    record.snapshots.sort_by_key(|snapshot| snapshot.position);
    let surplus = record.snapshots.len().saturating_sub(most);
    dropped.extend(record.snapshots.drain(..surplus).map(|snapshot| snapshot.id));
    dropped
}

/// Whether the tokens of `object` and all before them begin the timeline.
fn is_on(timeline: &Timeline, object: &BranchRef) -> bool {
    let end = object.end as usize;
    end <= timeline.len() && {
        let at = timeline.id_at(end);
        match object.kind {
            ObjectKind::Block => object.id == at,
            _ => [BlockId::snapshot(at), BlockId::partial(at)].contains(&object.id),
        }
    }
}

/// The tokens and snapshots that branches may still have.
struct Room {
    tokens: u64,
    snapshots: usize,
}

impl Room {
    fn takes(&mut self, object: &BranchRef) -> bool {
        match object.kind {
            ObjectKind::Block | ObjectKind::Lossy => {
                let left = self.tokens.checked_sub(u64::from(object.end - object.start));
                // Once a block has no room, no later one has: it may continue this one.
                self.tokens = left.unwrap_or(0);
                left.is_some()
            }
            ObjectKind::Snapshot | ObjectKind::Partial => {
                let left = self.snapshots.checked_sub(1);
                self.snapshots = left.unwrap_or(0);
                left.is_some()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::BLOCK_TOKENS;
    use crate::format::{BlockRef, SnapshotRef};
    use crate::id::{ModelHash, Token};
    use crate::lineage::{Lineage, View};
    use crate::time::Timestamp;
    use crate::ttl::TtlClass;

    const MODEL: ModelHash = ModelHash([7; 8]);

    /// Whole blocks, one for each letter.
    fn timeline(letters: &str) -> Timeline {
        let mut timeline = Timeline::new(MODEL);
        for letter in letters.bytes() {
            timeline.push(&[Token(letter.into()); BLOCK_TOKENS], |_| false);
        }
        timeline
    }

    fn record_of(timeline: &Timeline) -> SlotRecord {
        let block = |block: &crate::block::Block| BlockRef {
            end: block.range.end as u32,
            id: block.id,
            bytes: 1,
        };
        SlotRecord {
            tokens: timeline.tokens().to_vec(),
            blocks: timeline.blocks().iter().map(block).collect(),
            lineage: Lineage { views: timeline.views(), away: Vec::new() },
            ..SlotRecord::empty("chat".parse().unwrap(), TtlClass::Long, Timestamp(0))
        }
    }

    fn carry_from(before: &SlotRecord, record: &mut SlotRecord, at: &Timeline) -> Vec<BlockId> {
        let mut left: Vec<BranchRef> = before.placed().collect();
        let older = left.split_off(left.len() - before.branches.len());
        carry(record, at, left, older, |_| true)
    }

    /// The record of `letters` after `before`, and what it dropped.
    fn after(before: &SlotRecord, letters: &str) -> (SlotRecord, Vec<BlockId>) {
        let timeline = timeline(letters);
        let mut record = record_of(&timeline);
        let dropped = carry_from(before, &mut record, &timeline);
        (record, dropped)
    }

    /// The names of the blocks of `letters` from block `from` on.
    fn names(letters: &str, from: usize) -> Vec<BlockId> {
        timeline(letters).blocks()[from..].iter().map(|block| block.id).collect()
    }

    fn branches(record: &SlotRecord) -> Vec<BlockId> {
        record.branches.iter().map(|object| object.id).collect()
    }

    #[test]
    fn an_edit_leaves_a_branch_and_going_back_takes_it_up_again() {
        let first = record_of(&timeline("abc"));
        let (edited, _) = after(&first, "axy");
        assert_eq!(branches(&edited), names("abc", 1));
        assert_eq!((edited.branches[0].start, edited.branches[0].end), (64, 128));
        let (again, _) = after(&edited, "axz");
        assert_eq!(branches(&again), [names("axy", 2), names("abc", 1)].concat());
        let (back, dropped) = after(&again, "abcd");
        assert_eq!(branches(&back), [names("axz", 1), names("axy", 2)].concat());
        assert_eq!(dropped, []);
    }

    #[test]
    fn a_longer_timeline_leaves_no_branch() {
        let mut start = timeline("ab");
        start.push(&[Token(1); 10], |_| false);
        let mut longer = timeline("ab");
        longer.push(&[Token(1); 30], |_| false);
        let mut record = record_of(&longer);
        let dropped = carry_from(&record_of(&start), &mut record, &longer);
        assert_eq!((branches(&record), dropped), (Vec::new(), Vec::new()));
    }

    #[test]
    fn the_end_of_the_oldest_branch_leaves_first_and_the_number_of_branches_is_bounded() {
        let mut record = record_of(&timeline("abcdefghij"));
        let mut lost = Vec::new();
        for turn in 0..2_000_u32 {
            let mut timeline = timeline("abc");
            timeline.push(&[Token(1_000 + turn as i32); 2 * BLOCK_TOKENS], |_| false);
            let mut next = record_of(&timeline);
            lost.extend(carry_from(&record, &mut next, &timeline));
            record = next;
            let tokens: u32 = record.branches.iter().map(|block| block.end - block.start).sum();
            assert!(u64::from(tokens) <= MIN_BRANCH_TOKENS, "{tokens} tokens in turn {turn}");
        }
        let original = names("abcdefghij", 3);
        let first: BTreeSet<_> = lost[..original.len()].iter().collect();
        assert_eq!(first, original.iter().collect(), "the oldest branch left first");
        assert_eq!(Some(&lost[0]), original.last(), "from its end");
    }

    #[test]
    fn a_long_branch_stays_whole_after_the_first_message_was_edited() {
        let long: String = ('a'..='z').cycle().take(400).collect();
        let (edited, dropped) = after(&record_of(&timeline(&long)), "?");
        assert_eq!((edited.branches.len(), dropped.len()), (400, 0));
        let (again, dropped) = after(&edited, "!");
        assert_eq!((again.branches.len(), dropped.len()), (401, 0));
    }

    #[test]
    fn the_furthest_snapshots_of_this_timeline_stay_and_the_furthest_of_a_branch() {
        let (first, edited) = (timeline("abc"), timeline("abx"));
        let mut before = record_of(&first);
        before.blocks.clear();
        let [shared, middle, end] = [100, 170, 190].map(|position| snapshot(&first, position));
        before.snapshots = vec![shared, middle, end];
        let mut record = SlotRecord { blocks: Vec::new(), ..record_of(&edited) };
        let own = [110, 120, 130, 180].map(|position| snapshot(&edited, position));
        record.snapshots = own.to_vec();
        let dropped = carry_from(&before, &mut record, &edited);
        assert_eq!(dropped, [middle.id, shared.id]);
        assert_eq!((branches(&record), &record.snapshots[..]), (vec![end.id], &own[..]));
    }

    #[test]
    fn another_answer_that_repeats_the_one_before_keeps_its_snapshots() {
        let longer = timeline("abcd");
        let snapshots = |positions: &[usize]| -> Vec<SnapshotRef> {
            positions.iter().map(|&position| snapshot(&longer, position)).collect()
        };
        let before = SlotRecord {
            snapshots: snapshots(&[90, 150, 170, 190]),
            ..record_of(&timeline("abc"))
        };
        let after = || SlotRecord { snapshots: snapshots(&[90, 150, 200]), ..record_of(&longer) };

        let mut record = after();
        let dropped = carry_from(&before, &mut record, &longer);
        assert_eq!(record.snapshots, snapshots(&[150, 170, 190, 200]));
        assert_eq!(dropped, [snapshot(&longer, 90).id]);

        let (mut record, left) = (after(), before.placed().collect());
        let lost = |id: &BlockId| *id != snapshot(&longer, 190).id;
        carry(&mut record, &longer, left, Vec::new(), lost);
        assert_eq!(record.snapshots, snapshots(&[90, 150, 170, 200]));

        let mut record = SlotRecord { snapshots: snapshots(&[90, 150]), ..after() };
        record.tokens.truncate(180);
        carry_from(&before, &mut record, &longer);
        assert_eq!(record.snapshots, snapshots(&[90, 150, 170]), "within the record's tokens");
    }

    fn snapshot(timeline: &Timeline, position: usize) -> SnapshotRef {
        let id = BlockId::snapshot(timeline.id_at(position));
        SnapshotRef { position: position as u32, id, bytes: 1 }
    }

    /// As [`timeline`]; from block `from` on, without having seen the first block.
    fn impure(letters: &str, from: usize) -> Timeline {
        let mut timeline = timeline(&letters[..from]);
        let view = View::without([0..BLOCK_TOKENS]);
        for letter in letters[from..].bytes() {
            timeline.push_seeing(&[Token(letter.into()); BLOCK_TOKENS], view, |_| false);
        }
        timeline
    }

    #[test]
    fn a_timeline_that_is_cut_within_its_impure_tokens_leaves_their_blocks_as_a_branch() {
        let first = impure("abcd", 2);
        let mut cut = first.clone();
        cut.truncate(3 * BLOCK_TOKENS + 10);
        cut.push_seeing(&[Token(1); 20], first.blocks()[3].view, |_| false);
        let mut record = record_of(&cut);
        let dropped = carry_from(&record_of(&first), &mut record, &cut);
        assert_eq!(branches(&record), [first.blocks()[3].id]);
        assert_eq!((record.branches[0].start, dropped), (192, Vec::new()));

        let mut back = record_of(&first);
        carry_from(&record, &mut back, &first);
        assert_eq!(
            branches(&back),
            [cut.blocks()[3].id],
            "its own branch is on the timeline again"
        );
    }

    #[test]
    fn impure_objects_are_not_on_a_timeline_of_the_same_tokens_that_saw_everything() {
        let (first, again) = (impure("abcd", 2), timeline("abcd"));
        let mut before = record_of(&first);
        let position = 250;
        let id = BlockId::snapshot(first.id_at(position));
        before.snapshots = vec![SnapshotRef { position: position as u32, id, bytes: 1 }];
        let mut longer = first.clone();
        longer.push_seeing(&[Token(1); 10], first.blocks()[3].view, |_| false);
        let mut record = record_of(&longer);
        let dropped = carry_from(&before, &mut record, &longer);
        assert_eq!((&record.snapshots, dropped), (&before.snapshots, vec![]), "its own timeline");

        let mut record = record_of(&again);
        let dropped = carry_from(&before, &mut record, &again);
        let blocks = first.blocks()[2..].iter().map(|block| block.id);
        assert_eq!(branches(&record), blocks.chain([id]).collect::<Vec<_>>());
        assert_eq!(dropped, []);
    }
}
