//! Rounds the KV of aged conversations for a [lossy tier](crate::lossy).
//!
//! - Each block gets another name with its new bytes, and so do the blocks behind it: names are chained. Blocks
//!   of protected layers keep their bytes, under another name behind rounded ones. What a lossy tier has named
//!   before stays.
//! - Objects come first, then the slot file that names them, then the removal of what no slot file names any
//!   more. A crash in between leaves objects that a later sweep collects.
//! - A block stays as it is while another conversation needs its bytes: one that is in use, that has not aged, or
//!   that is found by its text (prefixes, hints, documents). Names are chained, so such blocks come first.
//! - Branches behind the first rounded block leave: nothing would find them by their tokens.
//! - A conversation with snapshots or moved KV, and a block that the engine cannot round, stay as they are.

use std::collections::HashSet;
use std::ops::Range;

use super::Pass;
use crate::content::is_protected;
use crate::format::{BlockRef, Object, ObjectKind, SlotRecord};
use crate::id::{BlockId, ConversationId, ModelHash, Token};
use crate::lineage::{View, ViewRun, first_moved, views_within};
use crate::lossy::Lossy;
use crate::store::{Miss, ObjectName, SavedContents};
use crate::time::Timestamp;

/// What sweeps remember of their predecessors.
#[derive(Debug, Default)]
pub struct Rounding {
    /// Conversations of which nothing more is to be rounded.
    settled: HashSet<Key>,
    /// The conversation of which a sweep has rounded a part.
    begun: Option<(Key, Chain)>,
}

/// A conversation, by its last use.
type Key = (ModelHash, ConversationId, Timestamp);

/// What becomes of a conversation.
enum Outcome {
    /// Nothing is to be rounded, or nothing could be.
    Settled,
    /// The conversation's slot file names other objects now, these rounded ones among them.
    Replaced(Vec<BlockId>),
    /// The conversation is in use, or the disk has failed: a later sweep tries again.
    Busy,
    /// The rest is for the next sweep.
    Left,
}

/// The blocks of a record while they are named anew.
#[derive(Debug)]
struct Chain {
    /// The first of them that may be rounded; those before stay.
    first: usize,
    /// The blocks from there on, as far as they were looked at.
    done: Vec<BlockRef>,
    /// Their views, from the first rounded one on.
    views: Vec<ViewRun>,
}

impl Rounding {
    /// The blocks of the conversation of which a part was rounded, as far as it was.
    pub fn begun_objects(&self, model: ModelHash) -> impl Iterator<Item = &BlockId> {
        let begun = self.begun.iter().filter(move |(key, _)| key.0 == model);
        begun.flat_map(|(_, chain)| chain.done.iter().map(|block| &block.id))
    }
}

