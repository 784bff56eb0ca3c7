//! What may be kept of a prompt, and under which names. `read` finds out what is there.
//!
//! - A block is found by its name, which the prompt's own tokens give; so a conversation finds
//!   blocks that another one wrote. Where the prompt cuts differently than the conversation did
//!   (it goes on in the middle of a block), the conversation's record tells the other name.
//! - The last token of a prompt that is to be answered is not taken: computing it gives the logits.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use hob_slots::format::{SlotRecord, SnapshotRef};
use hob_slots::store::Miss;
use hob_slots::{Block, BlockId, Chain, ConversationId, Token, Use};

use super::read::group_blocks;
use super::{Counters, Known, Shared, other_model};
use crate::miss::MissReason;

/// What is asked for.
#[derive(Clone, Debug)]
pub struct FetchRequest {
    /// Whose prompt it is; `None` when nothing was kept under a name.
    pub conversation: Option<ConversationId>,
    /// The whole prompt.
    pub prompt: Vec<Token>,
    /// Tokens of it that are hot already.
    pub hot: usize,
    /// Tokens of it that can be taken at all.
    pub limit: usize,
    /// How far beginnings of it reach of which a whole state may be kept, whoever it was kept for.
    pub prefixes: Vec<usize>,
    /// Only its record is wanted, which what is computed continues.
    pub cold: bool,
    /// The request and the time, for whoever chooses what stays in memory.
    pub used: Use,
}

/// What to look for, in order.
#[derive(Debug)]
pub(super) struct Plan {
    /// Tokens of the prompt that are hot.
    pub hot: usize,
    /// Tokens of the prompt that can be taken at all.
    pub limit: usize,
    /// Tokens of this prompt that the conversation's record knows.
    pub expected: usize,
    pub record: Option<Arc<SlotRecord>>,
    pub sought: Sought,
    pub used: Use,
    /// How many blocks are read and brought in together.
    pub group_blocks: usize,
    /// Why there is no record although there should be.
    pub miss: Option<MissReason>,
}

#[derive(Debug)]
pub(super) enum Sought {
    /// The prompt's blocks, from the one on that is not all hot.
    Blocks(Vec<Block>),
    /// Snapshots that still belong to this prompt and reach further than what is hot, the furthest
    /// last.
    Snapshots(Vec<SnapshotRef>),
}

impl Plan {
    pub fn of(shared: &Shared, wanted: &FetchRequest) -> Self {
        let mut miss = None;
        let record = find_record(shared, wanted, &mut miss);
        let limit = wanted.limit;
        let vocabulary = shared.model.vocabulary();
        let mut chain = Chain::new(shared.fingerprint);
        chain.push(&wanted.prompt, |token| vocabulary.is_eog(token));
        let expected = record.as_ref().map_or(0, |r| common_prefix(&r.tokens, &wanted.prompt));
        let sought = if wanted.cold {
            Sought::Blocks(Vec::new())
        } else if shared.model.facts().memory.is_plain() {
            Sought::Blocks(blocks_between(&chain, wanted.hot, limit))
        } else {
            let own = record.iter().flat_map(|record| &record.snapshots).copied();
            let own = own.filter(|snapshot| snapshot.position as usize <= expected);
            let shared = wanted.prefixes.iter().map(|&position| SnapshotRef {
                position: u32::try_from(position).expect("positions fit 32 bits"),
                id: BlockId::snapshot(chain.id_at(position)),
                bytes: 0, // Nobody records it from here.
            });
            Sought::Snapshots(snapshots_within(own.chain(shared), &chain, wanted.hot, limit))
        };
        let kept = record.iter().flat_map(|record| &record.blocks).map(|block| block.bytes);
        let seen = shared.block_bytes.load(Ordering::Relaxed) as u64;
        let group_blocks = group_blocks(kept.max().unwrap_or(0).max(seen));
        let (hot, used) = (wanted.hot, wanted.used);
        Self { hot, limit, expected, record, sought, used, group_blocks, miss }
    }

    /// Snapshots of the record that still belong to this prompt, by position.
    pub fn snapshots(&self) -> Vec<SnapshotRef> {
        let reachable = self.expected.min(self.limit);
        let all = self.record.iter().flat_map(|record| &record.snapshots);
        let mut snapshots: Vec<_> = all.filter(|s| s.position as usize <= reachable).collect();
        snapshots.sort_by_key(|snapshot| snapshot.position);
        snapshots.into_iter().copied().collect()
    }

    /// Name and range of the record's block that holds position `at`.
    pub fn recorded_block(&self, at: usize) -> Option<(BlockId, Range<usize>)> {
        let blocks = &self.record.as_ref()?.blocks;
        let index = blocks.partition_point(|block| block.end as usize <= at);
        let block = blocks.get(index)?;
        let before = index.checked_sub(1).map(|before| &blocks[before]);
        let start = before.map_or(0, |before| before.end as usize);
        Some((block.id, start..block.end as usize))
    }
}

/// The length of the longest common beginning.
pub fn common_prefix(one: &[Token], other: &[Token]) -> usize {
    one.iter().zip(other).take_while(|(a, b)| a == b).count()
}

fn find_record(
    shared: &Shared,
    wanted: &FetchRequest,
    miss: &mut Option<MissReason>,
) -> Option<Arc<SlotRecord>> {
    let conversation = wanted.conversation.as_ref()?;
    if let Some(seen) = shared.records().seen(conversation) {
        return seen;
    }
    let store = shared.store.as_ref()?;
    let _present = shared.reading();
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
            // A sweep may have found the damage before anybody asked.
            let rejected = || store.rejected(shared.fingerprint, conversation);
            *miss = other_model::kept_under(store, shared.fingerprint, conversation)
                .or_else(|| rejected().map(|reason| MissReason::Unusable { from: 0, reason }));
            None
        }
        Err(reason) => {
            Counters::add(&shared.counters.rejected, 1);
            *miss = Some(MissReason::Unusable { from: 0, reason: reason.to_string() });
            None
        }
    }
}

fn blocks_between(chain: &Chain, hot: usize, limit: usize) -> Vec<Block> {
    let first = chain.blocks().partition_point(|block| block.range.end <= hot);
    let wanted = chain.blocks()[first..].iter().take_while(|block| block.range.start < limit);
    wanted.filter(|_| hot < limit).cloned().collect()
}

fn snapshots_within(
    snapshots: impl Iterator<Item = SnapshotRef>,
    chain: &Chain,
    hot: usize,
    reachable: usize,
) -> Vec<SnapshotRef> {
    let sought = snapshots.filter(|snapshot| {
        let position = snapshot.position as usize;
        (hot + 1..=reachable).contains(&position)
            && snapshot.id == BlockId::snapshot(chain.id_at(position))
    });
    let mut sought: Vec<SnapshotRef> = sought.collect();
    sought.sort_by_key(|snapshot| snapshot.position);
    sought
}
