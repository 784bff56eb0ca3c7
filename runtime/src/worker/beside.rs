//! Parks idle conversations whose cells slow what is computed beside them.
//!
//! - On a processor, llama.cpp's attention reads the mask of every cell up to the last used one, for
//!   each row, head and layer. In the shape of Qwen2.5-0.5B, an idle cell costs 0.13 µs a row, and its
//!   way back from memory 3 µs (docs/MEASUREMENTS.md). llama-server does the same before a prompt by
//!   default (`--cache-idle-slots`).
//! - Which conversation returns when is unknown: its cells stay until they have cost a multiple of
//!   their way back. The rows of a prompt that is alone are known, and count before they are computed.
//! - Only what is saved, and wholly in memory, is parked: that copies nothing, and the next turn
//!   restores it exactly.
//! - Prewarmed prefixes stay: the next prompts begin with them.

use super::Worker;
use super::cell_numbers::CellNumbers;
use super::plan::Plan;
use crate::map::EvictionReason;

/// An idle cell that as many rows were computed beside has cost five times its way back.
const MAX_ROWS_BESIDE: usize = 128;

/// Fewer cells are not worth a restore. Cells that running turns share do not count.
const MIN_IDLE_CELLS: usize = 256;

impl Worker<'_> {
    /// `plan`: computed next.
    pub(super) fn park_beside(&mut self, plan: &Plan) {
        let is_running = self.slots.iter().any(|slot| slot.turn.is_some());
        if !self.is_plain() || !is_running {
            return; // No caller waits for a micro-batch of tails alone.
        }
        let alone = plan.shares.first().filter(|_| plan.is_alone);
        let ahead = alone.map_or(plan.rows.len(), |prompt| self.tokens_left(prompt.slot));
        for index in 0..self.core.options.slots {
            let slot = &self.slots[index];
            if slot.turn.is_some() || slot.rows_beside + ahead < MAX_ROWS_BESIDE {
                continue;
            }
            let Some(conversation) = slot.conversation().cloned() else { continue };
            if self.is_parked_for_nothing(index) {
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
}
