//! Which prefixes are warm, which should be, and what is done about it.
//!
//! - One prefix at a time: what waits is made warm first, in the order in which it began to wait;
//!   then what a round of keep-alive asks for is touched.
//! - What failed waits for longer after each failure.
//! - What a turn computes for itself is not computed twice: its prefix waits for the turn, and shares
//!   what the turn has computed.

use std::collections::BTreeMap;
use std::time::Duration;

use hob_slots::Timestamp;

use crate::name::ProfileName;
use crate::prefix::{Failed, Prefix, PrefixState, Sources, Warmed};

/// Until what failed once is tried again; twice as long after each further failure.
const FIRST_PAUSE: Duration = Duration::from_secs(5);
/// The longest that it becomes.
const LONGEST_PAUSE: Duration = Duration::from_secs(10 * 60);

/// The longest that a prefix waits for a turn that computes it too.
const LONGEST_TURN: Duration = Duration::from_secs(30);

#[derive(Debug, Default)]
pub(super) struct Prefixes {
    known: BTreeMap<ProfileName, Entry>,
    under_way: Option<(ProfileName, Job)>,
    ranks: usize,
}

/// What is done with a prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Job {
    Warm,
    Touch,
}

#[derive(Debug)]
struct Entry {
    // Who was named first is first among those that wait since the same moment.
    rank: usize,
    // Not before then; `None` while it is warm.
    wanted: Option<Timestamp>,
    // A turn computes it too, and it waits for that.
    joined: bool,
    // A round asks for a touch.
    due: bool,
    warmed: Option<Warmed>,
    failed: Option<Failed>,
}

impl Prefixes {
    /// Nothing but these is known from now on, and none of them is warm.
    pub(super) fn begin(&mut self, profiles: Vec<ProfileName>, now: Timestamp) {
        self.known.clear();
        for profile in profiles {
            self.want(profile, now);
        }
    }

    /// The profile's prefix should be warm and is not.
    pub(super) fn want(&mut self, profile: ProfileName, now: Timestamp) {
        self.ranks += 1;
        let entry = self.known.entry(profile).or_insert(Entry {
            rank: self.ranks,
            wanted: None,
            joined: false,
            due: false,
            warmed: None,
            failed: None,
        });
        (entry.wanted, entry.joined, entry.due, entry.failed) = (Some(now), false, false, None);
    }

    /// Nothing is hot any longer.
    pub(super) fn cool(&mut self, now: Timestamp) {
        for entry in self.known.values_mut() {
            (entry.wanted, entry.joined, entry.due) = (Some(now), false, false);
        }
    }

    pub(super) fn remove(&mut self, profile: &ProfileName) {
        self.known.remove(profile);
    }

    /// Whose prefix is worked on, if that is what is done.
    pub(super) fn stop(&mut self, job: Option<Job>) -> Option<ProfileName> {
        let (profile, _) = self.under_way.take_if(|(_, at)| job.is_none_or(|job| job == *at))?;
        Some(profile)
    }

    pub(super) fn is_under_way(&self, profile: &ProfileName) -> bool {
        self.under_way.as_ref().is_some_and(|(at, _)| at == profile)
    }

    pub(super) fn done(&mut self, profile: &ProfileName, from: Sources, now: Timestamp) {
        let job = self.over(profile);
        let Some(entry) = self.known.get_mut(profile) else { return };
        (entry.wanted, entry.joined, entry.due, entry.failed) = (None, false, false, None);
        let nothing_happened = job == Some(Job::Touch) && from.tokens() == from.shared;
        match &mut entry.warmed {
            Some(warmed) if nothing_happened => warmed.touched = now,
            warmed => *warmed = Some(Warmed { from, at: now, touched: now }),
        }
    }

    pub(super) fn fail(&mut self, profile: &ProfileName, reason: String, now: Timestamp) {
        self.over(profile);
        let Some(entry) = self.known.get_mut(profile) else { return };
        let times = entry.failed.as_ref().map_or(0, |failed| failed.times) + 1;
        (entry.wanted, entry.joined, entry.due) = (Some(now.after(pause(times))), false, false);
        entry.failed = Some(Failed { reason, at: now, times });
    }

