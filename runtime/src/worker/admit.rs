//! From the queue into a slot: pins the conversation and reuses hot cells. `restore` follows.
//!
//! - Turns of one conversation are admitted in their order. A turn that finds no slot lets turns
//!   pass whose conversation already has one.
//! - Turns of one hint do not wait for each other: each runs in a copy with a slot of its own.
//! - A preempted turn waits until another turn has ended: before that, it would be preempted again.
//! - A preempted turn continues as the same copy of its hint. No other turn takes the name of that copy meanwhile: a
//!   deletion ends the turns of each copy by name, and has ended those of the first copy when it comes to the others.
//! - A turn that answers always computes its prompt's last token, for the logits.

use std::sync::atomic::Ordering;
use std::time::Instant;

use hob_slots::{ConversationId, Pin, SlotId, common_prefix};

use super::Worker;
use super::running::{Owner, Phase, Running};
use super::waiting::Waiting;
use crate::map::EvictionReason;
use crate::miss::MissReason;
use crate::turn::Purpose;

/// For what the cells were computed that a turn finds in its slot.
#[derive(Clone, Copy)]
enum Leftover {
    Conversation,
    /// A speculative prefill of the conversation.
    Speculation,
    /// An owner that has left the slot.
    Others,
}

impl Worker<'_> {
    /// Admits every waiting turn that finds a slot.
    pub(super) fn admit(&mut self) {
        self.slot_may_be_free = false;
        let mut index = 0;
        while index < self.queue.len() {
            let owner = self.owner(&self.queue[index]);
            let purpose = self.queue[index].purpose();
            self.supersede(owner.id());
            if self.is_due(index)
                && let Some((slot, had_slot)) = self.pin(&owner, purpose)
            {
                let waiting = self.queue.remove(index).expect("the index is below the length");
                self.open_changed = true;
                self.core.waiting.fetch_sub(1, Ordering::AcqRel);
                self.registry.begin(owner.id());
                self.begin(slot, had_slot, owner, waiting);
            } else {
                index += 1;
            }
        }
    }

    fn owner(&self, waiting: &Waiting) -> Owner {
        match (waiting, waiting.conversation()) {
            (Waiting::Preempted { turn, .. }, _) => turn.owner.clone(),
            (_, Some(hint)) if hint.is_hint() => Owner::Conversation(self.copy_for(hint, waiting)),
            (_, Some(conversation)) => Owner::Conversation(conversation.clone()),
            (_, None) => Owner::Anonymous(self.anonymous_id(waiting)),
        }
    }

    /// The copy of a hint in which a turn can run now: of those with a slot, the one that begins
    /// most like the prompt; else one without a slot.
    fn copy_for(&self, hint: &ConversationId, waiting: &Waiting) -> ConversationId {
        let prompt = waiting.prompt();
        let is_ready = |(_, slot): &(&ConversationId, SlotId)| {
            let Some(turn) = &self.slots[slot.0 as usize].turn else { return true };
            // A prefill of the beginning of an answer's prompt was meant for that answer.
            let is_ahead = turn.request.purpose.is_background() && !turn.is_restoring();
            let answers = waiting.purpose() == Purpose::Answer;
            let is_alike = turn.request.adapters.set() == waiting.adapters().set();
            is_ahead && is_alike && answers && prompt.starts_with(&turn.request.prompt)
        };
        let common = |(copy, slot): &(&ConversationId, SlotId)| {
            let shared = self.slots[slot.0 as usize].shared_with(waiting.adapters(), prompt);
            (shared, std::cmp::Reverse((*copy).clone()))
        };
        let ready = self.registry.copies(hint).filter(is_ready).max_by_key(common);
        let is_awaited =
            |copy: &ConversationId| self.queue.iter().any(|it| it.pins_again() == Some(copy));
        let unused = || self.registry.unused_copy(hint, is_awaited);
        ready.map_or_else(unused, |(copy, _)| copy.clone())
    }

    /// Removes the turns from the queue that match. Returns how many.
    pub(super) fn remove_queued(&mut self, matches: impl Fn(&Waiting) -> bool) -> usize {
        let removed = self.queue.iter().filter(|waiting| matches(waiting));
        for turn in removed.filter_map(Waiting::anonymous) {
            self.core.tiers.forget_anonymous(turn);
        }
        let before = self.queue.len();
        self.queue.retain(|waiting| !matches(waiting));
        let removed = before - self.queue.len();
        self.open_changed |= removed > 0;
        self.core.waiting.fetch_sub(removed, Ordering::AcqRel);
        removed
    }

    /// Whether the turn lacks nothing but a slot.
    fn is_due(&self, index: usize) -> bool {
        let waiting = &self.queue[index];
        if let Waiting::Preempted { ended, .. } = waiting
            && *ended == self.ended
        {
            return false;
        }
        let Some(conversation) = waiting.waits_for() else { return true };
        if waiting.purpose() == Purpose::Speculate && self.waits_for_disk(conversation) {
            return false;
        }
        let mut earlier = self.queue.iter().take(index);
        !self.registry.is_running(conversation)
            && earlier.all(|earlier| earlier.conversation() != Some(conversation))
    }

    /// Whether the conversation's slot cannot be saved before the disk has taken more.
    fn waits_for_disk(&self, conversation: &ConversationId) -> bool {
        let slot = self.registry.slot_of(conversation);
        self.core.tiers.is_full()
            && slot.is_some_and(|slot| self.slots[slot.0 as usize].will_need_record())
    }

    /// The owner's slot, and whether it had this slot before.
    fn pin(&mut self, owner: &Owner, purpose: Purpose) -> Option<(usize, bool)> {
        let now = self.now();
        let pin = if purpose.is_prefix() {
            self.registry.pin_prefix(owner.id(), now)
        } else {
            self.registry.pin(owner.id(), now)
        };
        let slot = match pin {
            Pin::Existing(slot) => return Some((slot.0 as usize, true)),
            Pin::Full if purpose == Purpose::Answer && self.supersede_any() => {
                return self.pin(owner, purpose);
            }
            Pin::Full => return None,
            Pin::Free(slot) => slot.0 as usize,
            Pin::Parks { slot, conversation } if conversation.is_anonymous() => {
                let slot = slot.0 as usize;
                self.log_eviction(slot, 0, EvictionReason::Slot);
                self.drop_anonymous(slot);
                slot
            }
            Pin::Parks { slot, .. } => {
                let slot = slot.0 as usize;
                self.core.counters.parked += 1;
                self.save_all(slot);
                self.log_eviction(slot, 0, EvictionReason::Slot);
                self.vacate(slot);
                slot
            }
        };
        self.slots[slot].pinned_by(owner.clone());
        self.open_changed = true;
        Some((slot, false))
    }

    fn begin(&mut self, index: usize, had_slot: bool, owner: Owner, waiting: Waiting) {
        let mut running = match waiting {
            Waiting::New(turn) => {
                self.core.turns += 1;
                Running::new(self.core.turns, owner, *turn)
            }
            Waiting::Preempted { mut turn, .. } => {
                turn.admitted = Instant::now();
                *turn
            }
        };
        let unwanted = self.unwanted_impure(index, &running, had_slot);
        let overwrites = unwanted.is_some() || self.overwrites(index, &running);
        if overwrites && self.slots[index].will_need_record() {
            self.save(index);
        }
        let leftover = if !had_slot {
            Leftover::Others
        } else if self.slots[index].save.is_speculative() {
            Leftover::Speculation
        } else {
            Leftover::Conversation
        };
        if matches!(leftover, Leftover::Conversation) && !running.started && !running.is_cold() {
            running.report.miss = self.divergence(index, &running);
        }
        if had_slot && !running.started && !running.is_cold() {
            let lost = self.cut_at_loss(index);
            running.report.miss = running.report.miss.take().or(lost);
        }
        self.prepare_adapters(index, leftover, &running);
        if let Some(at) = unwanted.filter(|&at| at < self.slots[index].timeline.len()) {
            self.log_unused(index, leftover, at);
            self.cut_back(index, at);
        }
        let common =
            self.slots[index].shared_with(&running.request.adapters, &running.request.prompt);
        self.slots[index].views_before = self.slots[index].timeline.views_within(common);
        let hot_before = self.reuse_hot(index, leftover, &running);
        let in_memory = self.stays_in_memory(index, &running);
        let slot = &mut self.slots[index];
        let hot = slot.timeline.len();
        let before_speculation = slot.turn_begins(&running.request, hot);
        if !running.started {
            running.report.ahead = slot.ahead_counts(before_speculation);
            if running.request.purpose != Purpose::Speculate {
                running.report.moved_ahead = slot.speculation.take_moved();
            }
        }
        slot.save.keep_as(&running.request.keep, had_slot);
        slot.save.set_in_memory(in_memory);
        slot.uses.begin_turn(hot);
        slot.turn = Some(running);
        if self.slots[index].cells.len() > self.budget(index) {
            self.reduce_to_budget(index); // The budget is lower than the last turn's.
        }
        let slot = &mut self.slots[index];
        slot.peak = slot.cells.len();
        let whole = !std::mem::take(&mut slot.partly_restored);
        self.core.change_log.touch();
        let continues = had_slot && whole && hot > 0 && hot == hot_before;
        self.park_before(index);
        self.restore(index, continues && !self.may_hold_more(index));
    }

    /// Whether KV of the slot is lost or left behind unless it is saved before: a speculation without stored text is not
    /// saved, a cold turn computes these cells again, a memory that is not plain cannot go back to its present
    /// state, and a prompt that differs, or of which a token is computed again, leaves a branch.
    fn overwrites(&self, index: usize, running: &Running) -> bool {
        let (slot, request) = (&self.slots[index], &running.request);
        let speculates = request.purpose == Purpose::Speculate && !request.is_stored;
        let shared = slot.shared_with(&request.adapters, &request.prompt);
        let differs = shared.min(running.reusable_tokens()) < slot.timeline.len();
        speculates || running.is_cold() || !self.is_plain() || differs
    }

    /// Whether the tiers hold more of the turn's prompt for its conversation than the cells.
    fn may_hold_more(&self, index: usize) -> bool {
        let slot = &self.slots[index];
        let prompt = slot.turn.as_ref().map_or(&[][..], |turn| &turn.request.prompt);
        let hot = slot.timeline.len();
        let (conversation, adapters) = (slot.conversation(), slot.adapters.set());
        conversation.is_some_and(|id| self.core.tiers.may_hold_more(id, adapters, prompt, hot))
    }

    /// Where the prompt differs from what the conversation has in its own slot.
    fn divergence(&self, index: usize, running: &Running) -> Option<MissReason> {
        let own = self.slots[index].timeline.tokens();
        if self.slots[index].adapters.set() != running.request.adapters.set() {
            return (!own.is_empty()).then_some(MissReason::OtherAdapters);
        }
        let at = common_prefix(own, &running.request.prompt);
        (at < own.len().min(running.reusable_tokens())).then(|| MissReason::differs(own, at))
    }

    /// Drops cells that other adapters computed.
    fn prepare_adapters(&mut self, index: usize, leftover: Leftover, running: &Running) {
        let adapters = &running.request.adapters;
        if self.slots[index].adapters.set() != adapters.set() {
            self.log_unused(index, leftover, 0);
            self.clear(index);
            self.slots[index].set_adapters(adapters.clone(), self.core.fingerprint);
        }
    }

    /// Leaves the longest hot beginning of the prompt in the slot: its own, or cells shared from
    /// another slot. Returns how many tokens the slot held before; 0 where those of another slot take their place.
    fn reuse_hot(&mut self, index: usize, leftover: Leftover, running: &Running) -> usize {
        let prompt = &running.request.prompt;
        let limit = running.reusable_tokens();
        let before = self.slots[index].timeline.len();
        if running.is_cold() {
            self.clear(index);
            return before;
        }
        let own = common_prefix(self.slots[index].timeline.tokens(), prompt);
        if !self.is_plain() {
            // Such a memory continues at its end, or at the position whose rest is held.
            if own < before || own > limit {
                let within = own.min(limit);
                let held = self.slots[index].save.held.as_ref().map(|held| held.position);
                let from = held.filter(|&position| position <= within).unwrap_or(0);
                self.log_unused(index, leftover, from);
                let is_typed = running.request.purpose == Purpose::Speculate;
                if is_typed && matches!(leftover, Leftover::Speculation) {
                    self.put_held(index); // The state of the stored text may come from the tiers, in its place.
                }
                if !self.rewind_to_held(index, within) {
                    self.clear(index);
                }
            }
            return before;
        }
        let own = own.min(limit);
        let (id, limit) = (self.slots[index].id, limit.min(self.most_shared(&running.request)));
        match self.hot.longest_prefix(self.slots[index].root(), prompt, id) {
            Some((other, length)) if length.min(limit) > own => {
                let length = length.min(limit);
                self.log_unused(index, leftover, own);
                self.clear(index);
                self.share(other.0 as usize, index, 0..length, &prompt[..length]);
                // What follows in the tiers attended to no less than these cells did.
                self.slots[index].views_before.clear();
                return 0;
            }
            _ => {
                self.log_unused(index, leftover, own);
                self.cut_back(index, own);
            }
        }
        before
    }

    /// The prompt differs from the slot's tokens from `from` on.
    fn log_unused(&mut self, index: usize, leftover: Leftover, from: usize) {
        match leftover {
            Leftover::Conversation => self.log_eviction(index, from, EvictionReason::Differs),
            Leftover::Speculation => {} // It was never part of the conversation.
            Leftover::Others => self.log_unowned_eviction(index, from),
        }
    }

    /// Ends the slot's turn, finished or not.
    pub(super) fn end_turn(&mut self, index: usize) {
        let (now, run) = (self.now(), self.usage(index).run);
        let slot = &mut self.slots[index];
        if slot.turn.is_none() {
            return;
        }
        self.drop_headless(index);
        let slot = &mut self.slots[index];
        let mut turn = slot.turn.take().expect("it was found above");
        if slot.answered.number != run.number {
            slot.answered = run; // The turn ended without an answer; its KV is exported.
        }
        slot.turn_ended(&turn);
        if turn.is_restoring() {
            self.drop_half_restored(index);
        }
        turn.phase = Phase::Prefill; // Cancels a fetch, before its use is reported as ended.
        self.slot_may_be_free = true;
        self.core.change_log.touch();
        self.ended += 1;
        self.registry.end(turn.owner.id(), now);
        if let (Some(conversation), Some(restore)) = (turn.owner.conversation(), turn.restore) {
            self.core.tiers.use_ended(conversation, restore);
        }
        // The plan of a restore has already handed the words over.
        if !turn.request.restores_only {
            self.learn_words(index);
        }
        self.add_unread(index, turn.generated);
        if turn.owner.conversation().is_none() {
            self.end_anonymous(index, &turn);
        }
    }

    /// Whether the KV of the slot's next turn must not reach the disk.
    fn stays_in_memory(&self, index: usize, turn: &Running) -> bool {
        let recorded = || {
            let conversation = turn.owner.conversation()?;
            Some(self.core.tiers.summary(conversation)?.in_memory)
        };
        let asked = turn.request.keep.in_memory.or_else(recorded);
        asked.unwrap_or(self.slots[index].save.in_memory)
    }
}
