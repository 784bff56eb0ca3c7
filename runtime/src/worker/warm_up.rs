//! Computes rows of no conversation on a device, so that no turn is the first to need its kernels.
//!
//! - There, the first micro-batch of each number of rows loads kernels and takes memory from the driver. A
//!   first prompt would wait for that, and would teach [`Pace`](crate::pace::Pace) a speed that is too low.
//! - Each number of rows is computed twice; the second time teaches the pace. The next number is twice as
//!   large, until one takes as long as an arrival may wait for a micro-batch.
//! - A micro-batch begins only while no turn runs or waits. The rows are in the scratch sequence.
//! - A driver that compiles kernels may take minutes for one: others read the status from before.
//! - Once a process: a context that is made again finds the kernels loaded. A model that has left its device is warmed
//!   up when it is back.

use std::time::Instant;

use hob_slots::Token;
use tracing::debug;

use super::Worker;
use crate::backend::{Model, Row};
use crate::options::EngineOptions;

/// Any of the vocabulary: what rows hold does not change their time.
const TOKEN: Token = Token(0);

/// What is left of the warm-up.
#[derive(Clone, Copy)]
pub(crate) struct WarmUp {
    /// Rows of the next micro-batch.
    rows: usize,
    /// A micro-batch of as many rows was computed once, so its kernels are loaded.
    is_loaded: bool,
}

impl WarmUp {
    /// `None`: the processor computes all layers, the model answers nothing, or no time is measured.
    pub(crate) fn of(model: &dyn Model, options: &EngineOptions) -> Option<Self> {
        let is_wanted = options.micro_batch_target.is_some()
            && model.facts().pooling.is_none()
            && model.offload().is_some();
        is_wanted.then_some(Self { rows: 1, is_loaded: false })
    }
}

impl Worker<'_> {
    /// Whether there is a micro-batch of the warm-up left, and nothing else to do.
    pub(super) fn may_warm_up(&self) -> bool {
        self.core.warm_up.is_some()
            && self.queue.is_empty()
            && self.running().is_empty()
            && self.core.model.offload().is_some()
    }

    /// Computes its next micro-batch.
    pub(super) fn warm_up(&mut self) {
        let Some(WarmUp { rows, is_loaded }) = self.core.warm_up.filter(|_| self.may_warm_up())
        else {
            return;
        };
        self.core.warm_up = None;
        if rows > self.core.options.max_rows().min(self.free_cells()) {
            return;
        }
        let sequence = self.scratch();
        let row =
            |position| Row { token: TOKEN, position, sequence, wants_logits: position + 1 == rows };
        *self.core.busy_status.lock() = Some(self.status());
        let began = Instant::now();
        let decoded = self.backend.decode(&(0..rows).map(row).collect::<Vec<_>>());
        let took = began.elapsed();
        *self.core.busy_status.lock() = None;
        self.backend.clear(sequence);
        debug!(rows, is_loaded, ?took, "rows of no conversation were computed");
        if let Err(error) = decoded {
            debug!(%error, "the device is not warmed up further");
            return;
        }
        if !is_loaded {
            self.core.warm_up = Some(WarmUp { rows, is_loaded: true });
            return;
        }
        self.core.pace.observe(rows, took);
        if self.core.options.micro_batch_target.is_some_and(|target| took < target) {
            self.core.warm_up = Some(WarmUp { rows: 2 * rows, is_loaded: false });
        }
    }
}
