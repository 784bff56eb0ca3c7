//! Events and the time in, actions and the next wake-up out.
//!
//! - The planner parks a conversation once, after `idle_after` without a turn in it; never one with
//!   a queued or running turn. Of several that are due, the longest idle is parked first.
//! - Once a model is loaded the planner warms each prefix, one at a time, and a changed one
//!   again. It retries failures after growing pauses, and leaves a prefix to the turn
//!   that computes it.
//! - It touches warm prefixes in rounds, see [`keepalive`](crate::keepalive). A turn cancels a
//!   touch, and a touch does not count as a use.
//! - Every five minutes at most, the use of a prefix by turns is written into its saved record, so
//!   that a prefix in daily use does not expire.
//! - It unloads the weights after `unload_after` without any turn, if that is set, or after the time
//!   that a request asked for. It warms no prefix while they are unloaded. Turns without a conversation
//!   and embeddings count as turns.
//! - When the clock steps back, idle times restart from there: nothing is due early, and no
//!   conversation stays hot forever.
//! - The same events at the same times always lead to the same actions.

mod parking;
mod prefixes;
mod unload;

use std::collections::VecDeque;
use std::time::Duration;

use hob_slots::{ConversationId, Timestamp};

use crate::keepalive::{Battery, Keepalive, Rounds};
use crate::prefix::{PrefixName, TokenOrigins, TrackedPrefix};
use parking::Parking;
use prefixes::{Job, Prefixes};
use unload::Unload;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How long a conversation stays hot after its last turn.
    pub idle_after: Duration,
    pub keepalive: Keepalive,
    /// How long the model's weights stay in memory after the last turn; `None`: forever.
    pub unload_after: Option<Duration>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            idle_after: Duration::from_secs(5 * 60),
            keepalive: Keepalive::default(),
            unload_after: None,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Until the weights are unloaded the next time, they stay for this time and not for
    /// `unload_after`; `None`: for `unload_after`.
    StayLoaded(Option<StayLoaded>),
    /// A turn was queued or began; `None`: one without a conversation, or an embedding.
    TurnStarted {
        conversation: Option<ConversationId>,
    },
    /// A started turn finished, failed or was cancelled.
    TurnEnded {
        conversation: Option<ConversationId>,
    },
    /// The conversation is no longer hot, or was deleted.
    Forgotten {
        conversation: ConversationId,
    },
    /// A model is loaded, with no KV yet. Its prefixes are in order of importance.
    ModelReady {
        prefixes: Vec<PrefixName>,
    },
    /// The engine has unloaded the weights and all hot KV.
    ModelUnloaded,
    /// The engine has refused [`Action::Unload`], because of a turn.
    UnloadRefused,
    /// A prefix is new, or it has changed.
    PrefixChanged {
        prefix: PrefixName,
    },
    PrefixRemoved {
        prefix: PrefixName,
    },
    /// [`Action::Warm`] or [`Action::Touch`] has succeeded.
    PrefixDone {
        prefix: PrefixName,
        from: TokenOrigins,
    },
    /// [`Action::Warm`] or [`Action::Touch`] has failed.
    PrefixFailed {
        prefix: PrefixName,
        reason: String,
    },
    /// A turn began with the prefix.
    Used {
        prefix: PrefixName,
    },
    /// The power supply, read before each [`Planner::wake`] on machines with a battery.
    Battery(Battery),
}

/// How long the weights stay in memory after the last turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StayLoaded {
    Forever,
    For(Duration),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Move the conversation's KV from the sequences to memory and disk.
    Park(ConversationId),
    /// Prefill or restore the prefix; report [`Event::PrefixDone`] or
    /// [`Event::PrefixFailed`].
    Warm(PrefixName),
    /// Touches a prefix that is probably hot, at the lowest priority.
    Touch(PrefixName),
    /// Write the time of use into the saved record of the prefix.
    Renew(PrefixName),
    /// Save all KV and unload the weights, unless a turn runs; report [`Event::ModelUnloaded`] or
    /// [`Event::UnloadRefused`].
    Unload,
    /// Cancel the running [`Action::Warm`] or [`Action::Touch`], without a report.
    Cancel(PrefixName),
}

/// Tracks hot conversations, prefixes and idle times.
#[derive(Debug)]
pub struct Planner {
    parking: Parking,
    prefixes: Prefixes,
    rounds: Rounds,
    unload: Unload,
    actions: VecDeque<Action>,
    last_now: Timestamp,
}

impl Planner {
    pub fn new(settings: Settings) -> Self {
        Self {
            parking: Parking::new(settings.idle_after),
            prefixes: Prefixes::default(),
            rounds: Rounds::new(settings.keepalive),
            unload: Unload::new(settings.unload_after),
            actions: VecDeque::new(),
            last_now: Timestamp(0),
        }
    }

