//! Keeps the cells of idle conversations from slowing what is computed beside them.
//!
//! - On a processor, llama.cpp's attention reads the mask of every cell up to the last used one, for
//!   each row, head and layer. In the shape of Qwen2.5-0.5B, an idle cell costs 0.13 µs a row, and its
//!   way back from memory 3 µs (docs/MEASUREMENTS.md). llama-server does the same before a prompt by
//!   default (`--cache-idle-slots`).
//! - For a single row, llama.cpp divides the cells up to the last used one among its threads. Where idle cells
//!   have one thread's part, it has nothing to do: each token of an answer of 1,700 tokens beside another
//!   such conversation took 11 % longer.
//! - Which conversation returns when is unknown: its cells stay until they have cost their way back, so that
//!   the sum is at most twice the least possible one. The rows of a turn that runs alone are known, and count
//!   before they are computed: what it restores comes into cells that others have left.
//! - Only what is saved, and wholly in memory, is parked: that copies nothing, and the next turn
//!   restores it exactly.
//! - An answer that has outlived its neighbours has cells behind those that they have left. It is gathered
//!   in front, a piece between two tokens.
//! - Prewarmed prefixes stay: the next prompts begin with them.

use std::ops::Range;
use std::time::Instant;

use tracing::warn;

use super::Worker;
use super::admit::Waiting;
use super::cell_numbers::CellNumbers;
use super::plan::Plan;
use crate::backend::StateError;
use crate::map::EvictionReason;
use crate::splice;
use crate::turn::TurnError;

/// An idle cell that as many rows were computed beside has cost its way back.
const MAX_ROWS_BESIDE: usize = 24;

/// Fewer cells are not worth a restore. Cells that running turns share do not count.
const MIN_IDLE_CELLS: usize = 128;

/// Cells that are moved between two tokens. One takes 5 µs in the shape of Qwen2.5-0.5B.
const MAX_GATHERED: usize = 256;

/// An answer with fewer tokens left gains less than moving its cells takes.
const MIN_TOKENS_LEFT: usize = 16;

