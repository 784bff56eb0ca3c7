//! Ages of saved KV, when wall time jumps and laptops sleep.
//!
//! - Ages are wall time, for saved KV outlives the process. A [`ClockTracker`] compares wall time
//!   with the time that the process ran. Where the two differ, wall time jumped: the clock was set,
//!   or the machine slept.
//! - A jump makes nothing older: jumped time is subtracted from the age of everything used before
//!   it. In doubt an age is too low, never too high.
//! - Jumps outlive the process: the [`ClockTracker`] is saved and loaded.
//! - Pure: the caller reads the clocks.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::time::Timestamp;

/// Smaller differences are clock drift, and the time between reading the two clocks.
const TOLERANCE_MS: i64 = 5_000;

/// Older jumps are dropped. They concern only KV used before all the others.
const MAX_JUMPS: usize = 64;

/// Finds jumps of wall time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockTracker {
    /// The last wall time.
    #[serde(default)]
    last_ms: u64,
    /// The time that the process had run at `last_ms`; `None` right after the start.
    #[serde(skip)]
    ran: Option<Duration>,
    #[serde(default, rename = "jump")]
    jumps: Vec<Jump>,
}

/// Wall time moved by `by_ms` more than the process ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Jump {
    /// The latest possible wall time before the jump.
    before_ms: u64,
    /// The earliest possible wall time after the jump.
    after_ms: u64,
    by_ms: i64,
}

/// A wall time with the jumps known before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdjustedTime {
    now: Timestamp,
    jumps: Vec<Jump>,
}

impl ClockTracker {
    /// Takes `now` and the time that the process ran, without sleep.
    pub fn observe(&mut self, now: Timestamp, ran: Duration) -> AdjustedTime {
        let passed_ms = match self.ran {
            Some(before) => signed(ran.saturating_sub(before).as_millis()),
            // While no process ran, only a step back can be told from real time.
            None => (signed(now.0) - signed(self.last_ms)).max(0),
        };
        let by_ms = signed(now.0) - signed(self.last_ms) - passed_ms;
        let first = self.last_ms == 0;
        if !first && by_ms.abs() > TOLERANCE_MS {
            let passed_ms = passed_ms.unsigned_abs();
            self.jumps.push(Jump {
                before_ms: self.last_ms.saturating_add(passed_ms),
                after_ms: now.0.saturating_sub(passed_ms),
                by_ms,
            });
            let surplus = self.jumps.len().saturating_sub(MAX_JUMPS);
            self.jumps.drain(..surplus);
        }
        (self.last_ms, self.ran) = (now.0, Some(ran));
        self.adjusted_time(now)
    }

    pub fn jumps(&self) -> &[Jump] {
        &self.jumps
    }

    /// `now`, without looking for another jump.
    pub fn adjusted_time(&self, now: Timestamp) -> AdjustedTime {
        AdjustedTime { now, jumps: self.jumps.clone() }
    }
}

impl AdjustedTime {
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// The time since `then` without jumps: forward jumps that may have come after `then` are
    /// subtracted, backward jumps that must have are added.
    pub fn age(&self, then: Timestamp) -> Duration {
        let jumped: i64 = (0..self.jumps.len())
            .filter(|&at| match self.jumps[at].by_ms {
                0.. => self.may_precede(then, at),
                _ => self.must_precede(then, at),
            })
            .map(|at| self.jumps[at].by_ms)
            .sum();
        let passed = signed(self.now.0) - signed(then.0);
        Duration::from_millis(passed.saturating_sub(jumped).max(0).unsigned_abs())
    }

    fn may_precede(&self, then: Timestamp, jump: usize) -> bool {
        self.jumps[..=jump].iter().any(|jump| then.0 <= jump.before_ms)
    }

    fn must_precede(&self, then: Timestamp, jump: usize) -> bool {
        let earliest = self.jumps[jump..].iter().map(|jump| jump.after_ms).min();
        let latest = self.jumps[jump + 1..].iter().map(|jump| jump.before_ms).max();
        let latest = latest.unwrap_or(0).max(self.now.0);
        earliest.is_some_and(|earliest| then.0 < earliest) || then.0 > latest
    }
}

