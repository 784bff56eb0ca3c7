//! Names the objects that may hold a prompt's KV. `read` finds out which exist.
//!
//! - A block's name follows from the tokens up to its end, so a conversation finds blocks that
//!   another one wrote. Where the prompt is cut differently than the conversation was (it continues
//!   in the middle of a block), the conversation's record has the other name.
//! - Blocks of earlier branches are found in the same way. The record has their names too, so a
//!   block that a branch ends in the middle of is found.
//! - A turn that answers computes its prompt's last token, for the logits: that token is not fetched.

mod matching;

use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

use hob_slots::content::Import;
use hob_slots::format::{SegmentRef, SlotRecord, SnapshotRef};
use hob_slots::lineage::{first_lossy, first_moved, views_within};
use hob_slots::store::Miss;
use hob_slots::{
    AdapterSet, BLOCK_TOKENS, Block, BlockId, ConversationId, Timeline, Token, ViewRun,
};

use super::counters::Counters;
use super::group::MaxGroup;
use super::passages::Labelled;
use super::shared::{Known, Shared};
use super::{other_model, residence};
use crate::fault::{self, Place};
use crate::miss::MissReason;
use crate::position::narrow;

use matching::{branch_ends, parts_of_blocks, snapshots_of, snapshots_within};

#[derive(Clone, Debug)]
pub struct FetchRequest {
    /// `None` for an anonymous turn, which has no record.
    pub conversation: Option<ConversationId>,
    /// Numbers the restores of an engine.
    pub number: u64,
    pub adapters: AdapterSet,
    pub prompt: Vec<Token>,
    /// Segments of the prompt.
    pub segments: Vec<SegmentRef>,
    /// Tokens of the prompt that the slot has already, with cells or away.
    pub hot: usize,
    /// The views of the slot's tokens, as far as they begin the prompt: also of those that were cut off to
    /// continue behind a cell.
    pub views: Vec<ViewRun>,
    /// Cells for the tokens behind `hot`: those that are restored and those that are computed.
    pub room: usize,
    /// Tokens of the prompt that may be reused.
    pub limit: usize,
    /// Where hot prefixes of the prompt end: each may have a snapshot.
    pub prefix_ends: Vec<usize>,
    /// Look up the conversation's record and fetch no KV.
    pub record_only: bool,
    /// The conversation's own KV may be moved KV, and such that follows it.
    pub accepts_moved: bool,
    /// The conversation's own KV may be rounded KV, and KV behind such.
    pub accepts_lossy: bool,
}

/// The objects to look for, in order. Between blocks there may be gaps: what is in them stays away.
#[derive(Debug)]
pub(super) struct Plan {
    pub hot: usize,
    /// The slot goes back to `hot` first: the KV to fetch is of another lineage than the slot's tokens there.
    pub goes_back: bool,
    pub limit: usize,
    /// Tokens of this prompt that the conversation's record covers.
    pub expected: usize,
    pub record: Option<Arc<SlotRecord>>,
    /// Blocks in which a branch ended, or before a snapshot: all of their tokens begin a block of this
    /// prompt.
    pub branch_ends: Vec<(BlockId, Range<usize>)>,
    /// The conversation's snapshots that match this prompt, by position.
    pub snapshots: Vec<SnapshotRef>,
    pub sought: Sought,
    /// The views of the prompt's known tokens.
    pub views: Vec<ViewRun>,
    /// For a memory with a rest: its partial snapshots beyond the hot tokens, the furthest last. One of them is
    /// wanted with the blocks, which reach to the furthest.
    pub partials: Vec<SnapshotRef>,
    /// Blocks per group.
    pub group_blocks: usize,
    /// Why there is no record although there should be.
    pub miss: Option<MissReason>,
}

#[derive(Debug)]
pub(super) enum Sought {
    /// The prompt's blocks, from the first one that is not all hot.
    Blocks(Vec<Block>),
    /// Blocks of another place, of which cells move to `at`.
    Moved(Import),
    /// Whole snapshots that match this prompt and reach beyond the hot tokens, the furthest last.
    Snapshots(Vec<SnapshotRef>),
}

