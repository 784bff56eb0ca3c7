//! Decides when to unload the model's weights.
//!
//! - The planner asks for it once no turn has begun or ended for `unload_after`. Prewarmed prefixes
//!   do not hold the weights in memory: their KV is on disk too.
//! - The engine reloads the weights for the next request, and reports it.

use std::time::Duration;

use hob_slots::Timestamp;

#[derive(Debug)]
pub(super) struct Unload {
    unload_after: Option<Duration>,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// No event has reported a model.
    Unknown,
    Idle {
        since: Timestamp,
    },
    /// The planner has asked the engine to unload.
    Unloading,
    Unloaded,
}

impl Unload {
    pub(super) fn new(unload_after: Option<Duration>) -> Self {
        Self { unload_after, state: State::Unknown }
    }

    pub(super) fn model_ready(&mut self, now: Timestamp) {
        self.state = State::Idle { since: now };
    }

    pub(super) fn model_unloaded(&mut self) {
        self.state = State::Unloaded;
    }

    /// A turn has begun or ended, or the engine has refused to unload because of one.
    pub(super) fn active(&mut self, now: Timestamp) {
        if matches!(self.state, State::Idle { .. } | State::Unloading) {
            self.state = State::Idle { since: now };
        }
    }

    /// Whether the engine cannot warm prefixes, because its weights are gone or leaving.
    pub(super) fn is_unloading_or_unloaded(&self) -> bool {
        matches!(self.state, State::Unloading | State::Unloaded)
    }

    pub(super) fn clock_stepped_back(&mut self, now: Timestamp) {
        if let State::Idle { since } = &mut self.state {
            *since = now.min(*since);
        }
    }

    /// Whether to unload now. Returns true once.
    pub(super) fn take_due(&mut self, now: Timestamp) -> bool {
        let due = self.next_wake().is_some_and(|due| due <= now);
        if due {
            self.state = State::Unloading;
        }
        due
    }

    pub(super) fn next_wake(&self) -> Option<Timestamp> {
        match self.state {
            State::Idle { since } => Some(since.after(self.unload_after?)),
            State::Unknown | State::Unloading | State::Unloaded => None,
        }
    }
}
