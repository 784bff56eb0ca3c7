//! The cache map's change log: recent evictions, and a counter that watchers wait on. It survives a
//! reload of the weights.
//!
//! - Watchers are notified at most once per round of the engine's thread, and only after a change.
//! - Reading the map changes nothing.

use std::collections::VecDeque;

use hob_slots::{Block, BlockId, ConversationId};
use tokio::sync::watch;

use super::Worker;
use super::slot::Slot;
use crate::map::{Eviction, EvictionReason, Reading, SlotReading, Tier};

/// Evictions that are remembered.
const MAX_EVICTIONS: usize = 50;

#[derive(Default)]
pub(crate) struct ChangeLog {
    evictions: VecDeque<Eviction>,
    changed: bool,
    changes: watch::Sender<u64>,
}

impl ChangeLog {
    /// A log, and a receiver that changes with it.
    pub fn new() -> (Self, watch::Receiver<u64>) {
        let (changes, watcher) = watch::channel(0);
        (Self { changes, ..Self::default() }, watcher)
    }

    /// Marks the map as changed.
    pub fn touch(&mut self) {
        self.changed = true;
    }

    /// Notifies the watchers, if the map has changed since the last call.
    pub fn notify(&mut self) {
        if std::mem::take(&mut self.changed) {
            self.changes.send_modify(|changes| *changes += 1);
        }
    }

    /// The latest last.
    pub fn evictions(&self) -> Vec<Eviction> {
        self.evictions.iter().cloned().collect()
    }

    /// Removes the conversation's name from all entries.
    pub fn forget(&mut self, conversation: &ConversationId) {
        for eviction in &mut self.evictions {
            let forgotten = eviction.conversation.take_if(|known| known == conversation);
            self.changed |= forgotten.is_some();
        }
    }

    fn push(&mut self, eviction: Eviction) {
        self.evictions.push_back(eviction);
        let surplus = self.evictions.len().saturating_sub(MAX_EVICTIONS);
        self.evictions.drain(..surplus);
        self.touch();
    }
}

impl Worker<'_> {
    /// Copies what the slots hold.
    pub(super) fn read_cells(&self) -> Reading {
        let read = |(index, slot): (usize, &Slot)| SlotReading {
            slot: slot.id,
            prefix: index >= self.core.options.slots,
            conversation: slot.conversation().cloned(),
            state: slot.state(),
            prompt_tokens: slot.turn.as_ref().map(|turn| turn.request.prompt.len()),
            blocks: slot.timeline.blocks().to_vec(),
            away: slot.cells.away(slot.timeline.len()),
            origins: slot.origins.clone(),
            segments: slot.save.keep.segments.clone(),
        };
        let slots = self.slots.iter().enumerate().map(read).collect();
        let left = self.core.change_log.evictions();
        Reading { used_tokens: self.used_tokens(), slots, left }
    }

    /// Logs that the slot's tokens from `from` on are about to leave it.
    pub(super) fn log_eviction(&mut self, index: usize, from: usize, why: EvictionReason) {
        let owner = self.slots[index].conversation().cloned();
        self.log_eviction_of(index, owner, from, why);
    }

    /// Logs that a block of the slot leaves its cells.
    pub(super) fn log_departure(&mut self, index: usize, block: &Block, why: EvictionReason) {
        let conversation = self.slots[index].conversation().cloned();
        let to = self.core.tiers.tier_once_written(&block.id);
        let (at, tokens) = (self.now(), block.range.len());
        self.core.change_log.push(Eviction { at, conversation, tokens, to, why });
    }

    /// Logs an eviction of cells whose owner had left the slot before.
    pub(super) fn log_unowned_eviction(&mut self, index: usize, from: usize) {
        self.log_eviction_of(index, None, from, EvictionReason::Slot);
    }

    /// Logs that the slot's conversation is deleted.
    pub(super) fn log_deletion(&mut self, index: usize) {
        let tokens = self.slots[index].timeline.len();
        if tokens > 0 {
            let (at, to, why) = (self.now(), Tier::Nowhere, EvictionReason::Deleted);
            self.core.change_log.push(Eviction { at, conversation: None, tokens, to, why });
        }
    }

    fn log_eviction_of(
        &mut self,
        index: usize,
        conversation: Option<ConversationId>,
        from: usize,
        why: EvictionReason,
    ) {
        let slot = &self.slots[index];
        let tokens = slot.timeline.len().saturating_sub(from);
        if tokens == 0 {
            return;
        }
        let to = if self.backend.has_ranges() {
            self.tier_of(slot.timeline.blocks().iter().map(|b| (b.id, b.range.end)), from)
        } else {
            self.tier_of_snapshot(slot, from)
        };
        self.core.change_log.push(Eviction { at: self.now(), conversation, tokens, to, why });
    }

    /// The tier that holds most of the tokens after `from`. Each piece is an object and its end.
    fn tier_of(&self, pieces: impl Iterator<Item = (BlockId, usize)>, from: usize) -> Tier {
        let (mut memory, mut disk, mut nowhere, mut start) = (0, 0, 0, from);
        for (id, end) in pieces.filter(|(_, end)| *end > from) {
            let tokens = match self.core.tiers.tier_once_written(&id) {
                Tier::Memory => &mut memory,
                Tier::Disk => &mut disk,
                Tier::Nowhere => &mut nowhere,
            };
            *tokens += end - start;
            start = end;
        }
        if memory >= disk.max(nowhere) {
            Tier::Memory
        } else if disk >= nowhere {
            Tier::Disk
        } else {
            Tier::Nowhere
        }
    }

    /// A saved snapshot covers all tokens before it; those after it are in no tier.
    fn tier_of_snapshot(&self, slot: &Slot, from: usize) -> Tier {
        let end = slot.timeline.len();
        let last = slot.save.last_snapshot_within(end);
        let last = last.map(|last| (last.id, last.position as usize));
        let rest = (BlockId::snapshot(slot.timeline.id_at(end)), end);
        self.tier_of(last.into_iter().chain([rest]), from)
    }
}
