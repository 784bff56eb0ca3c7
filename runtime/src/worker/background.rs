//! Turns that nobody waits for: what is made hot before it is asked for.
//!
//! - They stop within one micro-batch for whoever waits; what they have computed stays.
//! - A newer turn of the same conversation takes the place of one that is under way, as soon as what
//!   it restores is in place: nothing is read twice.
//! - Nothing is generated, and nothing counts as a use of the conversation.

use hob_slots::ConversationId;

use super::admit::Waiting;
use super::slot::Running;
use super::step::start;
use super::{Submitted, Worker};
use crate::map::EvictionReason;
use crate::turn::{FinishReason, Purpose, TurnError, TurnEvent};

/// What a speculation may add to a micro-batch in which somebody's answer goes on, as a part of what
/// it could take alone.
const BESIDE_AN_ANSWER: usize = 8;

impl Worker<'_> {
    /// Behind those that are served before it, and in the place of those that it makes useless.
    pub(super) fn enqueue(&mut self, turn: Box<Submitted>) {
        if let Some(conversation) = &turn.request.conversation {
            self.withdraw(conversation);
        }
        let purpose = turn.request.purpose;
        let behind = self.queue.iter().position(|waiting| waiting.purpose() > purpose);
        self.queue.insert(behind.unwrap_or(self.queue.len()), Waiting::new(turn));
    }

    /// What waits to be made hot for a conversation is not wanted any more.
    fn withdraw(&mut self, conversation: &ConversationId) {
        let useless = |waiting: &Waiting| {
            waiting.purpose().is_background() && waiting.conversation() == Some(conversation)
        };
        for waiting in self.queue.iter().filter(|waiting| useless(waiting)) {
            // An error: the caller went away.
            waiting.events().send(TurnEvent::Failed(TurnError::Superseded)).ok();
        }
        self.counters.superseded += self.leave_queue(useless) as u64;
    }

    /// Ends what is made hot for a conversation that has something newer to do, unless it still
    /// restores what the newer one wants too.
    pub(super) fn supersede(&mut self, conversation: &ConversationId) {
        let Some(slot) = self.registry.slot_of(conversation) else { return };
        let index = slot.0 as usize;
        if self.is_background(index) && !self.slots[index].restores() {
            self.give_way(index);
        }
    }

    /// Ends a turn that nobody waits for, where all slots are busy. Returns whether there was one.
    pub(super) fn free_a_slot(&mut self) -> bool {
        let running = self.running().into_iter().rev();
        let of_conversations = |index: &usize| *index < self.options.slots;
        match running.filter(of_conversations).find(|&index| self.is_background(index)) {
            Some(index) => {
                self.give_way(index);
                true
            }
            None => false,
        }
    }

    /// Ends the slot's turn for another; its cells stay.
    pub(super) fn give_way(&mut self, index: usize) {
        let turn = self.slots[index].turn.as_ref().expect("it has a turn");
        // An error: the caller went away.
        turn.events.send(TurnEvent::Failed(TurnError::Superseded)).ok();
        self.counters.superseded += 1;
        self.end_turn(index);
    }

    /// The whole prompt is hot.
    pub(super) fn prewarmed(&mut self, index: usize) {
        let slot = &mut self.slots[index];
        let turn = slot.turn.as_mut().expect("its prompt is hot");
        start(turn, &self.pace);
        let timeline = slot.timeline.tokens().to_vec();
        let (reason, text) = (FinishReason::Length, String::new());
        let finished = TurnEvent::Finished { reason, text, completion_tokens: 0, timeline };
        turn.events.send(finished).ok(); // An error: the caller went away.
        self.counters.prewarmed += 1;
        self.end_turn(index);
    }

    pub(super) fn is_background(&self, index: usize) -> bool {
        let turn = self.slots[index].turn.as_ref();
        turn.is_some_and(|turn| turn.request.purpose.is_background())
    }

    /// Who waits before who does not; among equals, who came first.
    pub(super) fn order_of_service(&self, index: usize) -> Option<(Purpose, u64)> {
        self.slots[index].turn.as_ref().map(|turn| (turn.request.purpose, turn.number))
    }

    /// Rows that a prompt may take in the next micro-batch, as far as others are concerned. Of those
    /// that nobody waits for, equals share: nobody's sentence waits until another's is hot.
    pub(super) fn rows_of(&self, index: usize) -> usize {
        let purpose = |turn: &Running| turn.request.purpose;
        let Some(of_this) = self.slots[index].turn.as_ref().map(purpose) else { return 0 };
        if of_this == Purpose::Answer {
            return self.pace.rows();
        }
        let answers = || {
            self.slots.iter().filter(|slot| {
                slot.turn.as_ref().is_some_and(|turn| purpose(turn) == Purpose::Answer)
            })
        };
        let waits = self.queue.iter().any(|waiting| waiting.purpose() == Purpose::Answer);
        if waits || answers().any(|slot| slot.prefills() || slot.restores()) {
            return 0;
        }
        let all = match (answers().next().is_some(), of_this) {
            (false, _) => self.pace.rows_behind(),
            (true, Purpose::Speculate) => self.pace.rows_behind().div_ceil(BESIDE_AN_ANSWER),
            (true, _) => 0,
        };
        let beside = self.slots.iter().filter(|slot| {
            slot.prefills() && slot.turn.as_ref().is_some_and(|turn| purpose(turn) == of_this)
        });
        all.div_ceil(beside.count().max(1))
    }

    /// Whether the next micro-batch would compute something of the slot.
    pub(super) fn is_served(&self, index: usize) -> bool {
        let slot = &self.slots[index];
        slot.has_rows() && (!slot.prefills() || self.rows_of(index) > 0)
    }

    /// Ends the slot's turn and gives up its cells.
    pub(super) fn give_up_cells(&mut self, index: usize) {
        self.give_way(index);
        self.save(index);
        self.leaves(index, 0, EvictionReason::Room);
        if let Some(owner) = self.slots[index].owner.clone() {
            self.registry.unpin(&owner);
        }
        self.vacate(index);
    }
}
