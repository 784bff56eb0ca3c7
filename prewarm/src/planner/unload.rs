//! Decides when to unload the model's weights.
//!
//! - The planner asks for it once no turn has begun or ended for `unload_after`. Prewarmed prefixes
//!   do not hold the weights in memory: their KV is on disk too.
//! - A request may ask for another time. It counts until the weights are unloaded, or the engine refuses
//!   that.
//! - The engine reloads the weights for the next request, and reports it.

use std::time::Duration;

use hob_slots::Timestamp;

use super::StayLoaded;

#[derive(Debug)]
pub(super) struct Unload {
    unload_after: Option<Duration>,
    /// In place of `unload_after`.
    asked: Option<StayLoaded>,
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
        Self { unload_after, asked: None, state: State::Unknown }
    }

    pub(super) fn model_ready(&mut self, now: Timestamp) {
        self.state = State::Idle { since: now };
    }

    pub(super) fn stay(&mut self, asked: Option<StayLoaded>) {
        self.asked = asked;
    }

    pub(super) fn model_unloaded(&mut self) {
        self.asked = None;
        self.state = State::Unloaded;
    }

    /// The engine has refused to unload. Asked for again at once, it would refuse again.
    pub(super) fn refused(&mut self, now: Timestamp) {
        self.asked = None;
        self.active(now);
    }

    /// A turn has begun or ended.
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
            State::Idle { since } => Some(since.after(self.time()?)),
            State::Unknown | State::Unloading | State::Unloaded => None,
        }
    }

    /// `None`: they stay.
    fn time(&self) -> Option<Duration> {
        match self.asked {
            Some(StayLoaded::Forever) => None,
            Some(StayLoaded::For(time)) => Some(time),
            None => self.unload_after,
        }
    }
}
