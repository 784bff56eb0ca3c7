//! Finds what is kept of a prompt and brings it together, verified, in the order of positions.
//!
//! - A block is found by its name, which the prompt's own tokens give; so a conversation finds
//!   blocks that another one wrote. Where the prompt cuts differently than the conversation did
//!   (it goes on in the middle of a block), the conversation's record tells the other name.
//! - A piece may hold more than is wanted of it: the tokens after the last equal one are not taken.
//! - The last token of a prompt is never taken: computing it gives the logits for the answer.

use std::ops::Range;
use std::sync::Arc;

use hob_slots::format::{ObjectKind, SlotRecord, SnapshotRef};
use hob_slots::store::Miss;
use hob_slots::{BlockId, Chain, ConversationId, Payload, Token};

use super::{Counters, Known, Shared, elsewhere, lock};
use crate::miss::MissReason;

/// What is asked for.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// Whose prompt it is; `None` when nothing was kept under a name.
    pub conversation: Option<ConversationId>,
    /// The whole prompt.
    pub prompt: Vec<Token>,
    /// Tokens of it that are hot already.
    pub hot: usize,
}

/// Where a piece was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In host memory.
    Memory,
    /// On disk, verified.
    Disk,
}

/// A verified state and what to take of it.
#[derive(Clone, Debug)]
pub struct Piece {
    /// The positions that the state holds.
    pub held: Range<usize>,
    /// Those that the prompt wants.
    pub wanted: Range<usize>,
    /// The state.
    pub payload: Payload,
    /// Where it came from.
    pub place: Place,
}

/// What was found.
#[derive(Debug, Default)]
pub struct Fetched {
    /// Without gaps, from `hot` on; for memories that are not plain one snapshot from 0 on.
    pub pieces: Vec<Piece>,
    /// Tokens of this prompt that the conversation's record knows.
    pub expected: usize,
    /// Tokens that the record has in all.
    pub recorded: usize,
    /// Snapshots of the record that still belong to this prompt, by position.
    pub snapshots: Vec<SnapshotRef>,
    /// Why less was found than expected.
    pub miss: Option<MissReason>,
}

pub(super) fn assemble(shared: &Shared, wanted: &Wanted) -> Fetched {
    let mut fetched = Fetched::default();
    let record = find_record(shared, wanted, &mut fetched.miss);
    let limit = wanted.prompt.len().saturating_sub(1);
    if let Some(record) = &record {
        fetched.recorded = record.tokens.len();
        fetched.expected = common_prefix(&record.tokens, &wanted.prompt);
    }
    let vocabulary = shared.model.vocabulary();
    let mut chain = Chain::new(shared.fingerprint);
    chain.push(&wanted.prompt, |token| vocabulary.is_eog(token));
    if shared.model.facts().memory.is_plain() {
        assemble_blocks(shared, wanted.hot, limit, &chain, record.as_deref(), &mut fetched);
    } else if let Some(record) = &record {
        assemble_snapshot(shared, wanted.hot, limit, &chain, record, &mut fetched);
    }
    fetched
}

/// The length of the longest common beginning.
pub fn common_prefix(one: &[Token], other: &[Token]) -> usize {
    one.iter().zip(other).take_while(|(a, b)| a == b).count()
}

fn find_record(
    shared: &Shared,
    wanted: &Wanted,
    miss: &mut Option<MissReason>,
) -> Option<Arc<SlotRecord>> {
    let conversation = wanted.conversation.as_ref()?;
    if let Some(seen) = shared.records().seen(conversation) {
        return seen;
    }
    let store = shared.store.as_ref()?;
    let _present = lock(&shared.removal);
    match store.get_slot(shared.fingerprint, conversation) {
        Ok(record) => {
            // The conversation goes on naming them; one that is gone shows when it is read.
            for snapshot in &record.snapshots {
                let known = Known { file_bytes: snapshot.bytes, on_disk: true };
                shared.objects().entry(snapshot.id).or_insert(known);
            }
            shared.records().read(record)
        }
        Err(Miss::Absent) => {
            *miss = elsewhere::kept_under(store, shared.fingerprint, conversation);
            None
        }
        Err(reason) => {
            Counters::add(&shared.counters.rejected, 1);
            *miss = Some(MissReason::Unusable { from: 0, reason: reason.to_string() });
            None
        }
    }
}

