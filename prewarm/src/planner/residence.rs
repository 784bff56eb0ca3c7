//! Whether the model's weights should stay in memory.
//!
//! - They leave when nobody has spoken for `unload_after`, prefixes included: what is kept warm for
//!   nobody is on disk too.
//! - Who speaks brings them back; the engine sees to that and tells.

use std::time::Duration;

use hob_slots::Timestamp;

#[derive(Debug)]
pub(super) struct Residence {
    unload_after: Option<Duration>,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Nobody has said that a model is there.
    Unknown,
    /// Since when nobody has spoken.
    Silent {
        since: Timestamp,
    },
    /// The engine was asked to let them go.
    Leaving,
    Away,
}

impl Residence {
    pub(super) fn new(unload_after: Option<Duration>) -> Self {
        Self { unload_after, state: State::Unknown }
    }

    pub(super) fn ready(&mut self, now: Timestamp) {
        self.state = State::Silent { since: now };
    }

    pub(super) fn unloaded(&mut self) {
        self.state = State::Away;
    }

    /// The engine answered that somebody speaks, or a turn has begun or ended.
    pub(super) fn heard(&mut self, now: Timestamp) {
        if matches!(self.state, State::Silent { .. } | State::Leaving) {
            self.state = State::Silent { since: now };
        }
    }

    /// Whether nothing can be made hot.
    pub(super) fn is_away(&self) -> bool {
        matches!(self.state, State::Leaving | State::Away)
    }

    pub(super) fn count_anew_from(&mut self, now: Timestamp) {
        if let State::Silent { since } = &mut self.state {
            *since = now.min(*since);
        }
    }

    /// Whether they should leave now; said once.
    pub(super) fn take_due(&mut self, now: Timestamp) -> bool {
        let due = self.next_wake().is_some_and(|due| due <= now);
        if due {
            self.state = State::Leaving;
        }
        due
    }

    pub(super) fn next_wake(&self) -> Option<Timestamp> {
        match self.state {
            State::Silent { since } => Some(since.after(self.unload_after?)),
            State::Unknown | State::Leaving | State::Away => None,
        }
    }
}
