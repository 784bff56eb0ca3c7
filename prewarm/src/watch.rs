//! Debounces changes of files. Pure: touches and the time in, due or not out.
//!
//! - Touches in quick succession are one change. It is due after a quiet time, so that a file is
//!   not read while it is being written.
//! - A file that cannot be used may be half-written: the caller reads it again [`MAX_RETRIES`]
//!   times, after doubling pauses. A touch restarts the count.

use std::time::{Duration, Instant};

/// Reads without a touch after a failure.
const MAX_RETRIES: u32 = 5;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DebounceTimes {
    /// From the last touch to the change being due.
    pub quiet: Duration,
    /// Maximum from the first touch to the change being due; `None`: no limit.
    pub max_wait: Option<Duration>,
    /// From a failure to the first retry; doubles with each further one.
    pub first_retry: Duration,
}

/// The touches of one group of files.
#[derive(Debug)]
pub struct Debounce {
    times: DebounceTimes,
    /// The first and the last touch since the last [`Debounce::take_due`].
    touched: Option<(Instant, Instant)>,
    retry: Option<Instant>,
    failures: u32,
}

impl Debounce {
    pub fn new(times: DebounceTimes) -> Self {
        Self { times, touched: None, retry: None, failures: 0 }
    }

    pub fn touch(&mut self, now: Instant) {
        let first = self.touched.map_or(now, |(first, _)| first);
        self.touched = Some((first, now));
        (self.retry, self.failures) = (None, 0);
    }

    /// When to call [`take_due`](Self::take_due) again, unless a touch comes first.
    pub fn next_wake(&self) -> Option<Instant> {
        let Some((first, last)) = self.touched else { return self.retry };
        let quiet = last + self.times.quiet;
        Some(self.times.max_wait.map_or(quiet, |max_wait| quiet.min(first + max_wait)))
    }

    /// Whether to read the files now. Returns true once per change.
    pub fn take_due(&mut self, now: Instant) -> bool {
        let due = self.next_wake().is_some_and(|wake| wake <= now);
        if due {
            (self.touched, self.retry) = (None, None);
        }
        due
    }

    /// The files that were read could not be used.
    pub fn failed(&mut self, now: Instant) {
        if self.failures < MAX_RETRIES {
            self.retry = Some(now + self.times.first_retry * 2_u32.pow(self.failures));
            self.failures += 1;
        }
    }

    /// The files that were read could be used.
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

    const TIMES: DebounceTimes =
        DebounceTimes { quiet: ms(300), max_wait: Some(ms(3000)), first_retry: ms(500) };

    #[test]
    fn touches_in_quick_succession_are_one_change() {
        let (start, mut debounce) = (Instant::now(), Debounce::new(TIMES));
        assert_eq!(debounce.next_wake(), None);
        for at in [0, 100, 250] {
            debounce.touch(start + ms(at));
        }
        assert_eq!(debounce.next_wake(), Some(start + ms(550)));
        assert!(!debounce.take_due(start + ms(549)));
        assert!(debounce.take_due(start + ms(550)));
        assert!(!debounce.take_due(start + ms(9999)), "it is due once");
    }

    #[test]
    fn a_file_that_changes_all_the_time_is_read_after_the_maximum_wait() {
        let (start, mut debounce) = (Instant::now(), Debounce::new(TIMES));
        let due: Vec<u64> = (0..80)
            .map(|step| step * 100)
            .filter(|&at| {
                debounce.touch(start + ms(at));
                debounce.take_due(start + ms(at))
            })
            .collect();
        assert_eq!(due, [3000, 6100]);
    }

    #[test]
    fn without_a_maximum_a_change_waits_for_the_quiet_time() {
        let mut debounce = Debounce::new(DebounceTimes { max_wait: None, ..TIMES });
        let start = Instant::now();
        for at in (0..60_000).step_by(200) {
            debounce.touch(start + ms(at));
            assert!(!debounce.take_due(start + ms(at)));
        }
        assert!(debounce.take_due(start + ms(60_100)));
    }

    #[test]
    fn retries_have_doubling_pauses_and_an_end() {
        let (start, mut debounce) = (Instant::now(), Debounce::new(TIMES));
        let mut now = start;
        let mut waits = Vec::new();
        debounce.failed(now);
        while let Some(wake) = debounce.next_wake() {
            waits.push((wake - now).as_millis());
            now = wake;
            assert!(debounce.take_due(now));
            debounce.failed(now);
        }
        assert_eq!(waits, [500, 1000, 2000, 4000, 8000]);
    }

    #[test]
    fn a_touch_restarts_the_retries_and_success_ends_them() {
        let (start, mut debounce) = (Instant::now(), Debounce::new(TIMES));
        debounce.failed(start);
        debounce.touch(start + ms(10));
        assert_eq!(debounce.next_wake(), Some(start + ms(310)));
        assert!(debounce.take_due(start + ms(310)));
        debounce.failed(start + ms(310));
        assert_eq!(debounce.next_wake(), Some(start + ms(810)));
        debounce.succeeded();
        assert_eq!(debounce.next_wake(), None);
    }
}
