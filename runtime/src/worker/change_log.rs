//! What the map of the cells tells: copies of what the slots know, and what left them.
//!
//! - Whoever watches is told that something changed once after each round of the engine's thread,
//!   and never when nothing did. Reading the map changes nothing.

use std::collections::VecDeque;

use hob_slots::{BlockId, ConversationId};
use tokio::sync::watch;

use super::Worker;
use super::slot::Slot;
use crate::map::{Eviction, EvictionReason, Reading, SlotReading, Tier};

/// Departures that are remembered.
const REMEMBERED: usize = 50;

/// What outlives a context of what the map tells.
#[derive(Default)]
pub(crate) struct ChangeLog {
    left: VecDeque<Eviction>,
    changed: bool,
    changes: watch::Sender<u64>,
}

impl ChangeLog {
    /// A diary, and what hears when it has something new.
    pub fn new() -> (Self, watch::Receiver<u64>) {
        let (changes, hears) = watch::channel(0);
        (Self { changes, ..Self::default() }, hears)
    }

    /// The map is another one now.
    pub fn touch(&mut self) {
        self.changed = true;
    }

    /// Tells whoever watches, if there is anything to tell.
    pub fn tell(&mut self) {
        if std::mem::take(&mut self.changed) {
            self.changes.send_modify(|changes| *changes += 1);
        }
    }

    /// What left slots lately.
    pub fn left(&self) -> Vec<Eviction> {
        self.left.iter().cloned().collect()
    }

    /// Nothing tells of this conversation any more.
    pub fn forget(&mut self, conversation: &ConversationId) {
        for departure in &mut self.left {
            departure.conversation.take_if(|known| known == conversation);
        }
    }

    fn note(&mut self, departure: Eviction) {
        self.left.push_back(departure);
        let surplus = self.left.len().saturating_sub(REMEMBERED);
        self.left.drain(..surplus);
        self.touch();
    }
}

impl Worker<'_> {
    /// Copies of what the slots hold.
    pub(super) fn read_cells(&self) -> Reading {
        let read = |(index, slot): (usize, &Slot)| SlotReading {
            slot: slot.id,
            prefix: index >= self.options.slots,
            conversation: slot.named_owner(),
            state: slot.state(),
            prompt_tokens: slot.turn.as_ref().map(|turn| turn.request.prompt.len()),
            blocks: slot.timeline.blocks().to_vec(),
            origins: slot.origins.clone(),
            segments: slot.keep.segments.clone(),
        };
        let slots = self.slots.iter().enumerate().map(read).collect();
        Reading { used_tokens: self.used_tokens(), slots, left: self.change_log.left() }
    }

    /// The slot's tokens from `from` on are about to leave it.
    pub(super) fn leaves(&mut self, index: usize, from: usize, why: EvictionReason) {
        let owner = self.slots[index].named_owner();
        self.leaves_of(index, owner, from, why);
    }

    /// The same, for cells that their owner had left.
    pub(super) fn leftovers_leave(&mut self, index: usize, from: usize) {
        self.leaves_of(index, None, from, EvictionReason::Slot);
    }

    /// The slot's conversation is deleted, with all that is kept of it.
    pub(super) fn deleted(&mut self, index: usize) {
        let tokens = self.slots[index].timeline.len();
        if tokens > 0 {
            let (at, to, why) = (self.now(), Tier::Nowhere, EvictionReason::Deleted);
            self.change_log.note(Eviction { at, conversation: None, tokens, to, why });
        }
    }

    fn leaves_of(
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
        let to = match self.is_plain() {
            true => self.whereto(slot.timeline.blocks().iter().map(|b| (b.id, b.range.end)), from),
            false => self.whereto_snapshot(slot, from),
        };
        self.change_log.note(Eviction { at: self.now(), conversation, tokens, to, why });
    }

    /// Where most of the tokens after `from` are, in pieces of which each ends there.
    fn whereto(&self, pieces: impl Iterator<Item = (BlockId, usize)>, from: usize) -> Tier {
        let (mut memory, mut disk, mut nowhere, mut start) = (0, 0, 0, from);
        for (id, end) in pieces.filter(|(_, end)| *end > from) {
            let place = match self.tiers.place_of(&id) {
                Tier::Memory => &mut memory,
                Tier::Disk => &mut disk,
                Tier::Nowhere => &mut nowhere,
            };
            *place += end - start;
            start = end;
        }
        match memory.max(disk).max(nowhere) {
            most if most == memory => Tier::Memory,
            most if most == disk => Tier::Disk,
            _ => Tier::Nowhere,
        }
    }

    /// A whole state that is kept stands for all tokens before it; what follows it is nowhere.
    fn whereto_snapshot(&self, slot: &Slot, from: usize) -> Tier {
        let last = slot.snapshots.last().map(|last| (last.id, last.position as usize));
        let end = slot.timeline.len();
        let rest = (BlockId::snapshot(slot.timeline.id_at(end)), end);
        self.whereto(last.into_iter().chain([rest]), from)
    }
}
