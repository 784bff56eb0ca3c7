//! Crashes of the engine, and how long to wait before the next start. Pure.

use std::time::Duration;

/// After the second crash in a row; each further one doubles it.
const FIRST_PAUSE: Duration = Duration::from_secs(1);

const MAX_PAUSE: Duration = Duration::from_secs(30);

/// A daemon that ran this long did not crash in a row with the one before.
const CALM: Duration = Duration::from_secs(60);

/// The latest crash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Crash {
    pub reason: String,
    /// Seconds since 1970; `None`: of an earlier process.
    pub at: Option<u64>,
}

/// The crashes since the program started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Crashes {
    pub count: u32,
    pub last: Option<Crash>,
    /// Crashes in a row.
    row: u32,
}

impl Crashes {
    /// `count` crashes of earlier processes under the same supervisor, the last one for `reason`.
    pub fn before(count: u32, reason: Option<String>) -> Self {
        Self { count, last: reason.map(|reason| Crash { reason, at: None }), row: 0 }
    }

    /// The daemon ran for `ran` and crashed. Returns how long to wait before it starts again.
    pub fn add(&mut self, crash: Crash, ran: Duration) -> Duration {
        self.count += 1;
        self.last = Some(crash);
        self.row = if ran >= CALM { 1 } else { self.row + 1 };
        match self.row.checked_sub(2) {
            None => Duration::ZERO,
            Some(doublings) => (FIRST_PAUSE * 2u32.pow(doublings.min(16))).min(MAX_PAUSE),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_while_crashes_follow_each_other() {
        let mut crashes = Crashes::default();
        let crash = || Crash { reason: "a test".to_owned(), at: None };
        let quick: Vec<u64> = (0..8).map(|_| crashes.add(crash(), FIRST_PAUSE).as_secs()).collect();
        assert_eq!(quick, [0, 1, 2, 4, 8, 16, 30, 30]);
        assert_eq!(crashes.add(crash(), CALM), Duration::ZERO);
        assert_eq!(crashes.count, 9);
    }
}
