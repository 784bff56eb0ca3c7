//! Computes the heads of moved chunks that stand right behind each other, in one micro-batch.
//!
//! - Such chunks are imported whole. Then each head is computed in a sequence of its own, which shares the
//!   cells before it, and takes the place of the one that was moved. A micro-batch of many rows takes less time
//!   a row than one of few.
//! - A head attends to all before it, but to the other heads of this micro-batch as they were moved. Its view names
//!   that. A head right behind pure tokens is pure.
//! - Nothing else of the turn is computed before its heads, and no block is saved from the first one on. A turn
//!   that ends or is preempted before drops the chunks again, also while one arrives.

use std::ops::Range;
use std::time::Instant;

use super::Worker;
use super::plan::Plan;
use crate::backend::{DecodeError, Row, Sequence};

impl Worker<'_> {
    /// Computes heads of the most urgent prompt that has some to be computed. Returns how many rows.
    pub(super) fn compute_heads(&mut self) -> usize {
        let Some(index) = self.next_with_heads() else { return 0 };
        let slot = &self.slots[index];
        if !slot.cells.away(slot.timeline.len()).is_empty() {
            self.drop_headless(index); // Blocks have left meanwhile.
            return 0;
        }
        let mut plan = self.plan_heads(index);
        if plan.rows.len() > self.free_cells() {
            self.relieve();
            return 0;
        }
        let slot = &mut self.slots[index];
        slot.peak = slot.peak.max(slot.cells.len() + plan.rows.len());
        let heads = plan.rows.chunk_by(|one, next| one.sequence == next.sequence);
        let heads: Vec<_> = heads
            .map(|rows| (rows[0].position..rows[0].position + rows.len(), rows[0].sequence))
            .collect();
        let own = self.slots[index].sequence;
        for (range, sequence) in &heads {
            if range.start > 0 {
                self.backend.share(own, *sequence, 0..range.start);
            }
        }
        let seen = plan.rows.iter().map(|row| row.position).sum();
        let cells = heads.last().map_or(0, |(range, _)| range.end);
        self.add_fillers(&mut plan, seen, cells);
        let began = Instant::now();
        let decoded =
            if plan.is_alone { self.decode_alone(&plan) } else { self.backend.decode(&plan.rows) };
        self.drop_fillers(&mut plan);
        let is_first = self.current.is_new;
        self.count_micro_batch();
        if decoded.is_err() {
            heads.iter().for_each(|(_, sequence)| self.backend.clear(*sequence));
        }
        match decoded {
            Ok(()) => {
                if !is_first {
                    self.core.pace.observe(plan.rows.len(), began.elapsed());
                }
                let last = heads.last().cloned();
                let growth = last.and_then(|(head, from)| self.growth(index, &head, from));
                self.replace(index, &heads);
                self.count_heads(index, heads.len(), plan.rows.len(), growth);
                plan.rows.len()
            }
            Err(DecodeError::Interrupted) => {
                self.count_cut([index], began);
                0
            }
            Err(DecodeError::NoRoom { .. }) => {
                self.relieve();
                0
            }
            Err(DecodeError::Failed(_)) => {
                self.drop_headless(index); // What is wrong shows when its tokens are computed.
                0
            }
        }
    }

    /// The most urgent prompt with heads that may be computed now.
    fn next_with_heads(&self) -> Option<usize> {
        let waits = |index: usize| {
            self.slots[index].turn.as_ref().is_some_and(|turn| !turn.heads.is_empty())
        };
        if !(0..self.slots.len()).any(waits) {
            return None; // As in most steps: no need to order the prompts.
        }
        let is_next = |&index: &usize| {
            let is_stalled = self.slots[index].is_stalled();
            waits(index) && self.is_current(index) && !is_stalled && self.row_budget(index) > 0
        };
        self.prompts_in_order().into_iter().find(is_next)
    }

    /// Plans as many heads as a micro-batch, the rest of the conversation's budget and the rest of the cache beside
    /// other turns allow, one at least. For more, blocks of the conversation would leave, and its chunks with them. Of
    /// heads that [grow](super::growth), one.
    fn plan_heads(&self, index: usize) -> Plan {
        let turn = self.slots[index].turn.as_ref().expect("it has heads");
        let is_alone = self.backend.can_interrupt() && self.running().len() == 1;
        let max_rows = self.core.options.max_rows();
        // A caller that arrives meanwhile interrupts it.
        let most = if is_alone { max_rows } else { self.core.pace.rows().min(max_rows) };
        let most = most.min(self.room_left(index));
        let mut plan = Plan { is_alone, ..Plan::default() };
        let together = if self.grows_above(index).is_some() { 1 } else { usize::MAX };
        for (head, sequence) in turn.heads.iter().zip(self.head_sequences()).take(together) {
            if !plan.rows.is_empty() && plan.rows.len() + head.len() > most {
                break;
            }
            plan.rows.extend(head.clone().map(|position| Row {
                token: turn.request.prompt[position],
                position,
                sequence,
                wants_logits: false,
            }));
        }
        plan
    }

    /// The first heads of the slot's turn were computed. `growth`: what is computed behind the last one of them.
    fn count_heads(
        &mut self,
        index: usize,
        heads: usize,
        rows: usize,
        growth: Option<Range<usize>>,
    ) {
        let turn = self.slots[index].turn.as_mut().expect("it has heads");
        turn.heads.splice(..heads, growth);
        turn.report.tokens.moved -= rows;
        turn.report.tokens.repaired += rows;
        self.core.counters.computed_tokens += rows as u64;
        self.report_progress(index);
    }

    /// Drops the slot's chunks whose heads were not computed yet, a part of one that still arrives, and all behind
    /// them.
    pub(super) fn drop_headless(&mut self, index: usize) {
        let slot = &mut self.slots[index];
        let Some(turn) = slot.turn.as_mut() else { return };
        let Some(start) = turn.headless_from() else { return };
        turn.heads.clear();
        let dropped = slot.timeline.len().saturating_sub(start);
        turn.report.tokens.moved = turn.report.tokens.moved.saturating_sub(dropped);
        self.cut_back(index, start);
    }

    /// Sequences of heads; empty between two calls.
    pub(super) fn head_sequences(&self) -> impl Iterator<Item = Sequence> + use<> {
        let first = self.scratch().0 + 1; // Such a memory marks no running state.
        let heads = self.core.options.heads(self.core.model.facts());
        (first..).take(heads).map(Sequence)
    }
}
