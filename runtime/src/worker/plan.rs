//! Chooses the rows of the next micro-batch.
//!
//! - All rows have the adapters that were chosen before, see `adapters`.
//! - Order of rows: the next tokens of every running answer; then prompts, by purpose, and among
//!   equals the one with the fewest tokens left first; then, when no prompt may have rows, the tails of
//!   finished answers that their callers have passed on, see `delivery`.
//! - A prompt that [`MAX_PASSED_OVER`] micro-batches have passed over is first in the next one, so
//!   that shorter ones cannot starve it.
//! - A prompt takes no rows while a prompt before it computes the very tokens that it needs next:
//!   it shares their cells afterwards, see `follow`.
//! - Beside a prompt that ends in this micro-batch, only prompts that end in it, too, have rows: a few rows of a long
//!   one would cost more time than they save it, and the reader of the short one waits for them.
//! - The prompt of an answer that nothing else is computed beside gets a long micro-batch, the
//!   longest where the backend can cut it; see `pace`.
//! - A prompt beside answers gets more rows where they hardly take longer, see `tile`.
//! - A speculative prefill has no rows while an answer's prompt is computed; a prewarm has none
//!   while an answer waits or runs. An answer that waits for the disk takes rows from neither.

use std::ops::Range;

use hob_slots::Token;

use super::Worker;
use super::slot::Slot;
use crate::backend::Row;
use crate::draft::Draft;
use crate::turn::Purpose;

/// How many micro-batches in a row may begin with other prompts of equal purpose.
const MAX_PASSED_OVER: u32 = 7;

/// A prompt that ends in more rows than this ends in a micro-batch of [`LAST_ROWS`], where memory
/// cannot drop its newest rows: "regenerate" computes the last micro-batch again.
const MAX_REGENERATED: usize = 128;

/// With so few, a micro-batch computes a row about as fast as with many (112 of 129 tokens/s on two
/// cores).
const LAST_ROWS: usize = 32;

/// The rows of a micro-batch, and whose they are.
#[derive(Default)]
pub(super) struct Plan {
    pub rows: Vec<Row>,
    pub shares: Vec<Share>,
    /// Nothing is computed beside an answer's prompt: the micro-batch may be long, and is cut where the
    /// backend can.
    pub is_alone: bool,
    /// Its last rows, which are no conversation's, see `tile`.
    pub fillers: usize,
    /// It has answers' rows and no prompt's.
    pub only_answers: bool,
}

/// The next tokens of a running answer.
pub(super) struct Next {
    pub slot: usize,
    /// They were sampled and are to be computed; the last is the newest.
    pub sampled: Vec<Token>,
    /// What may follow them.
    pub draft: Draft,
    /// Tokens of the draft that are computed with it.
    pub drafted: usize,
}

/// A slot's rows in a micro-batch.
pub(super) struct Share {
    pub slot: usize,
    pub tokens: Vec<Token>,
    /// The rows whose logits give the next tokens: of an answer those from its newest token on, of a
    /// prompt's end the last.
    pub sampled_rows: Range<usize>,
    /// For an answer: what may follow its newest token. `tokens` has the part of it that is computed.
    pub draft: Draft,
}

impl Plan {
    /// Adds `tokens` behind the slot's cells. The last `sampled` of them want logits.
    pub fn add(&mut self, slot: &Slot, index: usize, tokens: &[Token], sampled: usize) {
        let start = slot.timeline.len();
        self.rows.extend(tokens.iter().enumerate().map(|(offset, &token)| Row {
            token,
            position: start + offset,
            sequence: slot.sequence,
            wants_logits: offset + sampled >= tokens.len(),
        }));
        let sampled_rows = self.rows.len() - sampled..self.rows.len();
        let (tokens, draft) = (tokens.to_vec(), Draft::default());
        self.shares.push(Share { slot: index, tokens, sampled_rows, draft });
    }

    fn add_answer(&mut self, slot: &Slot, next: Next) {
        let Next { slot: index, sampled, draft, drafted } = next;
        let tokens = [&sampled, &draft.tokens[..drafted]].concat();
        self.add(slot, index, &tokens, 1 + drafted);
        self.shares.last_mut().expect("it was added").draft = draft;
    }
}

