//! Parks idle conversations before a long prompt is computed alone, because their cells slow it.
//!
//! - On a processor, llama.cpp's attention reads the mask of every cell up to the last used one, for
//!   each row, head and layer. In the shape of Qwen2.5-0.5B, an idle cell costs 0.13 µs a row, and its
//!   way back from memory 3 µs (docs/MEASUREMENTS.md). llama-server does the same by default
//!   (`--cache-idle-slots`).
//! - Only what is saved, and wholly in memory, is parked: that copies nothing, and the next turn
//!   restores it exactly.
//! - Prewarmed prefixes stay: the next prompts begin with them.

use hob_slots::ConversationId;

use super::Worker;
use super::cell_numbers::CellNumbers;
use super::plan::Plan;
use crate::map::EvictionReason;

/// A prompt is long from this many tokens on: idle cells cost it several times their way back.
const LONG_PROMPT: usize = 128;

/// Fewer cells are not worth a restore. Cells that the prompt shares do not count.
const MIN_IDLE_CELLS: usize = 256;

impl Worker<'_> {
    /// `plan`: computed next. Does nothing unless a long prompt is alone in it.
    pub(super) fn park_beside(&mut self, plan: &Plan) {
        let Some(prompt) = plan.shares.first().filter(|_| plan.is_alone) else { return };
        let running = prompt.slot;
        if self.tokens_left(running) < LONG_PROMPT || !self.is_plain() {
            return;
        }
        let idle = self.registry.idle(self.now()).map(|(conversation, _)| conversation.clone());
        for conversation in idle.collect::<Vec<_>>() {
            if self.is_parked_at_once(&conversation, running) {
                self.core.counters.parked += 1;
                self.park(&conversation, EvictionReason::Beside);
            }
        }
    }

    fn is_parked_at_once(&self, conversation: &ConversationId, running: usize) -> bool {
        let Some(slot) = self.registry.slot_of(conversation) else { return false };
        let index = slot.0 as usize;
        let slot = &self.slots[index];
        let tokens = slot.timeline.len();
        let running = &self.slots[running].cells;
        let beside = CellNumbers::count([running, &slot.cells].into_iter())
            - CellNumbers::count(std::iter::once(running));
        let is_saved = slot.is_savable() && !slot.will_need_record() && !slot.is_speculative();
        index < self.core.options.slots
            && beside >= MIN_IDLE_CELLS
            && is_saved
            && slot.tail.is_empty()
            && self.core.tiers.index().tokens_of(slot.timeline.blocks()).0 == tokens
    }
}
