//! Measures a draft model, or MTP heads: how often their guesses are right and how long they take. Holds the account of
//! the time that they may take.

use std::time::Duration;

use super::{Confidence, CostCurve, Ledger};
use crate::pace::Pace;

/// Micro-batches of guesses last the target of the model's divided by this: a caller waits for both at most.
const PART_OF_TARGET: u32 = 2;

/// A draft ends where the chance that all of it is right has fallen below this.
const MIN_CHANCE: f64 = 0.15;

#[derive(Clone, Debug)]
pub struct Guesser {
    pub confidence: Confidence,
    pub ledger: Ledger,
    costs: CostCurve,
    pace: Pace,
}

impl Guesser {
    /// `target`: how long a micro-batch of the model should last; `None`: nothing depends on the clock.
    pub fn new(target: Option<Duration>, max_rows: usize, on_devices: bool) -> Self {
        let target = target.map(|target| target / PART_OF_TARGET);
        let is_timed = target.is_some();
        Self {
            confidence: Confidence::default(),
            ledger: if is_timed { Ledger::limited() } else { Ledger::unlimited() },
            costs: if is_timed { CostCurve::measured(on_devices) } else { CostCurve::fixed(0.0) },
            pace: Pace::new(target, max_rows),
        }
    }

    /// The chances of `count` guesses that are not made yet.
    pub fn expected(&self, count: usize) -> Vec<f64> {
        self.confidence.expected(count)
    }

    /// The seconds that guesses of these lengths take, where the sequences are followed; `None` where that
    /// is unknown.
    pub fn seconds(&self, lengths: impl Iterator<Item = usize> + Clone) -> Option<f64> {
        let longest = lengths.clone().max().unwrap_or(0);
        let row = self.rows_per_second().map(f64::recip);
        let rows = |step: usize| lengths.clone().filter(|&length| length > step).count();
        (0..longest).map(|step| self.costs.seconds(rows(step), row)).sum()
    }

    /// The seconds that this many rows of a timeline take, by what was measured; 0 before that.
    pub fn reading_seconds(&self, rows: usize) -> f64 {
        let row = self.rows_per_second().map(f64::recip);
        let many = || row.map(|row| row * rows as f64);
        self.costs.seconds(rows, row).or_else(many).unwrap_or(0.0)
    }

    /// Whether the account allows to read this many rows of a timeline, and to make `count` guesses behind them.
    pub fn affords(&self, rows: usize, count: usize) -> bool {
        let guessing = self.seconds(std::iter::once(count)).unwrap_or(0.0);
        self.ledger.allows(self.reading_seconds(rows) + guessing)
    }

    /// The measured speed of reading; `None` before the first measurable micro-batch.
    pub fn rows_per_second(&self) -> Option<f64> {
        self.pace.rows_per_second()
    }

    /// Maximum rows of a micro-batch that reads a timeline.
    pub fn max_rows(&self) -> usize {
        self.pace.rows()
    }

    /// A micro-batch of the model took `duration`.
    pub fn earn(&mut self, duration: Duration) {
        self.ledger.earn(duration, self.confidence.is_known());
    }

    /// Whether another guess may follow those of these probabilities.
    pub fn goes_on(&self, probabilities: &[f32]) -> bool {
        self.confidence.chances(probabilities).last().copied() >= Some(MIN_CHANCE)
    }

    /// Learns from a micro-batch of `rows` that took `duration`.
    pub fn observe_time(&mut self, rows: usize, duration: Duration) {
        self.costs.observe(rows, duration);
        self.pace.observe(rows, duration);
    }
}
