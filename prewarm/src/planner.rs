//! Events and the time in, actions and the next wake-up out.
//!
//! - A conversation that nobody has spoken in for `idle_after` is parked, once; one with a turn
//!   running or queued never is. Those that are due together are parked in the order in which they
//!   fell silent.
//! - Once a model is resident each profile's prefix is made warm, one at a time; a changed profile's
//!   again. What failed is tried again after pauses that grow. What a turn computes is left to it.
//! - What is warm is kept warm, see [`keepalive`](crate::keepalive). A touch gives way to a turn,
//!   and counts as no use.
//! - The model's weights leave memory when nobody has spoken for long, if that is wanted; while they
//!   are away nothing is made warm.
//! - When the clock steps back nothing is due because of it: silence is counted anew from there,
//!   so nothing stays hot for good either.
//! - The same events at the same times always lead to the same actions.

mod parking;
mod prefixes;
mod residence;

use std::collections::VecDeque;
use std::time::Duration;

use hob_slots::{ConversationId, Timestamp};

use crate::keepalive::{Battery, Keepalive, Rounds};
use crate::name::ProfileName;
use crate::prefix::{Prefix, Sources};
use parking::Parking;
use prefixes::{Job, Prefixes};
use residence::Residence;

/// What the planner goes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How long a conversation stays hot after its last turn.
    pub idle_after: Duration,
    /// How prefixes are kept warm.
    pub keepalive: Keepalive,
    /// How long the model's weights stay in memory after the last turn; `None`: for ever.
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

/// What has happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A turn was queued or began.
    TurnStarted {
        /// Whose turn.
        conversation: ConversationId,
    },
    /// A turn that had started is over, however it ended.
    TurnEnded {
        /// Whose turn.
        conversation: ConversationId,
    },
    /// Nothing of the conversation is hot any longer, or it was deleted.
    Forgotten {
        /// Which one.
        conversation: ConversationId,
    },
    /// A model is resident, and nothing is hot in it yet.
    ModelReady {
        /// Whose prefixes should be warm, the most important first.
        profiles: Vec<ProfileName>,
    },
    /// The weights have left memory, and with them whatever was hot.
    ModelUnloaded,
    /// They stay, as somebody speaks.
    ModelStays,
    /// A profile is new, or its prefix is another one now.
    ProfileChanged {
        /// Which one.
        profile: ProfileName,
    },
    /// A profile is gone.
    ProfileRemoved {
        /// Which one.
        profile: ProfileName,
    },
    /// What [`Action::Warm`] or [`Action::Touch`] asked for is done.
    PrefixDone {
        /// Whose prefix.
        profile: ProfileName,
        /// Where its tokens came from.
        from: Sources,
    },
    /// What they asked for cannot be done now.
    PrefixFailed {
        /// Whose prefix.
        profile: ProfileName,
        /// What to tell.
        reason: String,
    },
    /// A turn began with a profile's prefix.
    Used {
        /// Whose prefix.
        profile: ProfileName,
    },
    /// What feeds the machine, read before each [`Planner::wake`] on machines with a battery.
    Battery(Battery),
}

/// What should happen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Move the conversation from the slots to memory and disk.
    Park(ConversationId),
    /// Make the profile's prefix hot, and tell when that is done or failed.
    Warm(ProfileName),
    /// The same at the lowest priority, of a prefix that is probably hot.
    Touch(ProfileName),
    /// Save everything and let the model's weights leave memory, unless somebody speaks; and tell
    /// which.
    Unload,
    /// Break off what [`Action::Warm`] or [`Action::Touch`] began. Nothing more is told of it.
    Cancel(ProfileName),
}

/// Knows what is hot, what should be, and since when it is silent.
#[derive(Debug)]
pub struct Planner {
    parking: Parking,
    prefixes: Prefixes,
    rounds: Rounds,
    residence: Residence,
    actions: VecDeque<Action>,
    // When the planner was last told the time.
    told: Timestamp,
}

impl Planner {
    /// A planner that knows of no conversation and no profile.
    pub fn new(settings: Settings) -> Self {
        Self {
            parking: Parking::new(settings.idle_after),
            prefixes: Prefixes::default(),
            rounds: Rounds::new(settings.keepalive),
            residence: Residence::new(settings.unload_after),
            actions: VecDeque::new(),
            told: Timestamp(0),
        }
    }

