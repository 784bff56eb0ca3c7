//! Whether KV is fetched from the shared tier, or computed.
//!
//! - Pure, but for [`always_fetch`]: figures in, a decision out. The figures were measured: round trips and bytes a
//!   second of this place, tokens a second of this model's prefill.
//! - What was not measured yet is fetched: that measures it. [`Offer::patience`] bounds what a wrong
//!   decision costs.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::PARALLEL;

/// A transfer below this says more about round trips than about bytes a second.
const MIN_MEASURED_BYTES: u64 = 64 << 10;

/// The weight of the newest measurement.
const NEWEST: f64 = 0.3;

/// The longest fetch where the prefill speed is unknown, and the shortest bound where it is known.
const PATIENCE: Duration = Duration::from_secs(10);
const MIN_PATIENCE: Duration = Duration::from_millis(250);

static ALWAYS_FETCHES: AtomicBool = AtomicBool::new(false);

/// For tests: from now on this process decides as if it did not know how quickly it computes.
pub fn always_fetch() {
    ALWAYS_FETCHES.store(true, Ordering::Relaxed);
}

/// KV that the tier has and this daemon lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    pub objects: usize,
    pub bytes: u64,
    /// Tokens whose KV it is.
    pub tokens: usize,
}

/// Averages of what the place did.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Measured {
    pub round_trip: Duration,
    pub bytes_per_second: Option<f64>,
}

#[derive(Debug, Default)]
pub struct Meter {
    round_trip: Option<f64>,
    bytes_per_second: Option<f64>,
}

impl Meter {
    pub fn round_trip(&mut self, took: Duration) {
        self.round_trip = Some(average(self.round_trip, took.as_secs_f64()));
    }

    pub fn transfer(&mut self, bytes: u64, took: Duration) {
        if bytes >= MIN_MEASURED_BYTES {
            let speed = bytes as f64 / took.as_secs_f64().max(1e-6);
            self.bytes_per_second = Some(average(self.bytes_per_second, speed));
        }
    }

    pub fn measured(&self) -> Measured {
        let round_trip = Duration::from_secs_f64(self.round_trip.unwrap_or(0.0));
        Measured { round_trip, bytes_per_second: self.bytes_per_second }
    }
}

fn average(before: Option<f64>, now: f64) -> f64 {
    before.map_or(now, |before| before + NEWEST * (now - before))
}

impl Offer {
    /// Whether fetching is quicker than computing, as far as is known.
    pub fn is_admitted(self, place: Measured, prefill_tokens_per_second: Option<f64>) -> bool {
        let Some(computing) = self.computing(prefill_tokens_per_second) else { return true };
        let trips = u32::try_from(self.objects.div_ceil(PARALLEL)).unwrap_or(u32::MAX);
        let moving = place.bytes_per_second.map_or(0.0, |speed| self.bytes as f64 / speed);
        place.round_trip.saturating_mul(trips).as_secs_f64() + moving < computing.as_secs_f64()
    }

    /// How long a fetch may take before it is given up: as long as computing would have taken.
    pub fn patience(self, prefill_tokens_per_second: Option<f64>) -> Duration {
        let computing = self.computing(prefill_tokens_per_second);
        computing.map_or(PATIENCE, |computing| computing.max(MIN_PATIENCE))
    }

    fn computing(self, tokens_per_second: Option<f64>) -> Option<Duration> {
        let is_known = |speed: &f64| *speed > 0.0 && !ALWAYS_FETCHES.load(Ordering::Relaxed);
        let speed = tokens_per_second.filter(is_known)?;
        Duration::try_from_secs_f64(self.tokens as f64 / speed).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A conversation of 4,000 tokens in 50 MB.
    const OFFER: Offer = Offer { objects: 64, bytes: 50_000_000, tokens: 4_000 };

    fn place(round_trip_ms: u64, bytes_per_second: f64) -> Measured {
        let round_trip = Duration::from_millis(round_trip_ms);
        Measured { round_trip, bytes_per_second: Some(bytes_per_second) }
    }

    #[test]
    fn kv_is_fetched_where_that_is_quicker_than_to_compute_it() {
        let slow_processor = Some(200.0); // 20 s for these tokens.
        let graphics_card = Some(20_000.0); // 0.2 s.
        assert!(OFFER.is_admitted(place(5, 100e6), slow_processor), "0.5 s against 20 s");
        assert!(!OFFER.is_admitted(place(5, 100e6), graphics_card), "0.5 s against 0.2 s");
        assert!(OFFER.is_admitted(place(5, 1e9), graphics_card), "0.1 s against 0.2 s");
        assert!(!OFFER.is_admitted(place(30, 1e9), graphics_card), "round trips count");
        assert!(!OFFER.is_admitted(place(5, 2e6), slow_processor), "25 s against 20 s");
    }

    #[test]
    fn what_was_not_measured_is_fetched() {
        assert!(OFFER.is_admitted(place(5, 1.0), None));
        assert!(OFFER.is_admitted(Measured::default(), Some(20_000.0)));
    }

    #[test]
    fn a_fetch_ends_when_computing_would_have_ended() {
        assert_eq!(OFFER.patience(Some(2_000.0)), Duration::from_secs(2));
        assert_eq!(OFFER.patience(Some(1e9)), MIN_PATIENCE);
        assert_eq!(OFFER.patience(None), PATIENCE);
    }

    #[test]
    fn small_transfers_do_not_measure_the_bandwidth() {
        let mut meter = Meter::default();
        meter.transfer(100, Duration::from_millis(50));
        assert_eq!(meter.measured().bytes_per_second, None);
        meter.transfer(10_000_000, Duration::from_millis(100));
        meter.transfer(10_000_000, Duration::from_millis(1000));
        let speed = meter.measured().bytes_per_second.unwrap();
        assert!((speed - 73e6).abs() < 1.0, "{speed}");
    }
}