/// A time without jumps before it.
impl From<Timestamp> for AdjustedTime {
    fn from(now: Timestamp) -> Self {
        Self { now, jumps: Vec::new() }
    }
}

fn signed(ms: impl TryInto<i64>) -> i64 {
    ms.try_into().unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR_MS: u64 = 3_600_000;
    const START: Timestamp = Timestamp(1_000 * HOUR_MS);

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn at(offset_ms: u64) -> Timestamp {
        Timestamp(START.0 + offset_ms)
    }

    #[test]
    fn without_jumps_age_is_the_difference() {
        let mut tracker = ClockTracker::default();
        tracker.observe(START, ms(0));
        let now = tracker.observe(at(HOUR_MS), ms(HOUR_MS));
        assert_eq!(now.age(at(1_000)), ms(HOUR_MS - 1_000));
        assert_eq!(now.age(at(2 * HOUR_MS)), ms(0), "what is to come is not old");
    }

    #[test]
    fn sleep_makes_nothing_older() {
        let mut tracker = ClockTracker::default();
        tracker.observe(START, ms(0));
        let used = at(60_000);
        // Two minutes awake, eight hours asleep.
        let now = tracker.observe(at(8 * HOUR_MS + 120_000), ms(120_000));
        assert_eq!(now.age(used), ms(60_000));
        let now = tracker.observe(at(9 * HOUR_MS + 120_000), ms(HOUR_MS + 120_000));
        assert_eq!(now.age(used), ms(HOUR_MS + 60_000), "from then on it ages again");
        assert_eq!(now.age(at(8 * HOUR_MS + 200_000)), ms(HOUR_MS - 80_000));
    }

    #[test]
    fn a_clock_that_is_set_forward_and_back_again_makes_nothing_older() {
        let mut tracker = ClockTracker::default();
        tracker.observe(START, ms(0));
        let forward = tracker.observe(at(1_000 * HOUR_MS), ms(60_000));
        assert_eq!(forward.age(START), ms(60_000));
        let used_in_the_future = at(1_000 * HOUR_MS + 1_000);
        let back = tracker.observe(at(180_000), ms(180_000));
        assert!(back.age(START) <= ms(180_000));
        assert!(back.age(used_in_the_future) <= ms(120_000));
    }

    #[test]
    fn a_restarted_process_knows_the_jumps_before_it() {
        let mut tracker = ClockTracker::default();
        tracker.observe(START, ms(0));
        tracker.observe(at(8 * HOUR_MS), ms(1_000));
        let written = toml::to_string(&tracker).unwrap();
        let mut read: ClockTracker = toml::from_str(&written).unwrap();
        let now = read.observe(at(9 * HOUR_MS), ms(0));
        assert_eq!(now.age(START), ms(HOUR_MS + 1_000), "the hour in between is real");
        let now = read.observe(at(HOUR_MS), ms(1));
        assert_eq!(now.age(at(8 * HOUR_MS + 10)), ms(HOUR_MS - 9), "set back, not younger");
    }

    mod properties {
        use proptest::prelude::*;

        use super::*;

        proptest! {
            /// No age exceeds the time that really passed.
            #[test]
            fn nothing_is_ever_older_than_it_is(
                steps in prop::collection::vec((0..10_000_000_u64, -50_000_000..50_000_000_i64), 1..40),
            ) {
                let mut tracker = ClockTracker::default();
                let (mut real, mut offset) = (0_u64, 0_i64);
                let mut used: Vec<(u64, Timestamp)> = Vec::new();
                let wall = |real: u64, offset: i64| {
                    Timestamp((START.0 as i64 + real as i64 + offset).max(1) as u64)
                };
                for (passed, jump) in steps {
                    tracker.observe(wall(real, offset), ms(real));
                    used.push((real, wall(real, offset)));
                    real += passed;
                    offset += if jump % 3 == 0 { jump } else { 0 };
                    let now = tracker.observe(wall(real, offset), ms(real));
                    for (then, stamp) in &used {
                        let truth = real - then;
                        let slack = TOLERANCE_MS as u64 * used.len() as u64;
                        prop_assert!(now.age(*stamp) <= ms(truth + slack));
                    }
                }
            }
        }
    }
}
