//! Reports the use of KV to the eviction policy of memory: of every object of a request, wherever
//! its KV was, in the order of the prompt.
//!
//! - A request reports an object several times: before its prompt is computed, when its KV is
//!   exported, and when the answer has ended. The policy counts one use.
//! - What the policy learned is saved beside the KV every 32 requests and at the end, and read at
//!   the start. Without a usable file the policy starts with its prior.
//! - Nothing is saved of the draft model's: both models have one directory, whose file is of the uses of the
//!   model's KV.

use std::sync::atomic::Ordering;

use hob_slots::{BlockId, MemoryFigures, Use};
use tracing::warn;

use super::KvTiers;
use super::locked::LockedSteps;
use super::shared::Shared;

/// Requests between two writes of what was learned.
const SAVE_EVERY_RUNS: u64 = 32;

/// A block or a snapshot that a request uses.
#[derive(Clone, Copy, Debug)]
pub struct UsedObject {
    pub id: BlockId,
    /// The block before it, if any.
    pub parent: Option<BlockId>,
    /// A block's own tokens; for a snapshot, all tokens that it covers.
    pub tokens: usize,
}

impl KvTiers {
    /// A request uses these objects. They are in the order of the prompt.
    pub fn used(&self, objects: impl IntoIterator<Item = UsedObject>, usage: Use) {
        for UsedObject { id, parent, tokens } in objects {
            let known = self.shared.objects().get(&id).map_or(0, |known| known.file_bytes);
            let guessed = || self.shared.bytes_per_token.load(Ordering::Relaxed) * tokens as u64;
            let bytes = if known > 0 { known } else { guessed() };
            self.shared.pool().used(id, parent, bytes, usage);
        }
    }

    /// What the memory tier and its eviction policy did since the start.
    pub fn memory_figures(&self) -> MemoryFigures {
        self.shared.pool().figures()
    }
}

impl Shared {
    /// Saves what the policy has learned; `at_end`: also when it is little.
    pub fn save_history(&self, steps: &LockedSteps, at_end: bool) {
        let is_beside = self.is_beside.load(Ordering::Relaxed);
        let Some(store) = self.store.as_ref().filter(|_| !is_beside) else { return };
        let learned = steps.run(move |shared| {
            let pool = shared.pool();
            let runs = pool.figures().guard.map_or(0, |guard| guard.runs);
            let new = runs - shared.saved_runs.load(Ordering::Relaxed);
            let is_due = new >= SAVE_EVERY_RUNS || (new > 0 && at_end);
            is_due.then(|| (runs, pool.history()))
        });
        let Some((runs, history)) = learned else { return };
        self.saved_runs.store(runs, Ordering::Relaxed);
        let Some(history) = history else { return };
        if let Err(error) = store.write_eviction_history(&history) {
            warn!(%error, "what the eviction policy learned is not saved");
        }
    }
}