impl Pass<'_> {
    /// Rounds the blocks of conversations that were unused for long enough. `compressed`: objects of which
    /// compression is not tried.
    pub fn round(
        &mut self,
        rounding: &mut Rounding,
        compressed: &mut HashSet<(ModelHash, ObjectName)>,
    ) {
        if self.rules.lossy.is_none() || self.rules.compress_after.is_none() {
            return;
        }
        let mut budget = self.rules.max_rounded_bytes;
        for at in 0..self.models.len() {
            let model = self.models[at].model;
            if !self.models[at].is_complete() || !self.live_refs.can_round(model) {
                continue;
            }
            let before = self.models[at].objects();
            let is_over = self.round_model(at, rounding, compressed, &mut budget);
            let needed = self.models[at].objects();
            let gone = before.keys().filter(|id| !needed.contains_key(id));
            let gone: Vec<ObjectName> = self.store.names(gone);
            self.models[at].object_bytes = needed.values().sum();
            self.remove_objects(model, gone, self.rules.grace);
            if is_over {
                return;
            }
        }
    }

    /// Returns whether the rest is for the next sweep.
    fn round_model(
        &mut self,
        at: usize,
        rounding: &mut Rounding,
        compressed: &mut HashSet<(ModelHash, ObjectName)>,
        budget: &mut u64,
    ) -> bool {
        let model = self.models[at].model;
        let slots = &self.models[at].slots;
        let known: HashSet<Key> = slots.iter().map(key_of).collect();
        rounding.settled.retain(|key| key.0 != model || known.contains(key));
        let has_aged = |slot: &SavedContents| {
            let after = self
                .rules
                .compress_after
                .is_some_and(|after| self.now.age(slot.entry.used_at) > after);
            let conversation = &slot.entry.conversation;
            after
                && !conversation.is_reserved()
                && !rounding.settled.contains(&key_of(slot))
                && !self.live_refs.is_open(model, conversation)
        };
        let (aged, others): (Vec<usize>, Vec<usize>) =
            (0..slots.len()).partition(|&index| has_aged(&slots[index]));
        if aged.is_empty() {
            return false;
        }
        let of_others = others.iter().flat_map(|&index| &slots[index].objects);
        let needed: HashSet<BlockId> = of_others.map(|&(id, _)| id).collect();
        for index in aged {
            let key = key_of(&self.models[at].slots[index]);
            match self.round_conversation(at, index, &needed, rounding, budget) {
                Outcome::Settled => drop(rounding.settled.insert(key)),
                Outcome::Replaced(rounded) => {
                    let names = rounded.into_iter().map(|id| (model, self.store.name(id)));
                    compressed.extend(names);
                    rounding.settled.insert(key);
                    self.swept.rounded += 1;
                }
                Outcome::Busy => {}
                Outcome::Left => {
                    self.swept.left = true;
                    return true;
                }
            }
        }
        false
    }

    fn round_conversation(
        &mut self,
        at: usize,
        index: usize,
        needed: &HashSet<BlockId>,
        rounding: &mut Rounding,
        budget: &mut u64,
    ) -> Outcome {
        let (model, lossy) = (self.models[at].model, self.rules.lossy.expect("it was checked"));
        let slot = &self.models[at].slots[index];
        let (key, conversation) = (key_of(slot), slot.entry.conversation.clone());
        let Ok(record) = self.store.get_slot(model, &conversation) else {
            return Outcome::Busy;
        };
        if record.used_at != key.2 || !record.snapshots.is_empty() {
            return Outcome::Settled;
        }
        let Some(first) = first_to_round(&record, needed) else { return Outcome::Settled };
        let begun = rounding.begun.take_if(|(of, chain)| *of == key && chain.first == first);
        let mut chain = match begun {
            Some((_, chain)) => chain,
            None => Chain { first, done: Vec::new(), views: Vec::new() },
        };
        while first + chain.done.len() < record.blocks.len() {
            if *budget == 0 || self.live_refs.is_stopping() {
                rounding.begun = Some((key, chain));
                return Outcome::Left;
            }
            match self.round_next(model, &record, &mut chain, lossy) {
                Ok(bytes) => *budget = budget.saturating_sub(bytes),
                Err(outcome) => return outcome,
            }
        }
        let Some(next) = chain.record(&record) else { return Outcome::Settled };
        // A part of them may be of an earlier sweep.
        let is_lost = |block: &BlockRef| !self.store.has_object(model, block.id);
        if next.blocks[first..].iter().any(is_lost) || self.live_refs.is_open(model, &conversation)
        {
            return Outcome::Busy;
        }
        let Some(bytes) = self.try_to(|pass| pass.store.put_slot(model, &next)) else {
            return Outcome::Busy;
        };
        self.live_refs.slot_file_replaced(model, &conversation);
        let slot = &mut self.models[at].slots[index];
        slot.objects = next.objects().collect();
        slot.entry.file_bytes = bytes;
        slot.entry.object_bytes = slot.objects.iter().map(|(_, bytes)| bytes).sum();
        Outcome::Replaced(chain.rounded().collect())
    }

    /// Writes the next block under its new name, where it gets one. Returns the bytes that were read.
    ///
    /// # Errors
    /// What becomes of a conversation with a block that cannot be read or written.
    fn round_next(
        &mut self,
        model: ModelHash,
        record: &SlotRecord,
        chain: &mut Chain,
        lossy: Lossy,
    ) -> Result<u64, Outcome> {
        let index = chain.first + chain.done.len();
        let old = record.blocks[index];
        let range = range_of(record, index);
        let after = chain.done.last().map(|block| block.id).or_else(|| before(record, index));
        let object = self.store.get_object(model, old.id, ObjectKind::Block);
        let object = object.map_err(|miss| match miss {
            Miss::Io { .. } => Outcome::Busy,
            _ => Outcome::Settled, // Its next reader reports it.
        })?;
        let read = object.payload.len() as u64;
        let may_round = !is_protected_block(record, &range) && object.kind == ObjectKind::Block;
        let rounded = may_round.then(|| self.live_refs.rounded(&object.payload, lossy)).flatten();
        let (kind, view, payload) = match rounded {
            Some(rounded) => (ObjectKind::Lossy, View::lossy(lossy, old.id), rounded.into()),
            None if chain.views.is_empty() => {
                chain.done.push(old);
                return Ok(read);
            }
            None => (object.kind, View::renamed(old.id), object.payload),
        };
        let parent = view.parent(after.unwrap_or_else(|| record.adapters.root(model)));
        let object = Object {
            kind,
            model,
            parent,
            start: range.start,
            tokens: tokens_of(record, &range).to_vec(),
            payload,
        };
        let id = object.id();
        self.try_to(|pass| pass.store.put_object(model, id, &object)).ok_or(Outcome::Busy)?;
        self.live_refs.block_renamed(model, old.id, after, &object, self.now.now());
        chain.done.push(BlockRef { id, bytes: object.file_bytes(), ..old });
        chain.views.push(ViewRun { end: old.end, view });
        Ok(read)
    }
}

