//! Decides which prefix to warm or touch next.
//!
//! - One prefix at a time: first those to warm, in the order in which they began to wait; then
//!   those that a keep-alive round asks to touch.
//! - After each failure a prefix waits twice as long.
//! - A prefix that a turn computes waits for the turn and shares its cells.
//! - The record of a prefix in use is renewed every five minutes at most: each time rewrites a slot
//!   file.

use std::collections::BTreeMap;
use std::time::Duration;

use hob_slots::Timestamp;

use crate::prefix::{PrefixName, PrefixState, TokenOrigins, TrackedPrefix, WarmFailure, Warmed};

/// From the first failure to the retry; doubles with each further failure.
const FIRST_PAUSE: Duration = Duration::from_secs(5);
const MAX_PAUSE: Duration = Duration::from_secs(10 * 60);

/// Between two renewals of a prefix's record.
const RENEWAL_INTERVAL: Duration = Duration::from_secs(5 * 60);

/// The longest wait for a turn that computes the same prefix.
const MAX_TURN_WAIT: Duration = Duration::from_secs(30);

#[derive(Debug, Default)]
pub(super) struct Prefixes {
    known: BTreeMap<PrefixName, Entry>,
    running: Option<(PrefixName, Job)>,
    ranks: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Job {
    Warm,
    Touch,
}

#[derive(Debug)]
struct Entry {
    // Orders prefixes that wait since the same moment.
    rank: usize,
    // The earliest time to warm it; `None` while it is warm.
    warm_at: Option<Timestamp>,
    // Waits for a turn that computes the same prefix.
    joined: bool,
    // A keep-alive round asks for a touch.
    touch_due: bool,
    warmed: Option<Warmed>,
    failed: Option<WarmFailure>,
    // When the record of its KV was last renewed.
    renewed: Option<Timestamp>,
}

impl Prefixes {
    /// Tracks these only, all of them cold.
    pub(super) fn reset(&mut self, prefixes: Vec<PrefixName>, now: Timestamp) {
        self.known.clear();
        for name in prefixes {
            self.want(name, now);
        }
    }

    /// The prefix is cold and should be warm.
    pub(super) fn want(&mut self, name: PrefixName, now: Timestamp) {
        self.ranks += 1;
        let entry = self.known.entry(name).or_insert(Entry {
            rank: self.ranks,
            warm_at: None,
            joined: false,
            touch_due: false,
            warmed: None,
            failed: None,
            renewed: None,
        });
        (entry.warm_at, entry.joined, entry.touch_due, entry.failed) =
            (Some(now), false, false, None);
    }

    /// The engine has lost all hot KV.
    pub(super) fn all_cold(&mut self, now: Timestamp) {
        for entry in self.known.values_mut() {
            (entry.warm_at, entry.joined, entry.touch_due) = (Some(now), false, false);
        }
    }

    pub(super) fn remove(&mut self, name: &PrefixName) {
        self.known.remove(name);
    }

    /// Stops the running job, if it is this `job` or `job` is `None`; returns its prefix.
    pub(super) fn stop(&mut self, job: Option<Job>) -> Option<PrefixName> {
        let (name, _) = self.running.take_if(|(_, at)| job.is_none_or(|job| job == *at))?;
        Some(name)
    }

    pub(super) fn is_running(&self, name: &PrefixName) -> bool {
        self.running.as_ref().is_some_and(|(at, _)| at == name)
    }

    pub(super) fn done(&mut self, name: &PrefixName, from: TokenOrigins, now: Timestamp) {
        let job = self.finish(name);
        let Some(entry) = self.known.get_mut(name) else { return };
        (entry.warm_at, entry.joined, entry.touch_due, entry.failed) = (None, false, false, None);
        let nothing_happened = job == Some(Job::Touch) && from.tokens() == from.shared;
        match &mut entry.warmed {
            Some(warmed) if nothing_happened => warmed.touched = now,
            warmed => *warmed = Some(Warmed { from, at: now, touched: now }),
        }
    }

    pub(super) fn fail(&mut self, name: &PrefixName, reason: String, now: Timestamp) {
        self.finish(name);
        let Some(entry) = self.known.get_mut(name) else { return };
        let times = entry.failed.as_ref().map_or(0, |failed| failed.times) + 1;
        (entry.warm_at, entry.joined, entry.touch_due) =
            (Some(now.after(pause(times))), false, false);
        entry.failed = Some(WarmFailure { reason, at: now, times });
    }

