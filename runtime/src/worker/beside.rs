//! Parks idle conversations whose cells slow what is computed beside them.
//!
//! - On a processor, llama.cpp's attention reads the mask of every cell up to the last used one, for
//!   each row, head and layer. In the shape of Qwen2.5-0.5B, an idle cell costs 0.13 µs a row, and its
//!   way back from memory 3 µs (docs/MEASUREMENTS.md). llama-server does the same before a prompt by
//!   default (`--cache-idle-slots`).
//! - For a single row, llama.cpp divides the cells up to the last used one among its threads. Where idle cells
//!   have one thread's part, it has nothing to do: each token of an answer of 1,700 tokens beside another
//!   such conversation took 11 % longer.
//! - A device divides no cells among threads. On an H100, in the shape of Qwen2.5-7B, an idle cell costs 0.04 µs
//!   a row, and its way back 16 µs.
//! - Which conversation returns when is unknown: its cells stay until they have cost their way back, so that
//!   the sum is at most twice the least possible one. The rows of a turn that runs alone are known, and count
//!   before they are computed: what it restores comes into cells that others have left.
//! - Only what is saved, and wholly in memory, is parked: that copies nothing, and the next turn
//!   restores it exactly.
//! - Prewarmed prefixes stay: the next prompts begin with them.

use super::Worker;
use super::cell_numbers::CellNumbers;
use super::plan::Plan;
use super::waiting::Waiting;
use crate::map::EvictionReason;

/// An idle cell that as many rows were computed beside has cost its way back.
const MAX_ROWS_BESIDE: usize = 24;

/// The limit of [`MAX_ROWS_BESIDE`] for a cell on a device.
const MAX_ROWS_ON_DEVICE: usize = 512;

/// Fewer cells are not worth a restore. Cells that running turns share do not count.
pub(super) const MIN_IDLE_CELLS: usize = 128;

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
        let max_rows = if self.kv_on_devices { MAX_ROWS_ON_DEVICE } else { MAX_ROWS_BESIDE };
        for index in 0..self.core.options.slots {
            let slot = &self.slots[index];
            if slot.turn.is_some() || !slot.beside.has_reached(max_rows, ahead) {
                continue;
            }
            let Some(conversation) = slot.conversation().cloned() else { continue };
            // Any copy of a hint may be the one that its turn takes.
            let waits =
                |it: &Waiting| it.conversation().is_some_and(|id| conversation.is_copy_of(id));
            if self.queue.iter().any(waits) || !self.is_worth_parking(index) {
                continue;
            }
            if self.is_in_memory(index) {
                self.core.counters.parked += 1;
                self.park(&conversation, EvictionReason::Beside);
            } else {
                self.slots[index].beside.look_again_after(max_rows);
            }
        }
    }

    /// Whether the slot's conversation is saved, and parking it frees enough cells.
    fn is_worth_parking(&self, index: usize) -> bool {
        let slot = &self.slots[index];
        slot.is_savable()
            && !slot.will_need_record()
            && !slot.save.is_speculative()
            && slot.tail.is_empty()
            && self.cells_beside_turns(index) >= MIN_IDLE_CELLS
    }

    /// Whether parking copies nothing, and the way back reads no disk.
    fn is_in_memory(&self, index: usize) -> bool {
        let timeline = &self.slots[index].timeline;
        self.core.tiers.index().tokens_of(timeline.blocks()).0 == timeline.len()
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
            slot.beside.count(rows, slot.turn.is_some());
        }
    }
}
