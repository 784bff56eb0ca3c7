//! Computes one micro-batch, which `plan` has chosen. `answer` samples its tokens.
//!
//! - A micro-batch is computed whole or not at all; timelines grow only after it was computed, and by
//!   the guessed tokens of an answer only as far as they were right, see `draft`.
//! - A running state is marked before the micro-batch that completes a prompt, so that "regenerate"
//!   computes that one alone, before one with a draft, and before one that may be cut; see `mark`.

use std::time::Instant;

use tracing::warn;

use super::Worker;
use super::plan::{Plan, Share};
use crate::backend::DecodeError;
use crate::map::{EvictionReason, Origin};
use crate::turn::TurnError;

/// What a micro-batch did.
#[derive(Default)]
pub(super) struct Stepped {
    /// Rows that were computed.
    pub rows: usize,
    /// Whether the device was busy, also with a micro-batch that was cut.
    pub computes: bool,
    /// Whether prompts need another micro-batch.
    pub prompts_wait: bool,
}

impl Worker<'_> {
    /// Computes one micro-batch, if there is anything to compute.
    pub(super) fn step(&mut self) -> Stepped {
        self.fetch_due_chunks();
        self.choose_adapters();
        self.keep_within_budgets();
        self.gather();
        let heads = self.compute_heads();
        // Cells that were imported since, and the window of a leader whose turn was cancelled since.
        self.share_landed();
        let nexts = self.next_tokens();
        let plan = self.plan(nexts);
        if plan.rows.is_empty() {
            return Stepped { rows: heads, computes: heads > 0, prompts_wait: heads > 0 };
        }
        // llama.cpp rounds its cache up: cells beyond those of the options are not used.
        if plan.rows.len() > self.free_cells() {
            self.relieve();
            let prompts_wait = self.prompts_wait();
            return Stepped { rows: heads, computes: heads > 0, prompts_wait };
        }
        self.park_beside(&plan);
        let rows = heads + self.compute(plan);
        Stepped { rows, computes: true, prompts_wait: self.prompts_wait() }
    }

    /// Computes the micro-batch. Returns how many of its rows were computed: all or none.
    fn compute(&mut self, mut plan: Plan) -> usize {
        self.fill_tile(&mut plan);
        let (began, beats) = (Instant::now(), self.core.pulse.beats());
        self.mark_state(&plan);
        self.follow_by_mtp(&plan);
        let decoded =
            if plan.is_alone { self.decode_alone(&plan) } else { self.backend.decode(&plan.rows) };
        self.drop_fillers(&mut plan);
        let is_first = self.current.is_new;
        self.count_micro_batch();
        match decoded {
            Ok(()) => {
                self.core.graph_nodes = self.core.pulse.beats() - beats;
                // The first one with other adapters takes longer.
                if !is_first {
                    self.observe_time(&plan, began);
                }
                self.use_computed(&plan);
                return plan.rows.len();
            }
            Err(DecodeError::NoRoom { .. }) => {
                self.drop_mark();
                self.relieve();
            }
            Err(DecodeError::Failed(reason)) => {
                self.drop_mark();
                self.fail_batch(&plan.shares, &reason);
            }
            Err(DecodeError::Interrupted) => {
                self.count_cut(plan.shares.iter().map(|share| share.slot), began);
                self.recover(&plan.shares);
                self.drop_mark();
            }
        }
        0
    }

    /// The micro-batch was computed: counts it, and lets its slots go on, and those that share their cells.
    fn use_computed(&mut self, plan: &Plan) {
        self.count_passed_over(plan);
        self.count_rows_beside(plan.rows.len());
        let accepted = self.accepted_guesses();
        self.commit(&plan.shares);
        self.drop_mark();
        if plan.only_answers {
            let accepted = self.accepted_guesses() - accepted;
            self.account_for_guesses(&plan.shares, accepted);
        }
        // Before a deletion, or an admitted turn, takes these cells.
        self.share_landed();
    }

    /// Whether prompts need a micro-batch, and may have rows in it.
    pub(super) fn prompts_wait(&self) -> bool {
        self.prompts_in_order().into_iter().any(|index| self.would_compute(index))
    }

    /// Computes a long micro-batch, which a caller that arrives meanwhile interrupts where the backend can.
    pub(super) fn decode_alone(&mut self, plan: &Plan) -> Result<(), DecodeError> {
        *self.core.busy_status.lock() = Some(self.status());
        if self.backend.can_interrupt() {
            self.core.pulse.watcher.set(self.progress_within(plan));
            self.core.pulse.attention.may_cut(true);
        }
        let decoded = self.backend.decode(&plan.rows);
        self.core.pulse.attention.may_cut(false);
        self.core.pulse.watcher.set(None);
        *self.core.busy_status.lock() = None;
        decoded
    }

    /// Learns from the time of a micro-batch that was computed.
    fn observe_time(&mut self, plan: &Plan, began: Instant) {
        if plan.only_answers {
            let mut sampled = plan.shares.iter().flat_map(|share| share.sampled_rows.clone());
            if let Some(row) = sampled.next() {
                self.backend.logits(row); // Devices other than the processor compute until they are read.
            }
            self.core.costs.observe(plan.rows.len(), began.elapsed());
        } else {
            self.core.pace.observe(plan.rows.len(), began.elapsed());
        }
        if let Some(guesser) = self.guesser_mut() {
            guesser.earn(began.elapsed());
        }
    }

    /// The rows are in the cache: extends timelines, and samples for answers and for prompts that are
    /// complete.
    fn commit(&mut self, shares: &[Share]) {
        for share in shares {
            if self.slots[share.slot].is_decoding() {
                self.commit_answer(share);
                continue;
            }
            let is_prompt = self.slots[share.slot].is_prefilling();
            let origin = if is_prompt { Origin::Computed } else { Origin::Generated };
            self.extend(share.slot, &share.tokens, origin);
            let slot = &mut self.slots[share.slot];
            if slot.turn.is_none() {
                continue; // The share was a tail.
            }
            if slot.is_prefilling() {
                self.core.counters.computed_tokens += share.tokens.len() as u64;
            }
            match share.sampled_rows.clone().next() {
                Some(row) => self.begin_answer(share.slot, row),
                None if self.recall_if_due(share.slot) => {}
                None => self.report_progress(share.slot),
            }
        }
    }

    /// Computes the tail of a finished answer in a micro-batch of its own, before its slot is
    /// saved.
    pub(super) fn compute_tail(&mut self, index: usize) {
        let tail = std::mem::take(&mut self.slots[index].tail);
        if tail.is_empty() {
            return;
        }
        let adapters = self.slots[index].adapters.clone();
        if self.use_adapters(&adapters).is_err() {
            return; // The next turn computes the tail.
        }
        // A stop may cut this micro-batch: without a mark, the running state would be lost and nothing could be saved.
        let mut plan = Plan { is_alone: true, ..Plan::default() };
        plan.add(&self.slots[index], index, &tail, 0);
        self.mark_state(&plan);
        match self.backend.decode(&plan.rows) {
            Ok(()) => self.extend(index, &tail, Origin::Generated),
            // The KV before the tail is about to be saved.
            Err(DecodeError::Interrupted | DecodeError::Failed(_)) => self.recover(&plan.shares),
            // The next turn computes the tail, which costs one token.
            Err(DecodeError::NoRoom { .. }) => {}
        }
        self.drop_mark();
    }

    /// Ends one turn with an error.
    pub(super) fn fail_turn(&mut self, index: usize, error: TurnError) {
        let turn = self.slots[index].turn.as_ref().expect("a turn fails once");
        turn.events.fail(error);
        self.core.counters.failed += 1;
        self.end_turn(index);
    }

    /// A micro-batch of these slots, which began then, was cut. What a caller has cancelled is not computed again.
    pub(super) fn count_cut(&mut self, slots: impl IntoIterator<Item = usize>, began: Instant) {
        let lost = began.elapsed();
        self.core.pace.observe_cut(lost);
        let goes_on = |slot: usize| {
            self.slots[slot].turn.as_ref().is_some_and(|turn| !turn.events.is_closed())
        };
        if slots.into_iter().any(goes_on) {
            self.core.counters.cut_micros += u64::try_from(lost.as_micros()).unwrap_or(u64::MAX);
        }
    }

    /// A micro-batch was cut or has failed, or the engine stops. A slot whose running state was marked goes back.
    /// Others may not have dropped the cells of the micro-batch: they are cleared, and what is saved of
    /// them stays.
    fn recover(&mut self, shares: &[Share]) {
        for share in shares {
            if self.go_back_to_mark(share.slot) {
                continue;
            }
            let slot = &self.slots[share.slot];
            if self.backend.end(slot.sequence) != slot.timeline.len() {
                self.start_over(share.slot);
            }
        }
    }

    /// llama.cpp does not report which row failed the batch: all of its turns fail, and their slots
    /// are cleared.
    fn fail_batch(&mut self, shares: &[Share], reason: &str) {
        warn!(reason, "micro-batch failed");
        for share in shares {
            self.fail_slot(share.slot, reason);
        }
    }

    /// The slot's cells are not what its timeline says: ends its turn, and clears it.
    pub(super) fn fail_slot(&mut self, index: usize, reason: &str) {
        if self.slots[index].turn.is_some() {
            self.fail_turn(index, TurnError::Backend(reason.to_owned()));
        }
        self.log_eviction(index, 0, EvictionReason::Failed);
        self.clear(index);
        self.drop_anonymous(index);
    }
}
