//! Who gives up cells, and when: parked conversations, forgotten ones, and turns that are put aside.
//!
//! - Cells are given up only after what is worth keeping was exported.
//! - A user turn gives way only when no idle slot is left, and goes on later where it stopped.

use hob_slots::ConversationId;
use tracing::debug;

use super::Worker;
use super::admit::Waiting;
use super::slot::Phase;
use crate::map::EvictionReason;
use crate::turn::{FinishReason, TurnError, TurnEvent};

impl Worker<'_> {
    /// Takes an idle conversation out of its slot; its next turn brings it back.
    pub(super) fn park(&mut self, conversation: &ConversationId, why: EvictionReason) {
        let Some(slot) = self.registry.slot_of(conversation) else { return };
        if self.registry.is_running(conversation) {
            return;
        }
        let index = slot.0 as usize;
        debug!(%conversation, tokens = self.slots[index].timeline.len(), "parked");
        self.save(index);
        self.leaves(index, 0, why);
        self.registry.unpin(conversation);
        self.vacate(index);
    }

    /// Drops a conversation's KV everywhere, its turns included, running or waiting.
    pub(super) fn forget(&mut self, conversation: &ConversationId) {
        let failed = || TurnEvent::Failed(TurnError::Forgotten);
        let its_own = |waiting: &Waiting| waiting.conversation() == Some(conversation);
        for waiting in self.queue.iter().filter(|waiting| its_own(waiting)) {
            waiting.events().send(failed()).ok(); // An error: the caller went away.
        }
        self.leave_queue(its_own);
        let mut unrecorded = Vec::new();
        if let Some(slot) = self.registry.slot_of(conversation) {
            let index = slot.0 as usize;
            if let Some(turn) = &self.slots[index].turn {
                turn.events.send(failed()).ok(); // An error: the caller went away.
                self.end_turn(index);
            }
            let slot = &self.slots[index];
            unrecorded.extend(slot.timeline.blocks().iter().map(|block| block.id));
            unrecorded.extend(slot.snapshots.iter().map(|snapshot| snapshot.id));
            self.deleted(index);
            self.registry.unpin(conversation);
            self.vacate(index);
        }
        self.change_log.forget(conversation);
        self.tiers.forget(conversation, unrecorded);
    }

    /// The cache is full: idle cells go first, then the youngest of several turns waits.
    pub(super) fn relieve(&mut self) {
        if self.make_room(usize::MAX) {
            return;
        }
        match self.running().as_slice() {
            [] => {}
            [alone] => self.end_for_lack_of_room(*alone),
            [.., youngest] => self.preempt(*youngest),
        }
    }

    /// Slots with a turn, in the order of service.
    pub(super) fn running(&self) -> Vec<usize> {
        let all = 0..self.slots.len();
        let mut running: Vec<usize> =
            all.filter(|&index| self.slots[index].turn.is_some()).collect();
        running.sort_by_key(|&index| self.order_of_service(index));
        running
    }

    /// Gives up the cells of one slot that nobody works in, other than `spared`: free ones first,
    /// then the longest idle. Returns whether there was one.
    pub(super) fn make_room(&mut self, spared: usize) -> bool {
        let holds = |index: &usize| {
            let slot = &self.slots[*index];
            *index != spared && slot.turn.is_none() && !slot.timeline.is_empty()
        };
        let candidates = (0..self.slots.len()).filter(holds);
        if let Some(free) = candidates.clone().find(|&index| self.slots[index].owner.is_none()) {
            self.leaves(free, 0, EvictionReason::Room);
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
        match longest {
            Some(conversation) => {
                self.counters.parked += 1;
                self.park(&conversation, EvictionReason::Room);
                true
            }
            None => false,
        }
    }

    fn end_for_lack_of_room(&mut self, index: usize) {
        let turn = self.slots[index].turn.as_ref().expect("the slot runs a turn");
        if let Phase::Decoding(last) = turn.phase {
            self.finish(index, FinishReason::Length, Some(last));
            self.slots[index].tail.clear(); // There is no room for it either.
        } else {
            let prompt_tokens = turn.request.prompt.len();
            let context_tokens = self.options.context_tokens;
            self.refuse(index, TurnError::TooLong { prompt_tokens, context_tokens });
        }
    }

    /// Puts a turn aside, while another runs: its KV is exported, its cells are given up, and it
    /// waits in front of the queue to go on where it stopped.
    pub(super) fn preempt(&mut self, index: usize) {
        if self.is_background(index) {
            return self.give_up_cells(index);
        }
        let slot = &mut self.slots[index];
        slot.recorded &= slot.restores();
        let mut turn = slot.turn.take().expect("the slot runs a turn");
        turn.restoring = None; // Nothing more is read for it.
        if let Phase::Decoding(last) = turn.phase {
            let tokens = slot.timeline.tokens().iter().copied();
            turn.request.prompt = tokens.chain([last]).collect();
        }
        self.counters.preempted += 1;
        let now = self.now();
        self.save(index);
        self.leaves(index, 0, EvictionReason::Room);
        self.registry.end(&turn.conversation, now);
        self.registry.unpin(&turn.conversation);
        self.vacate(index);
        self.waiting.fetch_add(1, std::sync::atomic::Ordering::AcqRel);
        self.queue.push_front(Waiting::Preempted { turn: Box::new(turn), ended: self.ended });
    }
}
