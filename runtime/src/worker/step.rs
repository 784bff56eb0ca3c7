//! One micro-batch, and the tokens that come of it.
//!
//! - Order of rows: the next token of every running answer, then prompts in the order in which
//!   their turns came, then, when no prompt waits, the ends of finished answers.
//! - What is computed before anybody asks gets no row while a prompt of somebody who waits has any,
//!   and what is only kept warm none while anybody waits or is answered.
//! - A micro-batch is computed whole or not at all; a turn's timeline grows only after it was.
//! - Where memory is not plain, a snapshot is taken just before a prompt's last token, so that
//!   "regenerate" computes one token.

use std::time::Instant;

use hob_slots::Token;
use hob_slots::evict::{Ended, Run};
use tracing::warn;

use super::Worker;
use super::slot::{Phase, Running, Slot};
use crate::backend::{DecodeError, Row};
use crate::engine::conversation_tokens;
use crate::grammar::Constraint;
use crate::map::{EvictionReason, Origin, Origins};
use crate::miss::MissReason;
use crate::pace::Pace;
use crate::sample::{self, Pushed};
use crate::turn::{FinishReason, Logprobs, TokenLogprob, TurnError, TurnEvent};
use crate::vocabulary::Vocabulary;

/// What a slot has in a micro-batch.
struct Share {
    slot: usize,
    tokens: Vec<Token>,
    /// The row whose logits give the next token.
    sampled_row: Option<usize>,
}

