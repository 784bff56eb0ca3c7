//! Whether the place answers: pauses that grow while it does not.

use std::time::{Duration, Instant};

const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

#[derive(Debug, Default)]
pub struct Health {
    /// While it fails: the last pause, and when it ends.
    trouble: Option<(Duration, Instant)>,
}

impl Health {
    pub fn is_paused(&self, now: Instant) -> bool {
        self.trouble.is_some_and(|(_, until)| now < until)
    }

    /// Returns whether it failed before.
    pub fn succeeded(&mut self) -> bool {
        self.trouble.take().is_some()
    }

    /// Returns whether this failure is the first one. Operations that ran at the same time count as one.
    pub fn failed(&mut self, now: Instant) -> bool {
        let (is_first, pause) = match self.trouble {
            None => (true, FIRST_PAUSE),
            Some((pause, until)) if now < until => (false, pause),
            Some((pause, _)) => (false, (pause * 2).min(LONGEST_PAUSE)),
        };
        self.trouble = Some((pause, now + pause));
        is_first
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_a_minute_and_end_with_a_success() {
        let (mut health, mut now) = (Health::default(), Instant::now());
        assert!(!health.is_paused(now));
        assert!(health.failed(now), "the first failure is reported");
        for pause in [1, 2, 4, 8, 16, 32, 60, 60] {
            let pause = Duration::from_secs(pause);
            assert!(health.is_paused(now + pause - Duration::from_millis(1)));
            now += pause;
            assert!(!health.is_paused(now));
            assert!(!health.failed(now), "further ones are not");
        }
        assert!(health.succeeded(), "its end is reported");
        assert!(!health.is_paused(now) && !health.succeeded());
        assert!(health.failed(now));
    }

    #[test]
    fn failures_at_the_same_time_are_one() {
        let (mut health, now) = (Health::default(), Instant::now());
        health.failed(now);
        health.failed(now);
        health.failed(now);
        assert!(!health.is_paused(now + FIRST_PAUSE));
    }
}