impl Chain {
    fn rounded(&self) -> impl Iterator<Item = BlockId> {
        let named = &self.done[self.done.len() - self.views.len()..];
        let pairs = named.iter().zip(&self.views);
        pairs.filter(|(_, run)| run.view.is_lossy()).map(|(block, _)| block.id)
    }

    /// The record with the new names; `None` where none is new.
    fn record(&self, record: &SlotRecord) -> Option<SlotRecord> {
        let last = self.views.last()?.end;
        let first = self.first + self.done.len() - self.views.len();
        let start = range_of(record, first).start;
        let mut views = views_within(&record.lineage.views, start);
        if views.is_empty() && start > 0 {
            views.push(ViewRun { end: start, view: View::WHOLE });
        }
        views.extend_from_slice(&self.views);
        // Tokens behind the last block.
        let tokens = record.tokens.len() as u32;
        if last < tokens {
            let behind = record.lineage.views.iter().filter(|run| run.end > last);
            views.extend(behind);
            if record.lineage.views.is_empty() {
                views.push(ViewRun { end: tokens, view: View::WHOLE });
            }
        }
        let mut next = record.clone();
        next.blocks.truncate(self.first);
        next.blocks.extend_from_slice(&self.done);
        next.lineage.views = views;
        next.branches.retain(|object| object.start <= start);
        Some(next)
    }
}

fn key_of(slot: &SavedContents) -> Key {
    let entry = &slot.entry;
    (entry.model, entry.conversation.clone(), entry.used_at)
}

/// The first block of a record that is to be rounded: behind those of a lossy tier, and those that others need.
/// `None` as well for a record with moved KV: the view of a rounded block would hide that it was moved.
fn first_to_round(record: &SlotRecord, needed: &HashSet<BlockId>) -> Option<usize> {
    if first_moved(&record.lineage.views).is_some() {
        return None;
    }
    let of_tier = record.lineage.views.iter().rfind(|run| run.view.is_of_lossy_tier());
    let of_tier = of_tier.map_or(0, |run| run.end);
    let stays = |index: usize| {
        let block = &record.blocks[index];
        block.end <= of_tier || needed.contains(&block.id)
    };
    let from = (0..record.blocks.len()).rfind(|&index| stays(index)).map_or(0, |last| last + 1);
    (from..record.blocks.len()).find(|&index| !is_protected_block(record, &range_of(record, index)))
}

fn range_of(record: &SlotRecord, index: usize) -> Range<u32> {
    let start = index.checked_sub(1).map_or(0, |before| record.blocks[before].end);
    start..record.blocks[index].end
}

fn before(record: &SlotRecord, index: usize) -> Option<BlockId> {
    index.checked_sub(1).map(|before| record.blocks[before].id)
}

fn tokens_of<'r>(record: &'r SlotRecord, range: &Range<u32>) -> &'r [Token] {
    &record.tokens[range.start as usize..range.end as usize]
}

/// Whether a token of the block is of a protected layer.
fn is_protected_block(record: &SlotRecord, block: &Range<u32>) -> bool {
    let mut start = 0;
    record.segments.iter().any(|segment| {
        let range = std::mem::replace(&mut start, segment.end)..segment.end;
        is_protected(segment.layer) && range.start < block.end && block.start < range.end
    })
}