impl Plan {
    /// `is_wanted`: the request was not cancelled.
    pub fn of(shared: &Shared, request: &FetchRequest, is_wanted: impl Fn() -> bool) -> Self {
        fault::point(Place::Reader);
        let mut miss = None;
        let record = find_record(shared, request, &mut miss);
        if let Some(record) = record.as_deref().filter(|_| !request.record_only) {
            mark_use(shared, &record.conversation, request.number, &is_wanted);
        }
        let expected = expected(request, record.as_deref());
        let goes_back = goes_back(request, record.as_deref(), expected);
        let hot = goes_back.unwrap_or(request.hot);
        let room = request.room.saturating_add(request.hot - hot);
        let views = known_views(request, hot, record.as_deref(), expected);
        let timeline = shared.timeline(&request.adapters, &request.prompt, &views);
        let mut limit = request.limit;
        let branches = record.iter().flat_map(|record| &record.branches);
        let mut branch_ends = branch_ends(branches, &timeline, limit);
        let snapshots = snapshots_of(record.as_deref(), &timeline, expected);
        let mut partials = Vec::new();
        let known = record.as_deref();
        let behind = Behind { shared, request, record: known, timeline: &timeline, hot, expected };
        let sought = if request.record_only {
            Sought::Blocks(Vec::new())
        } else if shared.model.facts().memory.is_plain() {
            let (blocks, lost) = behind.blocks(room, is_wanted);
            miss = lost.or(miss);
            Sought::Blocks(blocks)
        } else {
            let (parts, wholes) = behind.snapshots(&snapshots);
            let end = |snapshots: &[SnapshotRef]| snapshots.last().map_or(0, |it| it.position);
            if end(&parts) > 0 && end(&parts) >= end(&wholes) {
                limit = end(&parts) as usize;
                branch_ends.extend(parts_of_blocks(&parts, &timeline));
                partials = parts;
                Sought::Blocks(blocks_between(&timeline, hot, limit))
            } else {
                Sought::Snapshots(wholes)
            }
        };
        // A group has its cells while it is imported, also those of hot tokens in its first block.
        let fitting = (room / BLOCK_TOKENS).max(1);
        let group_blocks = MaxGroup::blocks_of(shared, record.as_deref()).min(fitting);
        Self {
            hot,
            goes_back: goes_back.is_some(),
            limit,
            expected,
            record,
            branch_ends,
            snapshots,
            sought,
            views,
            partials,
            group_blocks,
            miss,
        }
    }

    /// Blocks that are away, to be brought back to a slot with `hot` tokens.
    pub fn of_blocks(shared: &Shared, blocks: Vec<Block>, hot: usize) -> Self {
        Self {
            hot,
            goes_back: false,
            limit: hot,
            expected: hot,
            record: None,
            branch_ends: Vec::new(),
            snapshots: Vec::new(),
            sought: Sought::Blocks(blocks),
            views: Vec::new(),
            partials: Vec::new(),
            group_blocks: MaxGroup::blocks_of(shared, None),
            miss: None,
        }
    }

    /// Blocks of another place, whose cells move into the prompt.
    pub fn of_chunk(shared: &Shared, import: &Import) -> Self {
        let plan = Self::of_blocks(shared, Vec::new(), import.at.start);
        let (limit, expected) = (import.at.end, import.at.end);
        Self { limit, expected, sought: Sought::Moved(import.clone()), ..plan }
    }

    /// Whether the block is of those before the slot's end, without cells.
    pub fn is_away(&self, block: &Block) -> bool {
        block.range.end <= self.hot
    }

    /// Names and ranges of the blocks in which a branch ended that begin at `start`.
    pub fn branch_ends(&self, start: usize) -> impl Iterator<Item = (BlockId, Range<usize>)> {
        self.branch_ends.iter().filter(move |(_, range)| range.start == start).cloned()
    }
}

