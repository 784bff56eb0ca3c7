//! Turns without a waiting caller: prewarms and speculative prefills.
//!
//! - Background turns yield to an answer within one micro-batch; what they have computed stays.
//! - A newer turn of the same conversation supersedes a running background turn as soon as that turn's
//!   restore is complete, so nothing is read twice.
//! - Background turns generate nothing and do not count as a use of the conversation.

use hob_slots::ConversationId;

use super::Worker;
use super::answer::report_started;
use super::slot::Slot;
use super::waiting::Waiting;
use crate::command::Submitted;
use crate::map::EvictionReason;
use crate::turn::{CellCounts, DraftCounts, FinishReason, Purpose, TurnError, TurnEvent};

/// While an answer is being generated, a speculation adds at most this fraction (1/8) of its rows
/// to a micro-batch.
const BESIDE_AN_ANSWER: usize = 8;

impl Worker<'_> {
    /// Queues a turn by its purpose, and drops queued background turns of the same conversation.
    pub(super) fn enqueue(&mut self, turn: Box<Submitted>) {
        if let Some(conversation) = &turn.request.conversation {
            self.drop_queued_background(conversation);
        }
        let purpose = turn.request.purpose;
        let behind = self.queue.iter().position(|waiting| waiting.purpose() > purpose);
        self.queue.insert(behind.unwrap_or(self.queue.len()), Waiting::New(turn));
        self.open_changed = true;
    }

    /// Turns of a hint may come from several clients: none replaces another.
    fn drop_queued_background(&mut self, conversation: &ConversationId) {
        if conversation.is_hint() {
            return;
        }
        let superseded = |waiting: &Waiting| {
            waiting.purpose().is_background() && waiting.conversation() == Some(conversation)
        };
        for waiting in self.queue.iter().filter(|waiting| superseded(waiting)) {
            waiting.events().fail(TurnError::Superseded);
        }
        self.core.counters.superseded += self.remove_queued(superseded) as u64;
    }

    /// Ends the conversation's background turn for a newer turn, unless it still restores: the
    /// newer one needs the same KV.
    pub(super) fn supersede(&mut self, conversation: &ConversationId) {
        let Some(slot) = self.registry.slot_of(conversation) else { return };
        let index = slot.0 as usize;
        if self.is_background(index) && !self.slots[index].is_restoring() {
            self.supersede_turn(index);
        }
    }

    /// Ends the background turn with the lowest priority. Returns whether there was one.
    pub(super) fn supersede_any(&mut self) -> bool {
        let running = self.running().into_iter().rev();
        let mut of_conversations = running.filter(|&index| index < self.core.options.slots);
        let found = of_conversations.find(|&index| self.is_background(index));
        if let Some(index) = found {
            self.supersede_turn(index);
        }
        found.is_some()
    }

    /// Ends the slot's turn; its cells stay.
    pub(super) fn supersede_turn(&mut self, index: usize) {
        let turn = self.slots[index].turn.as_ref().expect("it has a turn");
        turn.events.fail(TurnError::Superseded);
        self.core.counters.superseded += 1;
        self.end_turn(index);
    }

    /// Ends the slot's turn and gives up its cells.
    pub(super) fn supersede_and_park(&mut self, index: usize) {
        self.supersede_turn(index);
        self.save_all(index);
        self.log_eviction(index, 0, EvictionReason::Room);
        if let Some(owner) = &self.slots[index].owner {
            self.registry.unpin(owner.id());
        }
        self.vacate(index);
    }

    /// Ends a background turn whose whole prompt is hot.
    pub(super) fn finish_prefill(&mut self, index: usize) {
        let slot = &mut self.slots[index];
        let away = slot.cells.away(slot.timeline.len());
        let turn = slot.turn.as_mut().expect("its prompt is hot");
        turn.report.away = away;
        report_started(turn, &self.core);
        let timeline = slot.timeline.tokens().to_vec();
        let (reason, text) = (FinishReason::Length, String::new());
        let (completion_tokens, generation_ms) = (0, 0.0);
        turn.events.send(TurnEvent::Finished {
            reason,
            text,
            stop_text: None,
            completion_tokens,
            generation_ms,
            drafts: DraftCounts::default(),
            cells: CellCounts::default(),
            timeline,
        });
        self.core.counters.prewarmed += 1;
        self.end_turn(index);
    }

    pub(super) fn is_background(&self, index: usize) -> bool {
        self.purpose(index).is_some_and(Purpose::is_background)
    }

    /// Sorts turns by purpose, then by admission.
    pub(super) fn priority(&self, index: usize) -> Option<(Purpose, u64)> {
        self.slots[index].turn.as_ref().map(|turn| (turn.request.purpose, turn.number))
    }

    /// How many rows the slot's prompt may have in the next micro-batch. Background prompts have
    /// none while an answer waits for its prompt, unless the answer waits for the disk; prompts of equal purpose share
    /// the rest equally.
    pub(super) fn row_budget(&self, index: usize) -> usize {
        let Some(purpose) = self.purpose(index) else { return 0 };
        if purpose == Purpose::Answer {
            return self.core.options.max_rows();
        }
        let has_purpose = |slot: &Slot, purpose: Purpose| {
            slot.turn.as_ref().is_some_and(|turn| turn.request.purpose == purpose)
        };
        let answers = || {
            self.slots
                .iter()
                .filter(|slot| has_purpose(slot, Purpose::Answer) && !slot.is_stalled())
        };
        let answer_queued = self.queue.iter().any(|waiting| waiting.purpose() == Purpose::Answer);
        if answer_queued || answers().any(|slot| slot.is_prefilling() || slot.is_restoring()) {
            return 0;
        }
        let rows = if answers().next().is_none() {
            self.core.pace.background_rows()
        } else if purpose == Purpose::Speculate {
            self.core.pace.background_rows().div_ceil(BESIDE_AN_ANSWER)
        } else {
            0
        };
        let equals =
            self.slots.iter().filter(|slot| slot.is_prefilling() && has_purpose(slot, purpose));
        rows.div_ceil(equals.count().max(1))
    }

    /// Whether the next micro-batch would compute rows of the slot.
    pub(super) fn would_compute(&self, index: usize) -> bool {
        let slot = &self.slots[index];
        slot.has_rows() && (!slot.is_prefilling() || self.row_budget(index) > 0)
    }

    fn purpose(&self, index: usize) -> Option<Purpose> {
        self.slots[index].turn.as_ref().map(|turn| turn.request.purpose)
    }
}