impl Worker<'_> {
    /// Computes one micro-batch, if there is anything to compute. Returns whether prompts wait for
    /// the next one.
    pub(super) fn step(&mut self) -> bool {
        let (rows, shares) = self.plan_batch();
        if rows.is_empty() {
            return false;
        }
        let began = Instant::now();
        match self.backend.decode(&rows) {
            Ok(()) => {
                self.pace.observe(rows.len(), began.elapsed());
                self.commit(&shares);
            }
            Err(DecodeError::NoRoom { .. }) => self.relieve(),
            Err(DecodeError::Failed(reason)) => self.fail(&shares, &reason),
        }
        self.prompts_in_order().into_iter().any(|index| self.is_served(index))
    }

    fn plan_batch(&self) -> (Vec<Row>, Vec<Share>) {
        let mut rows = Vec::new();
        let mut shares = Vec::new();
        let limit = self.options.micro_batch.min(self.options.context_tokens);
        for (index, slot) in self.slots.iter().enumerate() {
            if let Some(Running { phase: Phase::Decoding(token), .. }) = slot.turn {
                self.add(&mut rows, &mut shares, index, &[token], true);
            }
        }
        let mut budget = self.pace.rows().min(limit.saturating_sub(rows.len()));
        for index in self.prompts_in_order() {
            let most = budget.min(self.rows_of(index));
            let slot = &self.slots[index];
            let turn = slot.turn.as_ref().expect("prefilling slots have turns");
            let (prompt, from) = (&turn.request.prompt, slot.timeline.len());
            // Memories that are not plain stop once before the last token, for a snapshot.
            let keeps = !self.is_plain() && !turn.anonymous;
            let stops_early = keeps && from + 1 < prompt.len();
            let target = prompt.len() - usize::from(stops_early);
            let to = target.min(from + most);
            if to > from {
                let wants_logits = to == prompt.len();
                self.add(&mut rows, &mut shares, index, &prompt[from..to], wants_logits);
                budget -= to - from;
            }
        }
        if !self.slots.iter().any(Slot::prefills) {
            for (index, slot) in self.slots.iter().enumerate() {
                if slot.turn.is_none() && !slot.tail.is_empty() && rows.len() < limit {
                    self.add(&mut rows, &mut shares, index, &slot.tail, false);
                }
            }
        }
        (rows, shares)
    }

    fn prompts_in_order(&self) -> Vec<usize> {
        let mut prompts: Vec<usize> =
            (0..self.slots.len()).filter(|&index| self.slots[index].prefills()).collect();
        prompts.sort_by_key(|&index| self.order_of_service(index));
        prompts
    }

    fn add(
        &self,
        rows: &mut Vec<Row>,
        shares: &mut Vec<Share>,
        index: usize,
        tokens: &[Token],
        wants_logits: bool,
    ) {
        let slot = &self.slots[index];
        let start = slot.timeline.len();
        rows.extend(tokens.iter().enumerate().map(|(offset, &token)| Row {
            token,
            position: start + offset,
            sequence: slot.sequence,
            wants_logits: wants_logits && offset + 1 == tokens.len(),
        }));
        let sampled_row = wants_logits.then(|| rows.len() - 1);
        shares.push(Share { slot: index, tokens: tokens.to_vec(), sampled_row });
    }

    /// The rows are in the cache: timelines grow, and whoever reached its prompt's end answers.
    fn commit(&mut self, shares: &[Share]) {
        for share in shares {
            let prompts = self.slots[share.slot].prefills();
            let origin = if prompts { Origin::Computed } else { Origin::Generated };
            self.extend(share.slot, &share.tokens, &Origins::of(share.tokens.len(), origin));
            let slot = &mut self.slots[share.slot];
            if slot.turn.is_none() {
                slot.tail.clear();
                continue;
            }
            if slot.prefills() {
                self.counters.computed_tokens += share.tokens.len() as u64;
                self.snapshot_before_last(share.slot);
            }
            if let Some(row) = share.sampled_row {
                self.answer(share.slot, row);
            }
        }
    }

    /// Computes the end of a finished answer by itself: its slot is about to be left.
    pub(super) fn compute_tail(&mut self, index: usize) {
        let tail = std::mem::take(&mut self.slots[index].tail);
        if tail.is_empty() {
            return;
        }
        let (mut rows, mut shares) = (Vec::new(), Vec::new());
        self.add(&mut rows, &mut shares, index, &tail, false);
        // Without room the next turn computes it: it costs a token, nothing is lost.
        if self.backend.decode(&rows).is_ok() {
            self.extend(index, &tail, &Origins::of(tail.len(), Origin::Generated));
        }
    }

    /// Samples the next token of the slot's turn from `row` and tells the caller.
    fn answer(&mut self, index: usize, row: usize) {
        let slot = &mut self.slots[index];
        let turn = slot.turn.as_mut().expect("only turns want logits");
        start(turn, &self.pace);
        if turn.request.purpose.is_background() {
            return self.prewarmed(index);
        }
        if turn.request.max_tokens == 0 {
            return self.finish(index, FinishReason::Length, None);
        }
        let vocabulary = self.model.vocabulary();
        let raw = self.backend.logits(row);
        self.logits.clear();
        self.logits.extend_from_slice(raw);
        if turn.request.ignore_eog {
            for eog in vocabulary.eog_tokens() {
                self.logits[eog.0.unsigned_abs() as usize] = f32::NEG_INFINITY;
            }
        }
        let masked = match &mut turn.constraint {
            Some(constraint) => constraint.mask(&mut self.logits),
            None => Ok(()),
        };
        let chosen = masked.map_err(|error| error.to_string()).and_then(|()| {
            turn.sampler.choose(&mut self.logits).ok_or_else(|| "nothing is left".to_owned())
        });
        let accepted = chosen.and_then(|token| {
            let constraint = turn.constraint.as_mut();
            let accepted = constraint.map_or(Ok(()), |constraint| constraint.accept(token));
            accepted.map(|()| token).map_err(|error| error.to_string())
        });
        let token = match accepted {
            Ok(token) => token,
            Err(reason) => return self.refuse(index, TurnError::Grammar(reason)),
        };
        turn.sampler.accept(token);
        turn.generated += 1;
        self.counters.generated_tokens += 1;
        let logprobs = turn.request.logprobs.map(|count| {
            // The model's own: `self.logits` went through a grammar.
            named_logprobs(self.backend.logits(row), token, count, vocabulary)
        });
        let ends = vocabulary.is_eog(token) && !turn.request.ignore_eog;
        let complete = turn.constraint.as_ref().is_some_and(Constraint::must_stop);
        let pushed =
            if ends { Pushed::default() } else { turn.output.push(vocabulary.piece(token)) };
        let stopped = pushed.stopped;
        // An error: the caller went away; `drop_cancelled` ends the turn.
        turn.events.send(TurnEvent::Token { token, text: pushed.text, logprobs }).ok();
        turn.phase = Phase::Decoding(token);
        let most = conversation_tokens(&self.options, self.model.facts());
        let full = slot.timeline.len() + 1 >= most;
        if ends || stopped || complete {
            self.finish(index, FinishReason::Stop, Some(token));
        } else if full || turn.generated >= turn.request.max_tokens {
            self.finish(index, FinishReason::Length, Some(token));
        }
    }

    /// Tells the caller that the answer is complete. `last` is sampled and not yet computed: it is
    /// when nobody waits, so that the next turn finds the whole answer in place.
    pub(super) fn finish(&mut self, index: usize, reason: FinishReason, last: Option<Token>) {
        let ended = match reason {
            FinishReason::Stop => Ended::Turn,
            FinishReason::Length => Ended::Unknown,
        };
        let answered = Run { ended, ..self.used(index).run };
        let slot = &mut self.slots[index];
        slot.answered = answered;
        let turn = slot.turn.as_mut().expect("a turn finishes once");
        let timeline = slot.timeline.tokens().iter().copied().chain(last).collect();
        let finished = TurnEvent::Finished {
            reason,
            text: turn.output.finish(),
            completion_tokens: turn.generated,
            timeline,
        };
        turn.events.send(finished).ok(); // An error: the caller went away.
        self.counters.turns += 1;
        let most = conversation_tokens(&self.options, self.model.facts());
        let room = slot.timeline.len() < most;
        slot.tail = last.filter(|_| room).into_iter().collect();
        self.end_turn(index);
    }

    /// Ends one turn with an error.
    pub(super) fn refuse(&mut self, index: usize, error: TurnError) {
        let turn = self.slots[index].turn.as_ref().expect("a turn fails once");
        turn.events.send(TurnEvent::Failed(error)).ok(); // An error: the caller went away.
        self.counters.failed += 1;
        self.end_turn(index);
    }

    /// The batch failed and llama.cpp does not say whose row it was: everyone in it starts afresh.
    fn fail(&mut self, shares: &[Share], reason: &str) {
        warn!(reason, "micro-batch failed");
        for share in shares {
            if self.slots[share.slot].turn.is_some() {
                self.refuse(share.slot, TurnError::Backend(reason.to_owned()));
            }
            self.leaves(share.slot, 0, EvictionReason::Failed);
            self.clear(share.slot);
            self.slots[share.slot].tail.clear();
        }
    }
}

