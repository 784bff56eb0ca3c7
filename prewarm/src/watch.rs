//! When changes of files are worth a look. Pure: touches and the time in, due or not out.
//!
//! - Touches that follow each other closely are one change, and it is due once it has been silent:
//!   nobody reads a file while it is being written.
//! - What cannot be used when it is read may be half-written: it is read again a few times, later
//!   each time. A touch begins anew.

use std::time::{Duration, Instant};

/// How often something that could not be used is read again without a touch.
const RETRIES: u32 = 5;

/// How patient to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// Silence after which a change is due.
    pub silence: Duration,
    /// A change that never becomes silent is due after so long; `None`: it waits.
    pub longest: Option<Duration>,
    /// Until the first retry; each later one takes twice as long.
    pub retry: Duration,
}

/// The touches of one group of files.
#[derive(Debug)]
pub struct Debounce {
    patience: Patience,
    /// The first and the last touch that nobody looked at yet.
    touched: Option<(Instant, Instant)>,
    retry: Option<Instant>,
    failures: u32,
}

impl Debounce {
    /// Nothing was touched yet.
    pub fn new(patience: Patience) -> Self {
        Self { patience, touched: None, retry: None, failures: 0 }
    }

    /// A file was touched.
    pub fn touch(&mut self, now: Instant) {
        let first = self.touched.map_or(now, |(first, _)| first);
        self.touched = Some((first, now));
        (self.retry, self.failures) = (None, 0);
    }

    /// When to ask [`take`](Self::take) again, if nothing is touched until then.
    pub fn next_wake(&self) -> Option<Instant> {
        let Some((first, last)) = self.touched else { return self.retry };
        let silent = last + self.patience.silence;
        Some(self.patience.longest.map_or(silent, |longest| silent.min(first + longest)))
    }

    /// Whether it is time to look. Says so once.
    pub fn take(&mut self, now: Instant) -> bool {
        let due = self.next_wake().is_some_and(|wake| wake <= now);
        if due {
            (self.touched, self.retry) = (None, None);
        }
        due
    }

    /// What was read could not be used.
    pub fn failed(&mut self, now: Instant) {
        if self.failures < RETRIES {
            self.retry = Some(now + self.patience.retry * 2_u32.pow(self.failures));
            self.failures += 1;
        }
    }

    /// What was read was whole.
    pub fn succeeded(&mut self) {
        (self.retry, self.failures) = (None, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    const PATIENCE: Patience =
        Patience { silence: ms(300), longest: Some(ms(3000)), retry: ms(500) };

    #[test]
    fn touches_in_a_row_are_one_change_after_a_silence() {
        let (start, mut debounce) = (Instant::now(), Debounce::new(PATIENCE));
        assert_eq!(debounce.next_wake(), None);
        for at in [0, 100, 250] {
            debounce.touch(start + ms(at));
        }
        assert_eq!(debounce.next_wake(), Some(start + ms(550)));
        assert!(!debounce.take(start + ms(549)));
        assert!(debounce.take(start + ms(550)));
        assert!(!debounce.take(start + ms(9999)), "it is told once");
    }

    #[test]
    fn a_file_that_is_never_silent_is_looked_at_all_the_same() {
        let (start, mut debounce) = (Instant::now(), Debounce::new(PATIENCE));
        let due: Vec<u64> = (0..80)
            .map(|step| step * 100)
            .filter(|&at| {
                debounce.touch(start + ms(at));
                debounce.take(start + ms(at))
            })
            .collect();
        assert_eq!(due, [3000, 6100]);
    }

    #[test]
    fn one_that_must_be_whole_waits_for_silence_however_long_it_takes() {
        let mut debounce = Debounce::new(Patience { longest: None, ..PATIENCE });
        let start = Instant::now();
        for at in (0..60_000).step_by(200) {
            debounce.touch(start + ms(at));
            assert!(!debounce.take(start + ms(at)));
        }
        assert!(debounce.take(start + ms(60_100)));
    }

    #[test]
    fn what_could_not_be_used_is_read_again_later_each_time_and_not_for_ever() {
        let (start, mut debounce) = (Instant::now(), Debounce::new(PATIENCE));
        let mut now = start;
        let mut waits = Vec::new();
        debounce.failed(now);
        while let Some(wake) = debounce.next_wake() {
            waits.push((wake - now).as_millis());
            now = wake;
            assert!(debounce.take(now));
            debounce.failed(now);
        }
        assert_eq!(waits, [500, 1000, 2000, 4000, 8000]);
    }

    #[test]
    fn a_touch_begins_anew_and_success_ends_it() {
        let (start, mut debounce) = (Instant::now(), Debounce::new(PATIENCE));
        debounce.failed(start);
        debounce.touch(start + ms(10));
        assert_eq!(debounce.next_wake(), Some(start + ms(310)));
        assert!(debounce.take(start + ms(310)));
        debounce.failed(start + ms(310));
        assert_eq!(debounce.next_wake(), Some(start + ms(810)));
        debounce.succeeded();
        assert_eq!(debounce.next_wake(), None);
    }
}
