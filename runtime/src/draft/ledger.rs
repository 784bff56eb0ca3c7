//! The time that a draft model, or MTP heads in its place, may take.
//!
//! - Every micro-batch of the model earns a small part of its time; what the draft model computes, imports and
//!   exports beside an answer spends, and each token that it made cheaper earns what it saved. So in the long run
//!   answers are slower by that part, and a useful draft model pays for itself.
//! - The part is larger until the draft model is known, so that a useful one pays soon.
//! - Estimates decide what is allowed, measured times are charged: the difference is a debt that is earned back
//!   before the next guess. At first, when no time is known, that is a micro-batch of the draft model.
//! - What it reads while no answer is made is free: no caller waits for it.
//! - Pure: durations in, a yes or no out.

use std::time::Duration;

/// The part of the time of the model's micro-batches that the account earns until the draft model is known.
const PART_AT_FIRST: f64 = 0.03;

/// The part that it earns from then on. Answers are slower by 1.7 times that: the draft model's weights displace the
/// model's in the processor's caches (measured with an MTP head: 2.6 % at a part of 1.5 %).
const PART: f64 = 0.0075;

/// The maximum balance in seconds: a draft model that was useful yesterday and is not today may not spend a
/// minute.
const MAX_SECONDS: f64 = 5.0;

#[derive(Clone, Debug)]
pub struct Ledger {
    seconds: f64,
    is_limited: bool,
}

impl Ledger {
    pub fn limited() -> Self {
        Self { seconds: 0.0, is_limited: true }
    }

    /// Allows everything, so that nothing depends on the clock.
    pub fn unlimited() -> Self {
        Self { seconds: 0.0, is_limited: false }
    }

    /// Whether the draft model may take `seconds` now.
    pub fn allows(&self, seconds: f64) -> bool {
        !self.is_limited || self.seconds >= seconds
    }

    /// A micro-batch of the model took `duration`. `is_known`: of the draft model.
    pub fn earn(&mut self, duration: Duration, is_known: bool) {
        let part = if is_known { PART } else { PART_AT_FIRST };
        self.add(part * duration.as_secs_f64());
    }

    /// Guesses have saved `seconds`.
    pub fn gain(&mut self, seconds: f64) {
        self.add(seconds);
    }

    /// The draft model, or rows with its guesses, took `seconds`.
    pub fn spend(&mut self, seconds: f64) {
        self.add(-seconds);
    }

    fn add(&mut self, seconds: f64) {
        self.seconds = (self.seconds + seconds).min(MAX_SECONDS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// What a draft model that is never right spends of 1,000 seconds of the model.
    fn spent(is_known: bool) -> f64 {
        let mut ledger = Ledger::limited();
        let mut spent = 0.0;
        for _ in 0..1_000 {
            ledger.earn(SECOND, is_known);
            while ledger.allows(0.05) {
                ledger.spend(0.05);
                spent += 0.05;
            }
        }
        spent
    }

    #[test]
    fn a_draft_model_that_is_never_right_takes_its_part_and_less_once_it_is_known() {
        let (at_first, known) = (spent(false), spent(true));
        assert!((29.0..30.1).contains(&at_first), "{at_first}");
        assert!((7.0..7.6).contains(&known), "{known}");
    }

    #[test]
    fn a_useful_one_pays_for_itself_and_saves_little_up() {
        let mut ledger = Ledger::limited();
        assert!(!ledger.allows(0.01), "nothing was computed yet");
        ledger.earn(4 * SECOND, false);
        for _ in 0..1_000 {
            assert!(ledger.allows(0.05));
            ledger.spend(0.05);
            ledger.gain(0.08);
        }
        assert!(ledger.allows(MAX_SECONDS) && !ledger.allows(MAX_SECONDS + 0.1));
    }
}
