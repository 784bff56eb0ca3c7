//! Pins conversations to slots.
//!
//! - Pure: takes `now` and returns what should happen; the engine moves the cells.
//! - A conversation has at most one slot, and a slot at most one conversation. A hint has a slot for
//!   each of its copies.
//! - A conversation with a turn that runs or waits is never parked.
//! - A free slot is used before a conversation is parked: the least loaded; among equals the one
//!   that the conversation's key derives, else the lowest.
//! - Shared prefixes have slots of their own behind the others, so conversations and prefixes never
//!   displace each other.
//! - The least recently used conversation is parked first, after the anonymous ones. The order of calls counts, so a clock
//!   that steps back changes no choice.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use crate::id::{ConversationId, SlotId};
use crate::key::slot_of_id;
use crate::time::Timestamp;

#[derive(Debug)]
pub struct Registry {
    // By slot; `None` is free.
    slots: Vec<Option<ConversationId>>,
    // The number of slots for conversations; slots for prefixes follow.
    n_slots: usize,
    // Tokens in the cells of each slot. A free slot may have cells that others share.
    loads: Vec<usize>,
    pins: BTreeMap<ConversationId, Pinned>,
    uses: u64,
}

#[derive(Debug)]
struct Pinned {
    slot: SlotId,
    turns: usize,
    used_at: Timestamp,
    // Counts uses: their order needs no clock.
    last_use: u64,
}

/// The slot of a conversation, and what the engine must do first.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Pin {
    /// The conversation has this slot already.
    Existing(SlotId),
    /// The slot was free.
    Free(SlotId),
    /// The conversation in the slot must be parked first.
    Parks {
        slot: SlotId,
        /// The conversation to park. It is no longer pinned.
        conversation: ConversationId,
    },
    /// Every slot has a turn that runs or waits. Try again when one ends.
    Full,
}

impl Registry {
    pub fn new(n_slots: u32) -> Self {
        Self::with_prefixes(n_slots, 0)
    }

    /// With `n_prefixes` slots for prefixes behind the others.
    pub fn with_prefixes(n_slots: u32, n_prefixes: u32) -> Self {
        let (n_slots, count) = (n_slots as usize, (n_slots + n_prefixes) as usize);
        let (slots, loads) = (vec![None; count], vec![0; count]);
        Self { slots, n_slots, loads, pins: BTreeMap::new(), uses: 0 }
    }

    /// Pins `conversation` to a slot, and counts as a use.
    pub fn pin(&mut self, conversation: &ConversationId, now: Timestamp) -> Pin {
        self.pin_in(0..self.n_slots, conversation, now)
    }

    /// Pins a prefix to one of the slots for prefixes.
    pub fn pin_prefix(&mut self, prefix: &ConversationId, now: Timestamp) -> Pin {
        self.pin_in(self.n_slots..self.slots.len(), prefix, now)
    }

    fn pin_in(&mut self, area: Range<usize>, conversation: &ConversationId, now: Timestamp) -> Pin {
        if let Some(slot) = self.slot_of(conversation) {
            self.touch(conversation, now);
            return Pin::Existing(slot);
        }
        if let Some(slot) = self.free_slot_for(area.clone(), conversation) {
            self.occupy(slot, conversation, now);
            return Pin::Free(slot);
        }
        let Some(leaving) = self.longest_idle(area).cloned() else { return Pin::Full };
        let slot = self.unpin(&leaving).expect("a conversation to park is pinned");
        self.occupy(slot, conversation, now);
        Pin::Parks { slot, conversation: leaving }
    }

    /// Unpins `conversation`, also with a running turn. Returns its slot.
    pub fn unpin(&mut self, conversation: &ConversationId) -> Option<SlotId> {
        let pinned = self.pins.remove(conversation)?;
        self.slots[index(pinned.slot)] = None;
        Some(pinned.slot)
    }

    /// Counts a turn of a pinned conversation that runs or waits.
    pub fn begin(&mut self, conversation: &ConversationId) {
        if let Some(pinned) = self.pins.get_mut(conversation) {
            pinned.turns += 1;
        }
    }

    /// Counts down when a turn ends.
    pub fn end(&mut self, conversation: &ConversationId, now: Timestamp) {
        if let Some(pinned) = self.pins.get_mut(conversation) {
            pinned.turns = pinned.turns.saturating_sub(1);
            self.touch(conversation, now);
        }
    }

