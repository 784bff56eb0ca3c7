//! Samples the tokens of an answer from the logits of a micro-batch, sends them, and ends the answer.
//!
//! - `Started` is sent once, before the first token, also of an answer that gives up its cells meanwhile.
//! - What is sampled and not computed when the answer ends is the slot's tail, so that the next turn finds the whole
//!   answer hot.

use std::time::Instant;

use hob_slots::Token;
use hob_slots::evict::AnswerEnd;

use super::choose::choose;
use super::delivery::Delivery;
use super::running::{Phase, Running};
use super::{Core, Worker};
use crate::grammar::Constraint;
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

impl Worker<'_> {
    /// The slot's prompt is computed: samples the first token from `row`.
    pub(super) fn begin_answer(&mut self, index: usize, row: usize) {
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
        } else if turn.is_over_at(vocabulary.piece(token)) {
            Some(FinishReason::Time)
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
            FinishReason::Length | FinishReason::Time => AnswerEnd::Unknown,
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