impl Worker<'_> {
    /// `nexts`: of the running answers.
    pub(super) fn plan(&self, nexts: Vec<Next>) -> Plan {
        let mut plan = Plan::default();
        let limit = self.core.options.max_rows();
        for next in nexts {
            plan.add_answer(&self.slots[next.slot], next);
        }
        let mut prompts = self.prompts_in_order();
        prompts.retain(|&index| self.is_current(index) && !self.slots[index].is_stalled());
        plan.is_alone = plan.rows.is_empty() && self.is_alone(&prompts);
        let pace = &self.core.pace;
        let rows = match prompts.first() {
            Some(&alone) if plan.is_alone => self.rows_alone(alone),
            Some(&first) => {
                self.rows_filling(&plan, first, pace.prompt_rows_beside(plan.shares.len()))
            }
            None => 0,
        };
        let mut budget = rows.min(limit.saturating_sub(plan.rows.len()));
        let mut computed: Vec<usize> = Vec::new();
        let mut first_ends = false;
        for index in prompts {
            if computed.iter().any(|&leader| self.follows(index, leader)) {
                continue;
            }
            let within = self.rows_within_budget(index).min(self.rows_before_chunk(index));
            let within = within.min(self.rows_before_parting(index));
            let max_rows = budget.min(self.row_budget(index)).min(within);
            let slot = &self.slots[index];
            let turn = slot.turn.as_ref().expect("prefilling slots have turns");
            let (prompt, from) = (&turn.request.prompt, slot.timeline.len());
            let to = prompt.len().min(from + max_rows);
            let is_whole = to == prompt.len();
            if to > from && (is_whole || !first_ends) {
                first_ends |= computed.is_empty() && is_whole;
                plan.add(slot, index, &prompt[from..to], usize::from(is_whole));
                budget -= to - from;
                computed.push(index);
            }
        }
        plan.only_answers = !plan.rows.is_empty() && computed.is_empty();
        // A prompt that waits for the disk, or that yields to an answer, does not make the tails wait: the thread would
        // not sleep meanwhile.
        if !self.prompts_wait() {
            for (index, slot) in self.slots.iter().enumerate() {
                let tail = slot.pending_tail();
                let fits = plan.rows.len() + tail.len() <= limit;
                let is_due = !tail.is_empty() && !slot.is_delivering();
                if is_due && self.is_current(index) && fits {
                    plan.add(slot, index, tail, 0);
                }
            }
        }
        plan
    }

    /// Rows of the next micro-batch of the slot's prompt, which is computed alone.
    fn rows_alone(&self, index: usize) -> usize {
        let left = self.tokens_left(index);
        let pace = &self.core.pace;
        let can_cut = self.backend.can_interrupt();
        let rows = if can_cut { pace.rows_alone(left) } else { pace.rows_alone_uncut(left) };
        let can_drop = self.core.model.facts().memory.can_drop_newest();
        let is_long_end = rows == left && left > MAX_REGENERATED;
        if !can_drop && is_long_end { left - LAST_ROWS } else { rows }
    }

    /// Whether the first of `prompts` is an answer's, and no other would have rows or restores.
    fn is_alone(&self, prompts: &[usize]) -> bool {
        let Some((&first, others)) = prompts.split_first() else { return false };
        let may_join = |&index: &usize| self.row_budget(index) > 0 && !self.follows(index, first);
        !self.is_background(first)
            && !others.iter().any(may_join)
            && !self.others_wait()
            && !self.slots.iter().any(Slot::is_restoring)
    }

    /// Slots whose prompts are to be computed, the most urgent first.
    pub(super) fn prompts_in_order(&self) -> Vec<usize> {
        let all = 0..self.slots.len();
        let mut prompts: Vec<usize> =
            all.filter(|&index| self.slots[index].is_prefilling()).collect();
        prompts.sort_by_cached_key(|&index| self.urgency(index));
        prompts
    }

    /// Sorts prompts: the most urgent has the smallest. Of several that were passed over for too
    /// long, the first is the one that waits longest.
    fn urgency(&self, index: usize) -> Option<(Purpose, u32, usize, u64)> {
        let slot = &self.slots[index];
        let turn = slot.turn.as_ref()?;
        let overdue = turn.passed_over.saturating_sub(MAX_PASSED_OVER - 1);
        let left = self.tokens_left(index);
        Some((turn.request.purpose, u32::MAX - overdue, left, turn.number))
    }

    /// Tokens of the slot's prompt that are not in its cells.
    pub(super) fn tokens_left(&self, index: usize) -> usize {
        let slot = &self.slots[index];
        let turn = slot.turn.as_ref();
        turn.map_or(0, |turn| turn.request.prompt.len().saturating_sub(slot.timeline.len()))
    }

    /// A micro-batch was computed: its first prompt, and those that share its cells, were not
    /// passed over.
    pub(super) fn count_passed_over(&mut self, plan: &Plan) {
        let mut prompts = self.prompts_in_order();
        prompts.retain(|&index| self.is_current(index));
        let is_first = |share: &&Share| prompts.contains(&share.slot);
        let Some(first) = plan.shares.iter().find(is_first).map(|share| share.slot) else { return };
        prompts.retain(|&index| index != first && !self.follows(index, first));
        for (index, slot) in self.slots.iter_mut().enumerate() {
            if let Some(turn) = &mut slot.turn {
                let is_passed_over = prompts.contains(&index);
                turn.passed_over = if is_passed_over { turn.passed_over + 1 } else { 0 };
            }
        }
    }
}