    /// The cells of `slot` have `tokens` tokens.
    ///
    /// # Panics
    /// When there is no such slot.
    pub fn set_load(&mut self, slot: SlotId, tokens: usize) {
        self.loads[index(slot)] = tokens;
    }

    pub fn slot_of(&self, conversation: &ConversationId) -> Option<SlotId> {
        self.pins.get(conversation).map(|pinned| pinned.slot)
    }

    /// The slots of a hint's copies; of another id, its own slot.
    pub fn copies<'a>(
        &'a self,
        id: &'a ConversationId,
    ) -> impl Iterator<Item = (&'a ConversationId, SlotId)> {
        let copies = self.pins.iter().filter(|(pinned, _)| pinned.is_copy_of(id));
        copies.map(|(pinned, pin)| (pinned, pin.slot))
    }

    /// The first copy of a hint that has no slot and that no turn waits for (`is_awaited`).
    pub fn unused_copy(
        &self,
        hint: &ConversationId,
        is_awaited: impl Fn(&ConversationId) -> bool,
    ) -> ConversationId {
        let mut copies = (1..).map(|number| hint.copy(number));
        let is_unused = |copy: &ConversationId| !self.pins.contains_key(copy) && !is_awaited(copy);
        copies.find(is_unused).expect("slots and waiting turns are few")
    }

    /// Whether a turn of `conversation` runs or waits.
    pub fn is_running(&self, conversation: &ConversationId) -> bool {
        self.pins.get(conversation).is_some_and(|pinned| pinned.turns > 0)
    }

    /// Slots for conversations.
    pub fn n_slots(&self) -> u32 {
        self.n_slots as u32
    }

    pub fn pinned(&self) -> impl Iterator<Item = (SlotId, &ConversationId)> {
        let slots = self.slots.iter().zip(0..);
        slots.filter_map(|(held, n)| held.as_ref().map(|conversation| (SlotId(n), conversation)))
    }

    /// Pinned conversations without a turn and the time since their last use: anonymous ones, then the
    /// others, then prefixes; of each, the least recently used first.
    pub fn idle(&self, now: Timestamp) -> impl Iterator<Item = (&ConversationId, Duration)> {
        let mut idle: Vec<_> = self.without_turn().collect();
        idle.sort_by_key(|(id, pinned)| {
            (index(pinned.slot) >= self.n_slots, !id.is_anonymous(), pinned.last_use)
        });
        idle.into_iter().map(move |(id, pinned)| (id, pinned.used_at.age(now)))
    }

    fn without_turn(&self) -> impl Iterator<Item = (&ConversationId, &Pinned)> {
        self.pins.iter().filter(|(_, pinned)| pinned.turns == 0)
    }

    fn longest_idle(&self, area: Range<usize>) -> Option<&ConversationId> {
        let here = self.without_turn().filter(|(_, pinned)| area.contains(&index(pinned.slot)));
        let longest = here.min_by_key(|(id, pinned)| (!id.is_anonymous(), pinned.last_use));
        longest.map(|(id, _)| id)
    }

    fn free_slot_for(&self, area: Range<usize>, conversation: &ConversationId) -> Option<SlotId> {
        let free = area.filter(|&slot| self.slots[slot].is_none());
        let mut free =
            free.map(|slot| SlotId(u32::try_from(slot).expect("slots are few"))).peekable();
        free.peek()?; // Each waiting turn asks at each step, mostly in vain: the key is hashed for a free slot alone.
        let derived = self.derived_slot(conversation);
        free.min_by_key(|&slot| (self.loads[index(slot)], slot != derived, slot))
    }

    fn derived_slot(&self, conversation: &ConversationId) -> SlotId {
        // Negative only without slots.
        SlotId(u32::try_from(slot_of_id(conversation, self.n_slots())).unwrap_or(0))
    }

    fn occupy(&mut self, slot: SlotId, conversation: &ConversationId, now: Timestamp) {
        self.slots[index(slot)] = Some(conversation.clone());
        let pinned = Pinned { slot, turns: 0, used_at: now, last_use: 0 };
        self.pins.insert(conversation.clone(), pinned);
        self.touch(conversation, now);
    }

    fn touch(&mut self, conversation: &ConversationId, now: Timestamp) {
        self.uses += 1;
        let pinned = self.pins.get_mut(conversation).expect("only pinned conversations are used");
        pinned.used_at = now;
        pinned.last_use = self.uses;
    }
}

fn index(slot: SlotId) -> usize {
    slot.0 as usize
}

#[cfg(test)]
mod tests;
