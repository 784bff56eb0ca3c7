//! Wall time in milliseconds.
//!
//! Slot files outlive the process, so ages are wall time. When wall time steps back, ages saturate
//! at zero. [`crate::ageing`] handles jumps and sleep. The caller reads the clock.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

/// Milliseconds since 1970-01-01 00:00 UTC.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Timestamp(pub u64);

impl Timestamp {
    /// The time from here to `now`; zero for a time in the future.
    pub fn age(self, now: Self) -> Duration {
        Duration::from_millis(now.0.saturating_sub(self.0))
    }

    #[must_use]
    pub fn after(self, span: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(span.as_millis()).unwrap_or(u64::MAX)))
    }
}

/// Times before 1970 become 1970.
impl From<SystemTime> for Timestamp {
    fn from(time: SystemTime) -> Self {
        Self(0).after(time.duration_since(UNIX_EPOCH).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn age_is_the_time_between_then_and_now() {
        assert_eq!(Timestamp(1_000).age(Timestamp(3_500)), Duration::from_millis(2_500));
    }

    #[test]
    fn a_clock_that_steps_back_makes_nothing_older() {
        assert_eq!(Timestamp(3_500).age(Timestamp(1_000)), Duration::ZERO);
    }

    #[test]
    fn adding_saturates() {
        assert_eq!(Timestamp(5).after(Duration::MAX), Timestamp(u64::MAX));
    }

    #[test]
    fn times_before_1970_become_1970() {
        assert_eq!(Timestamp::from(UNIX_EPOCH - Duration::from_secs(5)), Timestamp(0));
        assert_eq!(Timestamp::from(UNIX_EPOCH + Duration::from_secs(5)), Timestamp(5_000));
    }
}