/// What of a prompt is looked for behind its first `hot` tokens.
struct Behind<'p> {
    shared: &'p Shared,
    request: &'p FetchRequest,
    record: Option<&'p SlotRecord>,
    timeline: &'p Timeline,
    hot: usize,
    expected: usize,
}

impl Behind<'_> {
    /// The blocks for which there are cells in `room`, and the blocks of the record that are lost.
    fn blocks(
        &self,
        room: usize,
        is_wanted: impl Fn() -> bool,
    ) -> (Vec<Block>, Option<MissReason>) {
        let &Self { shared, request, record, timeline, hot, expected } = self;
        let limit = request.limit;
        if request.prompt.len() - hot <= room {
            return (blocks_between(timeline, hot, limit), None);
        }
        if expected <= hot {
            // Of another conversation or branch, as much as there are cells for.
            let end = hot.saturating_add(room);
            return (blocks_between(timeline, hot, limit.min(end)), None);
        }
        // The last one that the record has must be there, not the last one of the prompt. Where one is lost, all
        // from it on is computed again: it cannot stay away.
        let mut known = blocks_between(timeline, hot, limit.min(expected));
        let lost = known.iter().position(|block| shared.has_lost(&block.id));
        let end = lost.map_or(expected, |lost| known[lost].range.start);
        if let Some(lost) = lost {
            known.truncate(lost);
        }
        let new = request.prompt.len() - end.max(hot);
        let room = room.saturating_sub(new);
        let chosen = residence::choose(known.clone(), &request.segments, record, room);
        if let Some(record) = record {
            learn_away(shared, record, &known, &chosen);
        }
        if chosen.len() < known.len() {
            learn_words(shared, request, timeline, limit.min(end), is_wanted);
        }
        (chosen, lost.map(|_| MissReason::lost(end)))
    }

    /// The partial snapshots and the whole ones: of `own` and of hot prefixes, each the furthest last.
    fn snapshots(&self, own: &[SnapshotRef]) -> (Vec<SnapshotRef>, Vec<SnapshotRef>) {
        let &Self { shared, request, timeline, hot, .. } = self;
        let of_prefixes = request.prefix_ends.iter().flat_map(|&position| {
            let at = timeline.id_at(position);
            let position = narrow(position);
            let bytes = 0; // Not recorded from here.
            [BlockId::snapshot(at), BlockId::partial(at)].map(|id| SnapshotRef {
                position,
                id,
                bytes,
            })
        });
        let of_prefixes = of_prefixes.filter(|snapshot| shared.holds(&snapshot.id));
        let all = own.iter().copied().chain(of_prefixes);
        let found = snapshots_within(all, timeline, hot, request.limit);
        let is_partial = |snapshot: &SnapshotRef| {
            snapshot.id == BlockId::partial(timeline.id_at(snapshot.position as usize))
        };
        found.into_iter().partition(is_partial)
    }
}

/// Tokens of the prompt that the record covers, up to the first one whose KV the request does not accept.
fn expected(request: &FetchRequest, record: Option<&SlotRecord>) -> usize {
    let Some(record) = record else { return 0 };
    let views = &record.lineage.views;
    let moved = first_moved(views).filter(|_| !request.accepts_moved);
    let lossy = first_lossy(views).filter(|_| !request.accepts_lossy);
    let unwanted = moved.into_iter().chain(lossy).min();
    let shared = record.shared_with(&request.adapters, &request.prompt);
    shared.min(unwanted.unwrap_or(usize::MAX))
}

/// Where the slot goes back to, if its tokens are of another lineage than the record's: the slot shares them with
/// another conversation, and they attended to everything. The slot goes back if the record has more tokens behind the
/// slot's than the slot gives up.
fn goes_back(
    request: &FetchRequest,
    record: Option<&SlotRecord>,
    expected: usize,
) -> Option<usize> {
    if !request.views.is_empty() || request.record_only {
        return None;
    }
    let pure = record?.lineage.pure_tokens(u32::try_from(expected).ok()?) as usize;
    let given_up = request.hot.checked_sub(pure).filter(|&tokens| tokens > 0)?;
    (expected.saturating_sub(request.hot) > given_up).then_some(pure)
}

