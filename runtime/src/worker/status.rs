//! The figures of the engine and its slots, and the tokens of a free slot. Reading them changes nothing.

use std::sync::atomic::Ordering;

use hob_slots::{SlotId, Token};

use super::{Core, Worker};
use crate::status::{EngineCounters, EngineStatus, LossyStatus, SlotState, SlotStatus};

impl Worker<'_> {
    pub(super) fn status(&self) -> EngineStatus {
        let base = base_status(&self.core);
        let drafter = self.drafter.as_ref();
        let mut slots = self.slots.iter().map(|slot| SlotStatus {
            slot: slot.id,
            conversation: slot.conversation().cloned(),
            adapters: slot.adapters.clone(),
            tokens: slot.timeline.len(),
            away_tokens: slot.timeline.len().saturating_sub(slot.cells.len()),
            state: slot.state(),
        });
        let slots_of_conversations = slots.by_ref().take(self.core.options.slots).collect();
        EngineStatus {
            slots: slots_of_conversations,
            prefixes: slots.collect(),
            waiting: self.queue.len(),
            used_tokens: self.used_tokens(),
            draft_model: drafter.map(|drafter| drafter.core.counters).or(base.draft_model),
            ..base
        }
    }

    /// What an anonymous turn has left in the cells of a slot: nothing while a turn runs there, if it has outgrown
    /// them, or if it must not reach the disk.
    pub(super) fn unnamed_tokens(&self, id: SlotId) -> Vec<Token> {
        let mut slots = self.slots.iter().take(self.core.options.slots);
        let slot = slots.find(|slot| slot.id == id);
        let slot = slot.filter(|slot| slot.state() == SlotState::Free && slot.owner.is_none());
        let slot = slot.filter(|slot| !slot.save.in_memory);
        slot.map_or(Vec::new(), |slot| slot.timeline.tokens().to_vec())
    }
}

/// The status fields that need no context.
pub(super) fn base_status(core: &Core) -> EngineStatus {
    let (memory_bytes, memory_budget_bytes) = core.tiers.memory_bytes();
    let (unsaved_bytes, unsaved_budget_bytes) = core.tiers.unsaved_bytes();
    let disk = core.tiers.counters();
    EngineStatus {
        context_tokens: core.options.context_tokens,
        memory_bytes,
        memory_budget_bytes,
        unsaved_bytes,
        unsaved_budget_bytes,
        memory: core.tiers.memory_figures(),
        prefill_tokens_per_second: core.pace.rows_per_second(),
        draft_model: core.drafter.as_ref().map(|drafter| drafter.counters),
        draft_failure: core.draft_failure.clone(),
        mtp: core.mtp_status(),
        lossy: core.options.lossy.map(|tier| LossyStatus { tier, refused: unrounded(core) }),
        counters: EngineCounters {
            written_bytes: disk.written_bytes.load(Ordering::Relaxed),
            read_bytes: disk.read_bytes.load(Ordering::Relaxed),
            write_errors: disk.write_errors.load(Ordering::Relaxed),
            rejected_files: disk.rejected.load(Ordering::Relaxed),
            lost_blocks: disk.lost_blocks.load(Ordering::Relaxed),
            longest_lock_micros: disk.longest_lock_micros.load(Ordering::Relaxed),
            tier_panics: disk.panics.load(Ordering::Relaxed),
            read_ahead_bytes: disk.read_ahead_bytes.load(Ordering::Relaxed),
            indexed_ahead: disk.indexed_ahead.load(Ordering::Relaxed),
            indexed_late: disk.indexed_late.load(Ordering::Relaxed),
            embedded: disk.embedded.load(Ordering::Relaxed),
            ..core.counters
        },
        ..EngineStatus::default()
    }
}

/// Why no KV is rounded.
fn unrounded(core: &Core) -> Option<String> {
    let memory = core.model.facts().memory;
    if !memory.is_plain() {
        return Some(format!("the model has a {memory} memory, whose KV stays exact"));
    }
    let unknown = core.tiers.counters().unknown_layouts.load(Ordering::Relaxed) > 0;
    unknown.then(|| "the model's KV has a layout that is not known, and stays exact".to_owned())
}