    /// Takes note of `event`, which happened `now`.
    pub fn handle(&mut self, event: Event, now: Timestamp) {
        self.read_clock(now);
        match event {
            Event::TurnStarted { conversation } => {
                self.withdraw(&conversation);
                self.parking.start(conversation);
                self.residence.heard(now);
                self.cancel(Some(Job::Touch));
            }
            Event::TurnEnded { conversation } => {
                self.withdraw(&conversation);
                self.parking.end(conversation, now);
                self.residence.heard(now);
                if !self.parking.somebody_speaks() {
                    self.prefixes.turns_are_over(now);
                }
            }
            Event::Forgotten { conversation } => {
                self.withdraw(&conversation);
                self.parking.forget(&conversation);
            }
            Event::ModelReady { profiles } => {
                self.cancel(None);
                self.residence.ready(now);
                self.prefixes.begin(profiles, now);
            }
            Event::ModelUnloaded => {
                self.cancel(None);
                self.prefixes.cool(now);
                self.residence.unloaded();
            }
            Event::ModelStays => self.residence.heard(now),
            Event::ProfileChanged { profile } => {
                self.cancel_that_of(&profile);
                self.prefixes.want(profile, now);
            }
            Event::ProfileRemoved { profile } => {
                self.cancel_that_of(&profile);
                self.prefixes.remove(&profile);
            }
            Event::PrefixDone { profile, from } => self.prefixes.done(&profile, from, now),
            Event::PrefixFailed { profile, reason } => self.prefixes.fail(&profile, reason, now),
            Event::Used { profile } => {
                if self.prefixes.used(&profile, now) {
                    self.cancel_that_of(&profile);
                }
            }
            Event::Battery(battery) => {
                self.rounds.feed(battery);
                if self.rounds.rest() {
                    self.prefixes.ask(|_| false);
                }
            }
        }
        self.plan(now);
    }

    /// Takes note of the time: to be called when [`Planner::next_wake`] has come.
    pub fn wake(&mut self, now: Timestamp) {
        self.read_clock(now);
        self.plan(now);
    }

    /// The next thing to do; to be drained before waiting again.
    pub fn next_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// When something is due although nothing happens; `None` while everything is quiet.
    pub fn next_wake(&self) -> Option<Timestamp> {
        let (parking, retry) = (self.parking.next_wake(), self.prefixes.next_wake());
        let (retry, unload) = match self.residence.is_away() {
            true => (None, None),
            false => (retry, self.next_unload()),
        };
        [parking, retry, unload, self.next_round()].into_iter().flatten().min()
    }

    /// Each profile's prefix, by name.
    pub fn prefixes(&self) -> impl Iterator<Item = (&ProfileName, Prefix)> {
        self.prefixes.list()
    }

    fn read_clock(&mut self, now: Timestamp) {
        if now < self.told {
            self.parking.count_anew_from(now);
            self.prefixes.count_anew_from(now);
            self.rounds.count_anew_from(now);
            self.residence.count_anew_from(now);
        }
        self.told = now;
    }

    fn plan(&mut self, now: Timestamp) {
        self.actions.extend(self.parking.take_due(now).into_iter().map(Action::Park));
        if self.next_unload().is_some() && self.residence.take_due(now) {
            self.cancel(None);
            self.actions.push_back(Action::Unload);
        }
        if self.residence.is_away() {
            return;
        }
        if self.next_round().is_some_and(|round| round <= now) {
            let asks = self.rounds.begin(now);
            self.prefixes.ask(asks);
        }
        let quiet = !self.parking.somebody_speaks();
        if let Some((profile, job)) = self.prefixes.start(now, quiet) {
            self.actions.push_back(match job {
                Job::Warm => Action::Warm(profile),
                Job::Touch => Action::Touch(profile),
            });
        }
    }

    /// None while somebody speaks: the end of the turn wakes us.
    fn next_unload(&self) -> Option<Timestamp> {
        self.residence.next_wake().filter(|_| !self.parking.somebody_speaks())
    }

    /// None while one is open, and none while somebody speaks: the end of the turn wakes us.
    fn next_round(&self) -> Option<Timestamp> {
        let rests = self.residence.is_away() || self.prefixes.a_round_is_open();
        if rests || self.parking.somebody_speaks() {
            return None;
        }
        self.rounds.next(self.prefixes.touched())
    }

    fn cancel(&mut self, job: Option<Job>) {
        self.actions.extend(self.prefixes.stop(job).map(Action::Cancel));
    }

    fn cancel_that_of(&mut self, profile: &ProfileName) {
        if self.prefixes.is_under_way(profile) {
            self.cancel(None);
        }
    }

    /// Who speaks again, or is gone, must not be parked by a decision from before.
    fn withdraw(&mut self, conversation: &ConversationId) {
        self.actions.retain(|action| !matches!(action, Action::Park(id) if id == conversation));
    }
}

#[cfg(test)]
mod tests;