/// The record's views, if the record reaches further than the slot and agrees with the slot's views up to the slot's end;
/// otherwise the slot's views.
fn known_views(
    request: &FetchRequest,
    hot: usize,
    record: Option<&SlotRecord>,
    expected: usize,
) -> Vec<ViewRun> {
    let slots = end_of(&request.views).max(hot);
    let Some(record) = record.filter(|_| slots < expected) else { return request.views.clone() };
    let within = |views: &[ViewRun], len| views_within(views, narrow(len));
    let recorded = within(&record.lineage.views, expected);
    let before = |views: &[ViewRun]| within(views, slots);
    if before(&recorded) == before(&request.views) { recorded } else { request.views.clone() }
}

fn end_of(views: &[ViewRun]) -> usize {
    views.last().map_or(0, |last| last.end as usize)
}

fn find_record(
    shared: &Shared,
    request: &FetchRequest,
    miss: &mut Option<MissReason>,
) -> Option<Arc<SlotRecord>> {
    let conversation = request.conversation.as_ref()?;
    if let Some(known) = shared.records().lookup(conversation) {
        return known;
    }
    let store = shared.store.as_ref()?;
    let _present = shared.reading();
    match store.get_slot(shared.fingerprint, conversation) {
        Ok(record) => {
            shared.learn(&record);
            shared.records().read(record)
        }
        Err(Miss::Absent) => {
            // A sweep may have quarantined the record.
            let rejected = || store.rejected(shared.fingerprint, conversation);
            let beside = shared.beside.get().map(|beside| beside.fingerprint);
            *miss = other_model::saved_under(store, shared.fingerprint, beside, conversation)
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

/// Marks the conversation on disk as in use. The disk does not get the name of one that must stay in memory.
fn mark_use(
    shared: &Shared,
    conversation: &ConversationId,
    number: u64,
    is_wanted: impl Fn() -> bool,
) {
    let Some(store) = &shared.store else { return };
    let in_memory = shared.records().summary(conversation).is_some_and(|it| it.in_memory);
    if !in_memory {
        shared.marks.restore(store, shared.fingerprint, conversation, number, is_wanted);
    }
}

/// Notes that the blocks of `known` that stay away are on disk, as far as the record tells: they are not exported,
/// and the next record names them again. A missing one shows when it is read.
fn learn_away(shared: &Shared, record: &SlotRecord, known: &[Block], chosen: &[Block]) {
    if shared.store.is_none() {
        return;
    }
    let chosen: HashSet<BlockId> = chosen.iter().map(|block| block.id).collect();
    let away = known.iter().map(|block| block.id).filter(|id| !chosen.contains(id));
    let away: HashSet<BlockId> = away.collect();
    for block in record.blocks.iter().filter(|block| away.contains(&block.id)) {
        shared.learn_names([block.id]);
        shared.objects().entry(block.id).or_insert(Known::on_disk(block.bytes));
    }
}

/// Not all of the first `end` tokens get cells: a question may ask for the others.
fn learn_words(
    shared: &Shared,
    request: &FetchRequest,
    timeline: &Timeline,
    end: usize,
    is_wanted: impl Fn() -> bool,
) {
    let Some(conversation) = request.conversation.clone() else { return };
    let timeline = Labelled {
        conversation,
        tokens: timeline.tokens().to_vec(),
        blocks: blocks_between(timeline, 0, end),
        segments: request.segments.clone(),
    };
    shared.passages.learn_if(timeline, is_wanted);
}

fn blocks_between(timeline: &Timeline, hot: usize, limit: usize) -> Vec<Block> {
    let first = timeline.blocks().partition_point(|block| block.range.end <= hot);
    let sought = timeline.blocks()[first..].iter().take_while(|block| block.range.start < limit);
    sought.filter(|_| hot < limit).cloned().collect()
}