    /// Records `event`, which happened `now`, and plans.
    pub fn handle(&mut self, event: Event, now: Timestamp) {
        self.observe_clock(now);
        match event {
            Event::TurnStarted { conversation } => {
                conversation.iter().for_each(|conversation| self.withdraw(conversation));
                self.parking.turn_started(conversation);
                self.unload.active(now);
                self.cancel(Some(Job::Touch));
            }
            Event::TurnEnded { conversation } => {
                conversation.iter().for_each(|conversation| self.withdraw(conversation));
                self.parking.turn_ended(conversation, now);
                self.unload.active(now);
                if !self.parking.has_active_turns() {
                    self.prefixes.turns_ended(now);
                }
            }
            Event::Forgotten { conversation } => {
                self.withdraw(&conversation);
                self.parking.forget(&conversation);
            }
            Event::ModelReady { prefixes } => {
                self.cancel(None);
                self.unload.model_ready(now);
                self.prefixes.reset(prefixes, now);
            }
            Event::ModelUnloaded => {
                self.cancel(None);
                self.prefixes.all_cold(now);
                self.unload.model_unloaded();
            }
            Event::UnloadRefused => self.unload.refused(now),
            Event::StayLoaded(stay) => self.unload.stay(stay),
            Event::PrefixChanged { prefix } => {
                self.cancel_for(&prefix);
                self.prefixes.want(prefix, now);
            }
            Event::PrefixRemoved { prefix } => {
                self.cancel_for(&prefix);
                self.prefixes.remove(&prefix);
            }
            Event::PrefixDone { prefix, from } => self.prefixes.done(&prefix, from, now),
            Event::PrefixFailed { prefix, reason } => self.prefixes.fail(&prefix, reason, now),
            Event::Used { prefix } => {
                if self.prefixes.renew_due(&prefix, now) {
                    self.actions.push_back(Action::Renew(prefix.clone()));
                }
                if self.prefixes.used(&prefix, now) {
                    self.cancel_for(&prefix);
                }
            }
            Event::Battery(battery) => {
                self.rounds.observe(battery);
                if self.rounds.saves_battery() {
                    self.prefixes.request_touches(|_| false);
                }
            }
        }
        self.plan(now);
    }

    /// Plans; the caller calls it at [`Planner::next_wake`].
    pub fn wake(&mut self, now: Timestamp) {
        self.observe_clock(now);
        self.plan(now);
    }

    /// The next action; the caller drains them before waiting again.
    pub fn next_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// When something will be due without an event; `None` while nothing will.
    pub fn next_wake(&self) -> Option<Timestamp> {
        let (mut retry, mut unload) = (None, None);
        if !self.unload.is_unloading_or_unloaded() {
            (retry, unload) = (self.prefixes.next_wake(), self.next_unload());
        }
        [self.parking.next_wake(), retry, unload, self.next_round()].into_iter().flatten().min()
    }

    /// When the weights are unloaded, if no turn begins before.
    pub fn unload_at(&self) -> Option<Timestamp> {
        self.unload.next_wake()
    }

    pub fn prefixes(&self) -> impl Iterator<Item = (&PrefixName, TrackedPrefix)> {
        self.prefixes.list()
    }

    fn observe_clock(&mut self, now: Timestamp) {
        if now < self.last_now {
            self.parking.clock_stepped_back(now);
            self.prefixes.clock_stepped_back(now);
            self.rounds.clock_stepped_back(now);
            self.unload.clock_stepped_back(now);
        }
        self.last_now = now;
    }

    fn plan(&mut self, now: Timestamp) {
        self.actions.extend(self.parking.take_due(now).into_iter().map(Action::Park));
        if self.next_unload().is_some() && self.unload.take_due(now) {
            self.cancel(None);
            self.actions.push_back(Action::Unload);
        }
        if self.unload.is_unloading_or_unloaded() {
            return;
        }
        if self.next_round().is_some_and(|round| round <= now) {
            let needs_touch = self.rounds.begin(now);
            self.prefixes.request_touches(needs_touch);
        }
        let idle = !self.parking.has_active_turns();
        if let Some((prefix, job)) = self.prefixes.start(now, idle) {
            self.actions.push_back(match job {
                Job::Warm => Action::Warm(prefix),
                Job::Touch => Action::Touch(prefix),
            });
        }
    }

    /// `None` during turns: the end of the last one plans again.
    fn next_unload(&self) -> Option<Timestamp> {
        self.unload.next_wake().filter(|_| !self.parking.has_active_turns())
    }

    /// `None` during a round or a turn: their end plans again.
    fn next_round(&self) -> Option<Timestamp> {
        let waits = self.unload.is_unloading_or_unloaded() || self.prefixes.has_open_round();
        if waits || self.parking.has_active_turns() {
            return None;
        }
        self.rounds.next(self.prefixes.touched())
    }

    fn cancel(&mut self, job: Option<Job>) {
        self.actions.extend(self.prefixes.stop(job).map(Action::Cancel));
    }

    fn cancel_for(&mut self, prefix: &PrefixName) {
        if self.prefixes.is_running(prefix) {
            self.cancel(None);
        }
    }

    /// Drops the pending park of a conversation with a new turn, or of a deleted one.
    fn withdraw(&mut self, conversation: &ConversationId) {
        self.actions.retain(|action| !matches!(action, Action::Park(id) if id == conversation));
    }
}

#[cfg(test)]
mod tests;
