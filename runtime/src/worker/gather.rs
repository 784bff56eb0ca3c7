//! Gathers the cells of an answer that has outlived others in those that they have left.
//!
//! - For a single row, llama.cpp divides the cells up to the last used one among its threads, see `beside`: an
//!   answer whose cells all lie in one thread's part keeps the others idle.
//!   A device has no such parts, and gathers nothing.
//! - llama.cpp tells no cell's place. Cells that were computed or imported while other conversations had some
//!   may lie behind theirs, and those alone are moved, once, after the others have gone.
//! - A piece is exported and imported between two tokens: nothing is rounded.

use std::ops::Range;
use std::time::Instant;

use tracing::warn;

use super::Worker;
use super::beside::MIN_IDLE_CELLS;
use super::cell_numbers::CellNumbers;
use crate::backend::StateError;
use crate::splice;

/// Cells that are moved between two tokens. One takes 2 µs in the shape of Qwen2.5-0.5B (docs/MEASUREMENTS.md).
const MAX_GATHERED: usize = 256;

/// An answer with fewer tokens left gains less than moving its cells takes.
const MIN_TOKENS_LEFT: usize = 16;

impl Worker<'_> {
    /// Whether other conversations have cells that the slot does not share.
    pub(super) fn has_neighbours(&self, index: usize) -> bool {
        let slot = &self.slots[index];
        let slots = self.slots[..self.core.options.slots].iter();
        let others = slots.filter(|other| other.id != slot.id).map(|other| &other.cells);
        // Most often there are none, which needs no look at which cells are shared.
        others.clone().map(CellNumbers::len).sum::<usize>() >= MIN_IDLE_CELLS
            && CellNumbers::count(others.chain([&slot.cells])) - slot.cells.len() >= MIN_IDLE_CELLS
    }

    /// Moves a piece of a single answer's cells into those that others have left.
    pub(super) fn gather(&mut self) {
        if self.kv_on_devices {
            return;
        }
        let [alone] = *self.running().as_slice() else { return };
        let Some(range) = self.scattered_piece(alone) else { return };
        let began = Instant::now();
        self.slots[alone].scattered_from =
            (range.end < self.slots[alone].timeline.len()).then_some(range.end);
        if let Err(error) = self.move_cells(alone, range) {
            warn!(%error, "cells are lost that were moved");
            self.fail_slot(alone, &error.to_string());
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
        let stretch = slot.cells.first_stretch(from..slot.timeline.len())?;
        Some(stretch.start..stretch.end.min(stretch.start + MAX_GATHERED))
    }

    /// llama.cpp takes the first free cells after some were removed.
    ///
    /// # Errors
    /// [`StateError`]: the slot has lost these cells, unless they could not be exported.
    fn move_cells(&mut self, index: usize, range: Range<usize>) -> Result<(), StateError> {
        let (scratch, sequence) = (self.scratch(), self.slots[index].sequence);
        let exported = splice::export(self.backend, scratch, sequence, range.clone(), Vec::new());
        let Ok(state) = exported else { return Ok(()) };
        self.backend.remove(sequence, range.clone())?;
        splice::import(self.backend, scratch, sequence, &state, &range, range.clone())?;
        self.core.counters.gathered_tokens += range.len() as u64;
        self.renumber(index, range);
        Ok(())
    }
}
