//! Events and the time in, actions and the next wake-up out.
//!
//! - The planner parks a conversation once, after `idle_after` without a turn in it; never one with
//!   a queued or running turn. Of several that are due, the longest idle is parked first.
//! - Once a model is loaded the planner warms each profile's prefix, one at a time, and a changed
//!   profile's again. It retries failures after growing pauses, and leaves a prefix to the turn
//!   that computes it.
//! - It touches warm prefixes in rounds, see [`keepalive`](crate::keepalive). A turn cancels a
//!   touch, and a touch does not count as a use.
//! - Every five minutes at most, the use of a prefix by turns is written into its saved record, so
//!   that a prefix in daily use does not expire.
//! - It unloads the weights after `unload_after` without any turn, if that is set, and warms no
//!   prefix while they are unloaded.
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
use crate::name::ProfileName;
use crate::prefix::{TokenOrigins, TrackedPrefix};
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
    /// A turn was queued or began.
    TurnStarted {
        conversation: ConversationId,
    },
    /// A started turn finished, failed or was cancelled.
    TurnEnded {
        conversation: ConversationId,
    },
    /// The conversation is no longer hot, or was deleted.
    Forgotten {
        conversation: ConversationId,
    },
    /// A model is loaded, with no KV yet. Its profiles are in order of importance.
    ModelReady {
        profiles: Vec<ProfileName>,
    },
    /// The engine has unloaded the weights and all hot KV.
    ModelUnloaded,
    /// The engine has refused [`Action::Unload`], because of a turn.
    UnloadRefused,
    /// A profile is new, or its prefix has changed.
    ProfileChanged {
        profile: ProfileName,
    },
    ProfileRemoved {
        profile: ProfileName,
    },
    /// [`Action::Warm`] or [`Action::Touch`] has succeeded.
    PrefixDone {
        profile: ProfileName,
        from: TokenOrigins,
    },
    /// [`Action::Warm`] or [`Action::Touch`] has failed.
    PrefixFailed {
        profile: ProfileName,
        reason: String,
    },
    /// A turn began with a profile's prefix.
    Used {
        profile: ProfileName,
    },
    /// The power supply, read before each [`Planner::wake`] on machines with a battery.
    Battery(Battery),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Move the conversation's KV from the sequences to memory and disk.
    Park(ConversationId),
    /// Prefill or restore the profile's prefix; report [`Event::PrefixDone`] or
    /// [`Event::PrefixFailed`].
    Warm(ProfileName),
    /// The same at the lowest priority, of a prefix that is probably hot.
    Touch(ProfileName),
    /// Write the time of use into the saved record of the profile's prefix.
    Renew(ProfileName),
    /// Save all KV and unload the weights, unless a turn runs; report [`Event::ModelUnloaded`] or
    /// [`Event::UnloadRefused`].
    Unload,
    /// Cancel the running [`Action::Warm`] or [`Action::Touch`], without a report.
    Cancel(ProfileName),
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
                self.withdraw(&conversation);
                self.parking.turn_started(conversation);
                self.unload.active(now);
                self.cancel(Some(Job::Touch));
            }
            Event::TurnEnded { conversation } => {
                self.withdraw(&conversation);
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
            Event::ModelReady { profiles } => {
                self.cancel(None);
                self.unload.model_ready(now);
                self.prefixes.reset(profiles, now);
            }
            Event::ModelUnloaded => {
                self.cancel(None);
                self.prefixes.all_cold(now);
                self.unload.model_unloaded();
            }
            Event::UnloadRefused => self.unload.active(now),
            Event::ProfileChanged { profile } => {
                self.cancel_for(&profile);
                self.prefixes.want(profile, now);
            }
            Event::ProfileRemoved { profile } => {
                self.cancel_for(&profile);
                self.prefixes.remove(&profile);
            }
            Event::PrefixDone { profile, from } => self.prefixes.done(&profile, from, now),
            Event::PrefixFailed { profile, reason } => self.prefixes.fail(&profile, reason, now),
            Event::Used { profile } => {
                if self.prefixes.renew_due(&profile, now) {
                    self.actions.push_back(Action::Renew(profile.clone()));
                }
                if self.prefixes.used(&profile, now) {
                    self.cancel_for(&profile);
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

    /// Each profile's prefix, by name.
    pub fn prefixes(&self) -> impl Iterator<Item = (&ProfileName, TrackedPrefix)> {
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
        if let Some((profile, job)) = self.prefixes.start(now, idle) {
            self.actions.push_back(match job {
                Job::Warm => Action::Warm(profile),
                Job::Touch => Action::Touch(profile),
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

    fn cancel_for(&mut self, profile: &ProfileName) {
        if self.prefixes.is_running(profile) {
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