    /// A turn began with this prefix, which counts as a touch. Returns whether the turn computes a
    /// prefix that the planner warms or was about to warm.
    pub(super) fn used(&mut self, name: &PrefixName, now: Timestamp) -> bool {
        let Some(entry) = self.known.get_mut(name) else { return false };
        if let Some(warmed) = &mut entry.warmed {
            (warmed.touched, entry.touch_due) = (now, false);
        }
        // A turn does not shorten the pause after a failure.
        entry.joined = entry.warm_at.is_some() && entry.failed.is_none();
        if entry.joined {
            entry.warm_at = Some(now.after(MAX_TURN_WAIT));
        }
        entry.joined
    }

    /// A turn began with this prefix. Returns whether the record of its KV is to be renewed.
    pub(super) fn renew_due(&mut self, name: &PrefixName, now: Timestamp) -> bool {
        let Some(entry) = self.known.get_mut(name) else { return false };
        // Making a prefix warm writes its record too.
        let last = entry.renewed.max(entry.warmed.map(|warmed| warmed.at));
        let is_due = last.is_none_or(|last| last.age(now) >= RENEWAL_INTERVAL);
        if is_due {
            entry.renewed = Some(now);
        }
        is_due
    }

    /// The last turn has ended.
    pub(super) fn turns_ended(&mut self, now: Timestamp) {
        for entry in self.known.values_mut().filter(|entry| entry.joined) {
            entry.joined = false;
            entry.warm_at = entry.warm_at.map(|at| at.min(now));
        }
    }

    /// Requests a touch of the warm prefixes whose last touch `needs_touch` selects.
    pub(super) fn request_touches(&mut self, needs_touch: impl Fn(Timestamp) -> bool) {
        for entry in self.known.values_mut().filter(|entry| entry.warm_at.is_none()) {
            entry.touch_due = entry.warmed.is_some_and(|warmed| needs_touch(warmed.touched));
        }
    }

    pub(super) fn has_open_round(&self) -> bool {
        self.known.values().any(|entry| entry.touch_due)
    }

    /// Starts the next job, unless one runs. Touches wait until the engine is `idle`.
    pub(super) fn start(&mut self, now: Timestamp, idle: bool) -> Option<(PrefixName, Job)> {
        if self.running.is_some() {
            return None;
        }
        let waiting = self.known.iter().filter_map(|(name, entry)| {
            let warm_at = entry.warm_at.filter(|at| *at <= now)?;
            Some(((warm_at, entry.rank), name))
        });
        let first = waiting.min().map(|(_, name)| (name.clone(), Job::Warm));
        let due = || {
            let mut due = self.known.iter().filter(|(_, entry)| entry.touch_due && idle);
            due.next().map(|(name, _)| (name.clone(), Job::Touch))
        };
        self.running = first.or_else(due);
        self.running.clone()
    }

    /// When the next prefix may be warmed; `None` during a job, whose end plans again.
    pub(super) fn next_wake(&self) -> Option<Timestamp> {
        let times = self.known.values().filter_map(|entry| entry.warm_at);
        times.min().filter(|_| self.running.is_none())
    }

    /// When each warm prefix was last used or touched.
    pub(super) fn touched(&self) -> impl Iterator<Item = Timestamp> {
        let warm = self.known.values().filter(|entry| entry.warm_at.is_none());
        warm.filter_map(|entry| entry.warmed.map(|warmed| warmed.touched))
    }

    pub(super) fn clock_stepped_back(&mut self, now: Timestamp) {
        for entry in self.known.values_mut() {
            let pause = if entry.joined {
                MAX_TURN_WAIT
            } else {
                pause(entry.failed.as_ref().map_or(0, |failed| failed.times))
            };
            entry.warm_at = entry.warm_at.map(|at| at.min(now.after(pause)));
            if let Some(warmed) = &mut entry.warmed {
                warmed.touched = warmed.touched.min(now);
            }
            entry.renewed = entry.renewed.map(|renewed| renewed.min(now));
        }
    }

    pub(super) fn list(&self) -> impl Iterator<Item = (&PrefixName, TrackedPrefix)> {
        self.known.iter().map(|(name, entry)| {
            let state = match entry.warm_at {
                None => PrefixState::Warm,
                Some(_) if self.is_running(name) => PrefixState::Warming,
                Some(_) => PrefixState::Waiting,
            };
            let prefix =
                TrackedPrefix { state, warmed: entry.warmed, failed: entry.failed.clone() };
            (name, prefix)
        })
    }

    fn finish(&mut self, name: &PrefixName) -> Option<Job> {
        self.running.take_if(|(at, _)| at == name).map(|(_, job)| job)
    }
}

fn pause(failures: u32) -> Duration {
    let Some(doublings) = failures.checked_sub(1) else { return Duration::ZERO };
    (FIRST_PAUSE * 2_u32.pow(doublings.min(10))).min(MAX_PAUSE)
}
