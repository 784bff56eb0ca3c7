//! Makes room in the cache: parks idle conversations, forgets deleted ones, preempts turns.
//!
//! - A slot's KV is exported before its cells are given up.
//! - The TTL class of a conversation counts from the moment when it is parked for idleness: while it
//!   is hot no sweep removes it, and the park itself must not make it expire.
//! - A turn with a waiting caller is preempted only when no idle slot is left, and continues later
//!   where it stopped.

use hob_slots::{ConversationId, TtlClass};
use tracing::debug;

use super::Worker;
use super::running::Phase;
use super::waiting::Waiting;
use crate::command::Reply;
use crate::map::EvictionReason;
use crate::turn::{FinishReason, TurnError};

impl Worker<'_> {
    /// Takes an idle conversation, or all idle copies of a hint, out of the slots; the next turn
    /// restores it. Nothing stays of an anonymous one.
    pub(super) fn park_all(&mut self, conversation: &ConversationId, why: EvictionReason) {
        let copies: Vec<_> = self.registry.copies(conversation).map(|(id, _)| id.clone()).collect();
        for copy in copies {
            self.park(&copy, why);
        }
    }

    pub(super) fn park(&mut self, conversation: &ConversationId, why: EvictionReason) {
        let Some(slot) = self.registry.slot_of(conversation) else { return };
        if self.registry.is_running(conversation) {
            return;
        }
        let index = slot.0 as usize;
        debug!(%conversation, tokens = self.slots[index].timeline.len(), "parked");
        self.save_all(index);
        if why == EvictionReason::Idle {
            self.renew_if_it_expires(conversation);
        }
        self.log_eviction(index, 0, why);
        if conversation.is_anonymous() {
            return self.drop_anonymous(index);
        }
        self.registry.unpin(conversation);
        self.vacate(index);
    }

    fn renew_if_it_expires(&self, conversation: &ConversationId) {
        let class = self.core.tiers.summary(conversation).map(|summary| summary.class);
        if class.is_some_and(|class| class != TtlClass::Permanent) {
            self.core.tiers.renew(conversation.clone(), self.now());
            if let Some(tiers) = &self.core.draft_tiers {
                tiers.renew(conversation.clone(), self.now());
            }
        }
    }

    /// Drops a conversation's KV everywhere, and ends its turns, running or queued.
    /// `done` is called when its files are gone.
    pub(super) fn forget(
        &mut self,
        conversation: &ConversationId,
        done: Reply<Result<(), String>>,
    ) {
        let its_own = |waiting: &Waiting| waiting.conversation() == Some(conversation);
        for waiting in self.queue.iter().filter(|waiting| its_own(waiting)) {
            waiting.events().fail(TurnError::Forgotten);
        }
        self.remove_queued(its_own);
        if let Some(slot) = self.registry.slot_of(conversation) {
            let index = slot.0 as usize;
            if let Some(turn) = &self.slots[index].turn {
                turn.events.fail(TurnError::Forgotten);
                self.end_turn(index);
            }
            self.log_deletion(index);
            self.registry.unpin(conversation);
            self.vacate(index);
        }
        // An idle anonymous conversation may refer to its objects, which would stay on disk.
        while self.drop_idle_anonymous() {}
        if let Some(drafter) = &mut self.drafter {
            drafter.forget(conversation);
        }
        self.core.change_log.forget(conversation);
        self.publish_open();
        self.core.forget(conversation, |removed| done.send(removed));
    }

    /// Relieves a full cache: evicts idle cells first, then preempts the youngest of several turns.
    pub(super) fn relieve(&mut self) {
        if self.evict_idle(None) {
            return;
        }
        match self.running().as_slice() {
            [] => {}
            [alone] if self.evict_in_place(*alone) => {}
            [alone] if self.stall(*alone) => {}
            [alone] => self.end_for_lack_of_room(*alone),
            [.., youngest] => self.preempt(*youngest),
        }
    }

    /// Slots with a turn, by priority.
    pub(super) fn running(&self) -> Vec<usize> {
        let all = 0..self.slots.len();
        let mut running: Vec<usize> =
            all.filter(|&index| self.slots[index].turn.is_some()).collect();
        running.sort_by_key(|&index| self.priority(index));
        running
    }

    /// Evicts one slot without a turn, other than `spared`: an unowned one first, then an anonymous
    /// conversation, then the longest idle. Returns whether there was one.
    pub(super) fn evict_idle(&mut self, spared: Option<usize>) -> bool {
        let holds = |index: &usize| {
            let slot = &self.slots[*index];
            Some(*index) != spared && slot.turn.is_none() && !slot.timeline.is_empty()
        };
        let candidates = (0..self.slots.len()).filter(holds);
        if let Some(free) = candidates.clone().find(|&index| self.slots[index].owner.is_none()) {
            self.log_eviction(free, 0, EvictionReason::Room);
            self.vacate(free);
            return true;
        }
        let candidates: Vec<usize> = candidates.collect();
        let now = self.now();
        let idle = self.registry.idle(now).map(|(conversation, _)| conversation.clone());
        let longest = idle.into_iter().find(|conversation| {
            let slot = self.registry.slot_of(conversation);
            slot.is_some_and(|slot| candidates.contains(&(slot.0 as usize)))
        });
        let Some(conversation) = longest else { return false };
        self.core.counters.parked += u64::from(!conversation.is_anonymous());
        self.park(&conversation, EvictionReason::Room);
        true
    }

    /// Ends a turn for whose next row nothing can leave: an answer for its length, a prompt with an error.
    pub(super) fn end_for_lack_of_room(&mut self, index: usize) {
        let turn = self.slots[index].turn.as_ref().expect("the slot runs a turn");
        if let Phase::Decoding(_) = turn.phase {
            self.finish(index, FinishReason::Length);
            self.slots[index].tail.clear(); // There is no room for the tail either.
        } else if self.can_evict() && !turn.request.purpose.is_prefix() {
            let error = self.too_small(index);
            self.fail_turn(index, error);
        } else {
            let prompt_tokens = turn.request.prompt.len();
            let context_tokens = self.core.options.context_tokens;
            let no_eviction = self.core.options.ends_with_cells(self.core.model.facts());
            let error = TurnError::TooLong { prompt_tokens, context_tokens, no_eviction };
            self.fail_turn(index, error);
        }
    }

    /// Preempts a turn while another runs: exports its KV, drops its cells, and puts it at the
    /// front of the queue, to continue where it stopped. A background turn is ended instead.
    pub(super) fn preempt(&mut self, index: usize) {
        if self.is_background(index) {
            return self.supersede_and_park(index);
        }
        self.drop_headless(index);
        let slot = &mut self.slots[index];
        let mut turn = slot.turn.take().expect("the slot runs a turn");
        if !turn.is_resuming() {
            slot.save.turn_preempted();
        }
        turn.request.keep.class = slot.save.keep.class; // It may have been set during the turn.
        if let Phase::Decoding(sampled) = &turn.phase {
            turn.request.prompt = [slot.timeline.tokens(), sampled].concat();
        }
        let restores = turn.is_restoring();
        turn.phase = Phase::Prefill; // Drops a fetch.
        // A turn without cells waits for no disk to take its blocks.
        (turn.stalled, turn.is_refused) = (None, false);
        if restores {
            self.drop_half_restored(index); // A snapshot of these cells would be of no state.
        }
        turn.report_waiting();
        self.core.counters.preempted += 1;
        let now = self.now();
        self.save_all(index);
        self.log_eviction(index, 0, EvictionReason::Room);
        self.registry.end(turn.owner.id(), now);
        self.registry.unpin(turn.owner.id());
        self.vacate(index);
        // No cell has the KV that the turn restored: a crash from here on is not due to that KV.
        if let (Some(conversation), Some(restore)) =
            (turn.owner.conversation(), turn.restore.take())
        {
            self.core.tiers.use_ended(conversation, restore);
        }
        self.core.waiting.fetch_add(1, std::sync::atomic::Ordering::AcqRel);
        self.queue.push_front(Waiting::Preempted { turn: Box::new(turn), ended: self.ended });
        self.open_changed = true;
    }
}