impl Worker<'_> {
    /// Before anything of the turn in slot `index` is restored or computed.
    pub(super) fn park_before(&mut self, index: usize) {
        if self.running().as_slice() == [index] {
            self.park_idle(self.rows_ahead(index));
        }
    }

    /// `plan`: computed next.
    pub(super) fn park_beside(&mut self, plan: &Plan) {
        match *self.running().as_slice() {
            [] => {} // No caller waits for a micro-batch of tails alone.
            [alone] => self.park_idle(self.rows_ahead(alone).max(plan.rows.len())),
            _ => self.park_idle(plan.rows.len()),
        }
    }

    /// Rows that the slot's turn may still need. Those of a background turn, which yields to any other, count
    /// as they are computed.
    fn rows_ahead(&self, index: usize) -> usize {
        let Some(turn) = self.slots[index].turn.as_ref().filter(|_| !self.is_background(index))
        else {
            return 0;
        };
        let answer = turn.request.max_tokens.saturating_sub(turn.generated);
        self.tokens_left(index).saturating_add(answer)
    }

    /// Parks idle conversations for `ahead` rows of others that are computed next.
    fn park_idle(&mut self, ahead: usize) {
        if !self.is_plain() {
            return;
        }
        for index in 0..self.core.options.slots {
            let slot = &self.slots[index];
            if slot.turn.is_some() || slot.rows_beside.saturating_add(ahead) < MAX_ROWS_BESIDE {
                continue;
            }
            let Some(conversation) = slot.conversation().cloned() else { continue };
            let waits = |it: &Waiting| it.conversation() == Some(&conversation);
            if !self.queue.iter().any(waits) && self.is_parked_for_nothing(index) {
                self.core.counters.parked += 1;
                self.park(&conversation, EvictionReason::Beside);
            } else {
                self.slots[index].rows_beside = 0; // It is looked at again after as many rows.
            }
        }
    }

    /// Whether parking the slot's conversation copies nothing, and frees enough cells.
    fn is_parked_for_nothing(&self, index: usize) -> bool {
        let slot = &self.slots[index];
        slot.is_savable()
            && !slot.will_need_record()
            && !slot.is_speculative()
            && slot.tail.is_empty()
            && self.cells_beside_turns(index) >= MIN_IDLE_CELLS
            && self.core.tiers.index().tokens_of(slot.timeline.blocks()).0 == slot.timeline.len()
    }

    /// The slot's cells that no running turn shares.
    fn cells_beside_turns(&self, index: usize) -> usize {
        let running =
            || self.slots.iter().filter(|slot| slot.turn.is_some()).map(|slot| &slot.cells);
        let own = &self.slots[index].cells;
        CellNumbers::count(running().chain([own])) - CellNumbers::count(running())
    }

    /// `rows` were computed.
    pub(super) fn count_rows_beside(&mut self, rows: usize) {
        for slot in &mut self.slots {
            slot.rows_beside = if slot.turn.is_some() { 0 } else { slot.rows_beside + rows };
        }
    }

    /// Whether other conversations have cells that the slot does not share.
    pub(super) fn has_neighbours(&self, index: usize) -> bool {
        let own = &self.slots[index].cells;
        let others = self.slots[..self.core.options.slots].iter().map(|slot| &slot.cells);
        CellNumbers::count(others.chain([own])) - own.len() >= MIN_IDLE_CELLS
    }

    /// Moves a piece of a single answer's cells into those that others have left.
    pub(super) fn gather(&mut self) {
        let [alone] = *self.running().as_slice() else { return };
        let Some(range) = self.scattered_piece(alone) else { return };
        let began = Instant::now();
        self.slots[alone].scattered_from =
            (range.end < self.slots[alone].timeline.len()).then_some(range.end);
        if let Err(error) = self.move_cells(alone, range) {
            warn!(%error, "cells are lost that were moved");
            self.fail_turn(alone, TurnError::Backend(error.to_string()));
            self.log_eviction(alone, 0, EvictionReason::Failed);
            self.clear(alone);
        }
        self.count_keeping(began);
    }

    /// The first piece of the slot's cells that were computed or imported beside others', where those are gone
    /// and enough of the answer is left. Cells that other slots share stay.
    fn scattered_piece(&self, index: usize) -> Option<Range<usize>> {
        let slot = &self.slots[index];
        let turn = slot.turn.as_ref().filter(|_| slot.is_decoding() && self.is_plain())?;
        if turn.request.max_tokens.saturating_sub(turn.generated) < MIN_TOKENS_LEFT {
            return None;
        }
        let from = slot.scattered_from.filter(|_| !self.has_neighbours(index))?;
        let others = self.slots.iter().filter(|other| other.id != slot.id);
        let shared = others.map(|other| slot.cells.shared_end(&other.cells)).max();
        let from = from.max(shared.unwrap_or(0));
        let run = slot.cells.runs_within(from..slot.timeline.len()).into_iter().next()?;
        let positions = run.positions();
        Some(positions.start..positions.end.min(positions.start + MAX_GATHERED))
    }

    /// llama.cpp takes the first free cells after some were removed.
    ///
    /// # Errors
    /// [`StateError`]: the slot has lost these cells, unless they could not be exported.
    fn move_cells(&mut self, index: usize, range: Range<usize>) -> Result<(), StateError> {
        let (scratch, sequence) = (self.scratch(), self.slots[index].sequence);
        let buffer = self.core.tiers.spare_buffer();
        let exported = splice::export(self.backend, scratch, sequence, range.clone(), buffer);
        let Ok(state) = exported else { return Ok(()) };
        self.backend.remove(sequence, range.clone())?;
        splice::import(self.backend, scratch, sequence, &state, &range, range.clone())?;
        self.core.counters.gathered_tokens += range.len() as u64;
        self.renumber(index, range);
        Ok(())
    }
}
