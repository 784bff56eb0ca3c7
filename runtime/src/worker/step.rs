//! Computes one micro-batch, which `plan` has chosen, and samples its tokens.
//!
//! - A micro-batch is computed whole or not at all; timelines grow only after it was computed, and by
//!   the guessed tokens of an answer only as far as they were right, see `draft`.
//! - A running state is marked before the micro-batch that completes a prompt, so that "regenerate"
//!   computes that one alone, before one with a draft, and before one that may be cut; see `mark`.

use std::time::Instant;

use hob_slots::Token;
use hob_slots::evict::AnswerEnd;
use tracing::warn;

use super::choose::choose;
use super::delivery::Delivery;
use super::plan::{Plan, Share};
use super::running::{Phase, Running};
use super::{Core, Worker};
use crate::backend::DecodeError;
use crate::grammar::Constraint;
use crate::map::{EvictionReason, Origin};
use crate::miss::MissReason;
use crate::sample::{self, Pushed, RankedLogprobs};
use crate::turn::{CellCounts, FinishReason, Logprobs, TokenLogprob, TurnError, TurnEvent};
use crate::vocabulary::Vocabulary;

/// A token that was sampled, and sent.
pub(super) struct Sampled {
    pub token: Token,
    /// Why the answer ends with this token, if it does.
    pub ends: Option<FinishReason>,
}

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
        let mut plan = self.plan(nexts);
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
        self.fill_tile(&mut plan);
        let mut rows = heads;
        let (began, beats) = (Instant::now(), self.core.pulse.beats());
        self.mark_state(&plan);
        let decoded =
            if plan.is_alone { self.decode_alone(&plan) } else { self.backend.decode(&plan.rows) };
        self.drop_fillers(&mut plan);
        let is_first = self.current.is_new;
        self.count_micro_batch();
        match decoded {
            Ok(()) => {
                rows += plan.rows.len();
                self.core.graph_nodes = self.core.pulse.beats() - beats;
                // The first one with other adapters takes longer.
                if !is_first {
                    self.observe_time(&plan, began);
                }
                self.count_passed_over(&plan);
                self.count_rows_beside(plan.rows.len());
                let accepted = self.accepted_of_drafter();
                self.commit(&plan.shares);
                self.drop_mark();
                if plan.only_answers {
                    let accepted = self.accepted_of_drafter() - accepted;
                    self.account_for_guesses(&plan.shares, accepted);
                }
                // Before a deletion, or an admitted turn, takes these cells.
                self.share_landed();
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
        Stepped { rows, computes: true, prompts_wait: self.prompts_wait() }
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
        if let Some(drafter) = &mut self.drafter {
            drafter.core.ledger.earn(began.elapsed());
        }
        if plan.only_answers {
            let mut sampled = plan.shares.iter().flat_map(|share| share.sampled_rows.clone());
            if let Some(row) = sampled.next() {
                self.backend.logits(row); // Devices other than the processor compute until they are read.
            }
            self.core.costs.observe(plan.rows.len(), began.elapsed());
        } else {
            self.core.pace.observe(plan.rows.len(), began.elapsed());
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

    /// The slot's prompt is computed: samples the first token from `row`.
    fn begin_answer(&mut self, index: usize, row: usize) {
        let slot = &mut self.slots[index];
        let turn = slot.turn.as_mut().expect("only turns want logits");
        // Also of a turn that goes on after it gave up its cells: it has restored them again.
        if let (Some(conversation), Some(restore)) = (turn.owner.conversation(), turn.restore) {
            self.core.tiers.answering(conversation, restore);
        }
        turn.report.away = slot.cells.away(turn.request.prompt.len());
        if !turn.started {
            self.core.counters.moved_tokens += turn.report.tokens.moved as u64;
            self.core.counters.repaired_tokens += turn.report.tokens.repaired as u64;
        }
        report_started(turn, &self.core);
        if turn.request.purpose.is_background() {
            return self.finish_prefill(index);
        }
        if turn.request.max_tokens == 0 {
            return self.finish(index, FinishReason::Length);
        }
        let sampled = self.sample(index, row);
        self.hold_rest(index);
        self.read_ahead(index);
        self.conclude(index, sampled);
    }

    /// Samples the next token of the slot's turn from `row` and sends it to the caller.
    pub(super) fn sample(&mut self, index: usize, row: usize) -> Result<Sampled, TurnError> {
        let slot = &mut self.slots[index];
        let turn = slot.turn.as_mut().expect("only turns want logits");
        let vocabulary = self.core.model.vocabulary();
        let chosen = choose(turn, self.backend.logits(row), &mut self.logits, vocabulary);
        let accepted = chosen.and_then(|token| {
            let constraint = turn.constraint.as_mut();
            let accepted = constraint.map_or(Ok(()), |constraint| constraint.accept(token));
            accepted.map(|()| token).map_err(|error| error.to_string())
        });
        let token = match accepted {
            Ok(token) => token,
            Err(reason) => {
                let computed = self.backend.logits(row);
                let error = if computed.iter().any(|logit| logit.is_nan()) {
                    TurnError::NotANumber
                } else {
                    TurnError::Grammar(reason)
                };
                return Err(error);
            }
        };
        let odds = match turn.request.logprobs {
            Some(count) if turn.request.logprobs_of_sampling => {
                Some(turn.sampler.odds(&mut self.logits, token, count))
            }
            _ => None,
        };
        turn.sampler.accept(token);
        turn.generated += 1;
        self.core.counters.generated_tokens += 1;
        let logprobs = turn.request.logprobs.map(|count| {
            // The model's own logits: those in `self.logits` may be masked by a grammar, or of another row.
            let own = || sample::logprobs(self.backend.logits(row), token, count);
            named_logprobs(odds.unwrap_or_else(own), token, vocabulary)
        });
        let ends = turn.ends_at(token, vocabulary);
        let complete = turn.constraint.as_ref().is_some_and(Constraint::must_stop);
        let pushed = match vocabulary.piece(token) {
            _ if ends => Pushed::default(),
            piece if turn.generated <= turn.request.min_tokens => turn.output.pass(piece),
            piece => turn.output.push(piece),
        };
        let stopped = pushed.stopped;
        turn.events.send(TurnEvent::Token { token, text: pushed.text, logprobs });
        turn.phase = Phase::Decoding(vec![token]);
        let max_tokens = self.core.options.conversation_tokens(self.core.model.facts());
        let full = slot.timeline.len() + 1 >= max_tokens;
        let ends = if ends || stopped || complete {
            Some(FinishReason::Stop)
        } else if full || turn.generated >= turn.request.max_tokens {
            Some(FinishReason::Length)
        } else {
            None
        };
        Ok(Sampled { token, ends })
    }

    /// Ends the slot's turn if the token that it sampled last does, or could not be sampled.
    pub(super) fn conclude(&mut self, index: usize, sampled: Result<Sampled, TurnError>) {
        match sampled {
            Ok(Sampled { ends: Some(reason), .. }) => self.finish(index, reason),
            Ok(Sampled { ends: None, .. }) => {}
            Err(error) => self.fail_turn(index, error),
        }
    }

    /// Reports that the answer is complete. What is sampled and not yet computed becomes the tail, so
    /// that the next turn finds the whole answer hot.
    pub(super) fn finish(&mut self, index: usize, reason: FinishReason) {
        let ended = match reason {
            FinishReason::Stop => AnswerEnd::Turn,
            FinishReason::Length => AnswerEnd::Unknown,
        };
        self.report_answer(index, ended);
        let budget = self.budget(index);
        let is_full = reason == FinishReason::Length
            && self.slots[index]
                .turn
                .as_ref()
                .is_some_and(|turn| turn.generated < turn.request.max_tokens);
        let no_eviction = self.no_eviction(index, is_full);
        let slot = &mut self.slots[index];
        let cells = CellCounts { budget, peak: slot.peak, resident: slot.cells.len(), no_eviction };
        let turn = slot.turn.as_mut().expect("a turn finishes once");
        let uncomputed = turn.uncomputed().to_vec();
        let timeline = [slot.timeline.tokens(), &uncomputed].concat();
        let finished = TurnEvent::Finished {
            reason,
            text: turn.output.finish(),
            stop_text: turn.output.stop_text().map(str::to_owned),
            completion_tokens: turn.generated,
            generation_ms: turn
                .first_token
                .map_or(0.0, |first| first.elapsed().as_secs_f64() * 1e3),
            drafts: turn.drafts,
            cells,
            timeline,
        };
        turn.events.send(finished);
        slot.delivery = Delivery::begin(&turn.events, self.core.options.delivery_patience);
        self.core.counters.turns += 1;
        let max_tokens = self.core.options.conversation_tokens(self.core.model.facts());
        let room = max_tokens.saturating_sub(slot.timeline.len());
        let room = room.min(budget.saturating_sub(slot.cells.len()));
        slot.tail = uncomputed.into_iter().take(room).collect();
        self.end_turn(index);
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

/// Completes the turn's report once its prompt is computed, and sends it. Does so once.
pub(super) fn report_started(turn: &mut Running, core: &Core) {
    if std::mem::replace(&mut turn.started, true) {
        return;
    }
    let prompt = turn.request.prompt.len();
    let tokens = &mut turn.report.tokens;
    tokens.computed = if turn.request.restores_only { 0 } else { prompt - tokens.cached() };
    // A running state was last marked before a micro-batch.
    let can_drop = core.model.facts().memory.can_drop_newest();
    let again = if can_drop { 0 } else { core.options.max_rows() };
    if turn.report.miss.is_none() && tokens.cached() + again < turn.expected.min(prompt - 1) {
        turn.report.miss = Some(MissReason::NotSaved { from: tokens.cached() });
    }
    if tokens.computed <= 1 {
        turn.report.miss = None; // The KV was found, perhaps in another conversation.
    }
    turn.first_token = Some(Instant::now());
    turn.report.ttft_ms = turn.submitted.elapsed().as_secs_f64() * 1e3;
    turn.report.cold = turn.request.cold;
    turn.report.prefill_tokens_per_second = core.pace.rows_per_second();
    turn.events.send(TurnEvent::Started(turn.report.clone()));
}

fn named_logprobs(ranked: RankedLogprobs, chosen: Token, vocabulary: &Vocabulary) -> Logprobs {
    let named = |token: Token, logprob| {
        let bytes = vocabulary.piece(token).to_vec();
        TokenLogprob { token, bytes, logprob }
    };
    Logprobs {
        chosen: named(chosen, ranked.chosen),
        top: ranked.top.into_iter().map(|(token, logprob)| named(token, logprob)).collect(),
    }
}