fn assemble_blocks(
    shared: &Shared,
    hot: usize,
    limit: usize,
    chain: &Chain,
    record: Option<&SlotRecord>,
    fetched: &mut Fetched,
) {
    let mut at = hot;
    while at < limit {
        let own = &chain.blocks()[chain.blocks().partition_point(|block| block.range.end <= at)];
        let recorded = record.and_then(|record| block_at(record, at));
        let found = match find(shared, &own.id, ObjectKind::Block) {
            Ok(found) => Ok((found, own.range.clone(), own.range.end)),
            // The record's block begins where ours does, because all before it is equal.
            Err(reason) => match recorded.filter(|(id, _)| *id != own.id) {
                Some((id, range)) => find(shared, &id, ObjectKind::Block).map(|found| {
                    let equal_until = range.end.min(fetched.expected);
                    (found, range, equal_until)
                }),
                None => Err(reason),
            },
        };
        let ((payload, place), held, equal_until) = match found {
            Ok(found) => found,
            Err(reason) => {
                if at < fetched.expected.min(limit) {
                    let reason = reason.to_string();
                    fetched.miss = Some(MissReason::Unusable { from: at, reason });
                }
                return;
            }
        };
        let end = equal_until.min(limit);
        if end <= at {
            return;
        }
        fetched.pieces.push(Piece { held, wanted: at..end, payload, place });
        at = end;
    }
}

fn assemble_snapshot(
    shared: &Shared,
    hot: usize,
    limit: usize,
    chain: &Chain,
    record: &SlotRecord,
    fetched: &mut Fetched,
) {
    let reachable = fetched.expected.min(limit);
    fetched.snapshots = record
        .snapshots
        .iter()
        .filter(|snapshot| snapshot.position as usize <= reachable)
        .cloned()
        .collect();
    fetched.snapshots.sort_by_key(|snapshot| snapshot.position);
    for snapshot in fetched.snapshots.iter().rev() {
        let position = snapshot.position as usize;
        if position <= hot {
            return; // What is hot goes further.
        }
        if snapshot.id != BlockId::snapshot(chain.id_at(position)) {
            continue;
        }
        match find(shared, &snapshot.id, ObjectKind::Snapshot) {
            Ok((payload, place)) => {
                let range = 0..position;
                let piece = Piece { held: range.clone(), wanted: range, payload, place };
                fetched.pieces.push(piece);
                return;
            }
            Err(reason) => {
                let reason = format!("the snapshot at token {position}: {reason}");
                fetched.miss = Some(MissReason::Unusable { from: hot, reason });
            }
        }
    }
}

/// An object's payload, from memory or else from disk.
fn find(shared: &Shared, id: &BlockId, kind: ObjectKind) -> Result<(Payload, Place), Miss> {
    if let Some(payload) = shared.pool().get(id) {
        return Ok((payload, Place::Memory));
    }
    let store = shared.store.as_ref().ok_or(Miss::Absent)?;
    let _present = lock(&shared.removal);
    match store.get_object(shared.fingerprint, *id, kind) {
        Ok(object) => {
            Counters::add(&shared.counters.read_bytes, object.payload.len() as u64);
            let file_bytes = object.file_bytes();
            shared.objects().insert(*id, Known { file_bytes, on_disk: true });
            shared.pool().insert_saved(*id, object.payload.clone());
            Ok((object.payload, Place::Disk))
        }
        Err(miss) => {
            shared.objects().remove(id);
            if !matches!(miss, Miss::Absent) {
                Counters::add(&shared.counters.rejected, 1);
            }
            Err(miss)
        }
    }
}

/// Name and range of the record's block that holds position `at`.
fn block_at(record: &SlotRecord, at: usize) -> Option<(BlockId, Range<usize>)> {
    let index = record.blocks.partition_point(|block| block.end as usize <= at);
    let block = record.blocks.get(index)?;
    let before = index.checked_sub(1).map(|before| &record.blocks[before]);
    let start = before.map_or(0, |before| before.end as usize);
    Some((block.id, start..block.end as usize))
}
