//! Chooses the adapter set of the next micro-batch.
//!
//! - A micro-batch has rows of one adapter set: llama.cpp adds adapters to a context, not to rows.
//! - Sets take turns: while another set waits, a set has [`MAX_IN_A_ROW`] micro-batches, and the next set is the
//!   one that was served least recently. So no set starves.
//! - The rows of an answer come before those of other purposes, whatever the set.

use hob_slots::BlockId;
use tracing::warn;

use super::Worker;
use super::slot::Slot;
use crate::adapters::Adapters;
use crate::turn::{Purpose, TurnError};

/// Micro-batches of one set while another one waits: a switch makes llama.cpp plan its graph anew.
const MAX_IN_A_ROW: u32 = 4;

/// The adapters of the context.
#[derive(Default)]
pub(super) struct Current {
    adapters: Adapters,
    /// Micro-batches since the switch to them.
    in_a_row: u32,
    /// No micro-batch was computed since the switch to them.
    pub is_new: bool,
    /// Micro-batches since the start, with any adapters.
    micro_batches: u64,
}

impl Worker<'_> {
    /// Gives the context the adapters of the next micro-batch. Turns whose adapters cannot be used fail.
    pub(super) fn choose_adapters(&mut self) {
        while let Some(index) = self.next_served() {
            let adapters = self.slots[index].adapters.clone();
            match self.use_adapters(&adapters) {
                Ok(()) => return,
                Err(error) => self.fail_all_with(&adapters, &error),
            }
        }
    }

    /// Whether the slot's rows may be in the next micro-batch.
    pub(super) fn is_current(&self, index: usize) -> bool {
        self.slots[index].adapters.set() == self.current.adapters.set()
    }

    /// Whether a slot with other adapters has something to compute.
    pub(super) fn others_wait(&self) -> bool {
        (0..self.slots.len()).any(|index| !self.is_current(index) && self.would_compute(index))
    }

    /// Makes the context compute with `adapters`.
    pub(super) fn use_adapters(&mut self, adapters: &Adapters) -> Result<(), TurnError> {
        if adapters.set() != self.current.adapters.set() {
            let set = self.backend.set_adapters(adapters);
            set.map_err(|error| TurnError::Adapter(error.to_string()))?;
            self.current.adapters = adapters.clone();
            self.current.in_a_row = 0;
            self.current.is_new = true;
        }
        Ok(())
    }

    /// A micro-batch of the current set was computed or tried.
    pub(super) fn count_micro_batch(&mut self) {
        self.current.is_new = false;
        self.current.in_a_row = self.current.in_a_row.saturating_add(1);
        self.current.micro_batches += 1;
        for index in 0..self.slots.len() {
            if self.is_current(index) {
                self.slots[index].served = self.current.micro_batches;
            }
        }
    }

    /// A slot of the adapter set that is computed next.
    fn next_served(&self) -> Option<usize> {
        // A tail has no purpose, and comes last.
        let rank = |index: usize| {
            let purpose = self.slots[index].turn.as_ref().map(|turn| turn.request.purpose);
            (purpose.is_none(), purpose.unwrap_or(Purpose::KeepAlive))
        };
        let ready = || (0..self.slots.len()).filter(|&index| self.would_compute(index));
        let first = ready().map(rank).min()?;
        let mut eligible = ready().filter(|&index| rank(index) == first);
        let current = eligible.clone().find(|&index| self.is_current(index));
        let others = eligible.clone().filter(|&index| !self.is_current(index));
        let least = others.min_by_key(|&index| self.served(self.slots[index].root()));
        match (current, least) {
            (Some(current), Some(_)) if self.current.in_a_row < MAX_IN_A_ROW => Some(current),
            (_, Some(least)) => Some(least),
            (current, None) => current.or_else(|| eligible.next()),
        }
    }

    /// The last micro-batch of a slot with this root.
    fn served(&self, root: BlockId) -> u64 {
        let alike = self.slots.iter().filter(|slot| slot.root() == root && slot.turn.is_some());
        alike.map(|slot| slot.served).max().unwrap_or(0)
    }

    fn fail_all_with(&mut self, adapters: &Adapters, error: &TurnError) {
        warn!(%error, "the adapters cannot be used");
        let has_them = |slot: &Slot| slot.adapters.set() == adapters.set();
        for index in 0..self.slots.len() {
            if has_them(&self.slots[index]) {
                self.slots[index].tail.clear();
                if self.slots[index].turn.is_some() && !self.slots[index].is_restoring() {
                    self.fail_turn(index, error.clone());
                }
            }
        }
    }
}
