//! How many rows a micro-batch takes, so that nobody waits long for the next one.
//!
//! - Pure: durations in, a number of rows out.
//! - The engine answers new turns, cancellations and other conversations between two micro-batches,
//!   so a micro-batch of prefill should last about [`Pace::target`].

use std::time::Duration;

/// Fewer rows than this waste the weights that every micro-batch reads once.
const FEWEST_ROWS: usize = 32;

/// Of what nobody waits for, fewer are taken: on a slow machine even the fewest of above take several
/// times the target, for which somebody who begins to wait would wait too.
const FEWEST_ROWS_BEHIND: usize = 8;

/// Batches below this size measure the reading of weights, not the computation of rows.
const MEASURABLE_ROWS: usize = 16;

/// Weight of the newest observation.
const NEWEST: f64 = 0.3;

/// Follows the measured speed of prefill.
#[derive(Clone, Debug)]
pub struct Pace {
    target: Option<Duration>,
    most_rows: usize,
    rows_per_second: Option<f64>,
}

impl Pace {
    /// Aims at `target` a micro-batch and never exceeds `most_rows`. Without a target every
    /// micro-batch may take `most_rows`, whatever the speed: then the same turns always make the
    /// same micro-batches.
    pub fn new(target: Option<Duration>, most_rows: usize) -> Self {
        Self { target, most_rows, rows_per_second: None }
    }

    /// Rows of the next micro-batch at most.
    pub fn rows(&self) -> usize {
        self.rows_from(FEWEST_ROWS, FEWEST_ROWS)
    }

    /// The same for prompts that nobody waits for.
    pub fn rows_behind(&self) -> usize {
        self.rows_from(FEWEST_ROWS_BEHIND, MEASURABLE_ROWS)
    }

    /// `fewest`, and how many as long as the speed is not known.
    fn rows_from(&self, fewest: usize, at_first: usize) -> usize {
        match (self.target, self.rows_per_second) {
            (None, _) => self.most_rows,
            (Some(_), None) => at_first.min(self.most_rows),
            (Some(target), Some(speed)) => {
                let rows = (speed * target.as_secs_f64()) as usize;
                rows.clamp(fewest.min(self.most_rows), self.most_rows)
            }
        }
    }

    /// Learns from a micro-batch of `rows` that took `duration`.
    pub fn observe(&mut self, rows: usize, duration: Duration) {
        if rows < MEASURABLE_ROWS || duration.is_zero() {
            return;
        }
        let speed = rows as f64 / duration.as_secs_f64();
        let known = self.rows_per_second.unwrap_or(speed);
        self.rows_per_second = Some(known + NEWEST * (speed - known));
    }

    /// Measured speed of prefill; `None` before the first measurable micro-batch.
    pub fn rows_per_second(&self) -> Option<f64> {
        self.rows_per_second
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TARGET: Option<Duration> = Some(Duration::from_millis(100));

    #[test]
    fn a_fast_model_gets_micro_batches_that_last_about_the_target() {
        let mut pace = Pace::new(TARGET, 512);
        pace.observe(64, Duration::from_millis(32));
        assert_eq!(pace.rows(), 200);
    }

    #[test]
    fn a_slow_model_still_gets_the_fewest_rows_and_a_very_fast_one_the_most() {
        let mut pace = Pace::new(TARGET, 512);
        pace.observe(32, Duration::from_secs(10));
        assert_eq!(pace.rows(), FEWEST_ROWS);
        for _ in 0..50 {
            pace.observe(512, Duration::from_millis(1));
        }
        assert_eq!(pace.rows(), 512);
    }

    #[test]
    fn what_nobody_waits_for_takes_fewer_rows_on_a_slow_machine() {
        let mut pace = Pace::new(TARGET, 512);
        assert_eq!(pace.rows_behind(), MEASURABLE_ROWS, "so that the speed is learned");
        pace.observe(32, Duration::from_millis(500));
        assert_eq!((pace.rows_behind(), pace.rows()), (FEWEST_ROWS_BEHIND, FEWEST_ROWS));
    }

    #[test]
    fn single_tokens_teach_nothing_about_prefill() {
        let mut pace = Pace::new(TARGET, 512);
        pace.observe(1, Duration::from_millis(50));
        assert_eq!(pace.rows_per_second(), None);
    }

    #[test]
    fn without_a_target_the_size_does_not_depend_on_the_clock() {
        let mut pace = Pace::new(None, 256);
        pace.observe(64, Duration::from_secs(9));
        assert_eq!(pace.rows(), 256);
    }
}
