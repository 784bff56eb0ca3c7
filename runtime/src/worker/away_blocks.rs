//! What a slot has in memory of its conversation's blocks that are away.

use std::collections::HashSet;

use hob_slots::{BlockId, Timeline};

use crate::tiers::ReadAheadHandle;

#[derive(Default)]
pub(super) struct AwayBlocks {
    /// In memory alone, and the pool may not drop them: the caller of a method that removes some releases these in
    /// the tiers.
    held: Vec<BlockId>,
    /// Reads to memory what the owner may ask for next.
    reads_ahead: Option<ReadAheadHandle>,
}

impl AwayBlocks {
    /// Memory holds the block from here on.
    pub fn hold(&mut self, id: BlockId) {
        self.held.push(id);
    }

    /// The block has cells again. Returns whether memory held it.
    pub fn remove(&mut self, id: BlockId) -> bool {
        let held = self.held.iter().position(|held| *held == id);
        held.map(|at| self.held.swap_remove(at)).is_some()
    }

    /// Removes the held blocks that are no longer part of `timeline`.
    pub fn remove_cut_off(&mut self, timeline: &Timeline) -> Vec<BlockId> {
        if self.held.is_empty() {
            return Vec::new();
        }
        let left: HashSet<BlockId> = timeline.blocks().iter().map(|block| block.id).collect();
        let is_cut_off = |id: &BlockId| !left.contains(id);
        self.held.extract_if(.., |id| is_cut_off(id)).collect()
    }

    pub fn remove_all(&mut self) -> Vec<BlockId> {
        std::mem::take(&mut self.held)
    }

    /// Reads ahead until the next question, or until the owner leaves the slot.
    pub fn read_ahead(&mut self, handle: ReadAheadHandle) {
        self.reads_ahead = Some(handle);
    }

    pub fn stop_reading(&mut self) {
        self.reads_ahead = None;
    }
}