    /// A turn began with this prefix: no touch is needed soon. Returns whether the turn computes what
    /// we do, or were about to.
    pub(super) fn used(&mut self, profile: &ProfileName, now: Timestamp) -> bool {
        let Some(entry) = self.known.get_mut(profile) else { return false };
        if let Some(warmed) = &mut entry.warmed {
            (warmed.touched, entry.due) = (now, false);
        }
        // What failed waits for its pause, whoever speaks.
        entry.joined = entry.wanted.is_some() && entry.failed.is_none();
        if entry.joined {
            entry.wanted = Some(now.after(LONGEST_TURN));
        }
        entry.joined
    }

    /// Nobody speaks any longer.
    pub(super) fn turns_are_over(&mut self, now: Timestamp) {
        for entry in self.known.values_mut().filter(|entry| entry.joined) {
            entry.joined = false;
            entry.wanted = entry.wanted.map(|wanted| wanted.min(now));
        }
    }

    /// A round asks for a touch of those warm ones whose last touch was then.
    pub(super) fn ask(&mut self, asks: impl Fn(Timestamp) -> bool) {
        for entry in self.known.values_mut().filter(|entry| entry.wanted.is_none()) {
            entry.due = entry.warmed.is_some_and(|warmed| asks(warmed.touched));
        }
    }

    /// Whether a round is not over yet.
    pub(super) fn a_round_is_open(&self) -> bool {
        self.known.values().any(|entry| entry.due)
    }

    /// What is done next, if nothing is done now. Touches wait while somebody speaks.
    pub(super) fn start(&mut self, now: Timestamp, quiet: bool) -> Option<(ProfileName, Job)> {
        if self.under_way.is_some() {
            return None;
        }
        let waiting = self.known.iter().filter_map(|(profile, entry)| {
            let wanted = entry.wanted.filter(|wanted| *wanted <= now)?;
            Some(((wanted, entry.rank), profile))
        });
        let first = waiting.min().map(|(_, profile)| (profile.clone(), Job::Warm));
        let due = || {
            let mut due = self.known.iter().filter(|(_, entry)| entry.due && quiet);
            due.next().map(|(profile, _)| (profile.clone(), Job::Touch))
        };
        self.under_way = first.or_else(due);
        self.under_way.clone()
    }

    /// When what failed is tried again; what is under way tells by itself when it is over.
    pub(super) fn next_wake(&self) -> Option<Timestamp> {
        let wanted = self.known.values().filter_map(|entry| entry.wanted);
        wanted.min().filter(|_| self.under_way.is_none())
    }

    /// When each warm prefix was last used or touched.
    pub(super) fn touched(&self) -> impl Iterator<Item = Timestamp> {
        let warm = self.known.values().filter(|entry| entry.wanted.is_none());
        warm.filter_map(|entry| entry.warmed.map(|warmed| warmed.touched))
    }

    pub(super) fn count_anew_from(&mut self, now: Timestamp) {
        for entry in self.known.values_mut() {
            let pause = match entry.joined {
                true => LONGEST_TURN,
                false => pause(entry.failed.as_ref().map_or(0, |failed| failed.times)),
            };
            entry.wanted = entry.wanted.map(|wanted| wanted.min(now.after(pause)));
            if let Some(warmed) = &mut entry.warmed {
                warmed.touched = warmed.touched.min(now);
            }
        }
    }

    pub(super) fn list(&self) -> impl Iterator<Item = (&ProfileName, Prefix)> {
        self.known.iter().map(|(profile, entry)| {
            let state = match entry.wanted {
                None => PrefixState::Warm,
                Some(_) if self.is_under_way(profile) => PrefixState::Warming,
                Some(_) => PrefixState::Waiting,
            };
            let prefix = Prefix { state, warmed: entry.warmed, failed: entry.failed.clone() };
            (profile, prefix)
        })
    }

    fn over(&mut self, profile: &ProfileName) -> Option<Job> {
        self.under_way.take_if(|(at, _)| at == profile).map(|(_, job)| job)
    }
}

fn pause(failures: u32) -> Duration {
    let Some(doublings) = failures.checked_sub(1) else { return Duration::ZERO };
    (FIRST_PAUSE * 2_u32.pow(doublings.min(10))).min(LONGEST_PAUSE)
}