/// The prompt is computed: completes the report and sends it, once.
pub(super) fn start(turn: &mut Running, pace: &Pace) {
    if std::mem::replace(&mut turn.started, true) {
        return;
    }
    let prompt = turn.request.prompt.len();
    let tokens = &mut turn.report.tokens;
    tokens.computed = prompt - tokens.cached();
    if turn.report.miss.is_none() && tokens.cached() < turn.expected.min(prompt - 1) {
        turn.report.miss = Some(MissReason::NotKept { from: tokens.cached() });
    }
    if tokens.computed <= 1 {
        turn.report.miss = None; // What it needs was found, maybe in another conversation.
    }
    turn.report.ttft_ms = turn.submitted.elapsed().as_secs_f64() * 1e3;
    turn.report.cold = turn.request.cold;
    turn.report.prefill_tokens_per_second = pace.rows_per_second();
    // An error: the caller went away; `drop_cancelled` ends the turn.
    turn.events.send(TurnEvent::Started(turn.report.clone())).ok();
}

fn named_logprobs(
    logits: &[f32],
    chosen: Token,
    count: usize,
    vocabulary: &Vocabulary,
) -> Logprobs {
    let ranked = sample::logprobs(logits, chosen, count);
    let named = |token: Token, logprob| {
        let bytes = vocabulary.piece(token).to_vec();
        TokenLogprob { token, bytes, logprob }
    };
    Logprobs {
        chosen: named(chosen, ranked.chosen),
        top: ranked.top.into_iter().map(|(token, logprob)| named(token, logprob)).collect(),
    }
}
