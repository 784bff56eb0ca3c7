//! How many rows a micro-batch has, so that each lasts about [`Pace::target`].
//!
//! - Pure: durations in, a number of rows out.
//! - The engine admits, cancels and interleaves turns between two micro-batches, so the length of a
//!   prefill micro-batch bounds how long they wait.
//! - A prompt without neighbours gets longer micro-batches, which compute a token faster. A caller
//!   cuts such a one, and what it had computed is lost: after a cut, they grow again from the
//!   shortest, twofold each, so that about as much is lost at most as was computed since.

use std::time::Duration;

use crate::backend::tile::TILE_ROWS;

/// Every micro-batch reads all weights once: fewer rows waste that.
const MIN_ROWS: usize = 32;

/// For background prompts: on a slow machine even [`MIN_ROWS`] take several times the target, by
/// which an answer that arrives meanwhile is delayed.
const MIN_BACKGROUND_ROWS: usize = 8;

/// Batches below this size measure the reading of weights, not the computation of rows.
const MEASURABLE_ROWS: usize = 16;

/// A prompt alone has at least as many, whatever the speed: from here on, a token hardly gets cheaper
/// (`cargo xtask bench cold --micro-batch N`; docs/MEASUREMENTS.md).
const MIN_ROWS_ALONE: usize = 128;

/// How many targets a larger micro-batch of a prompt alone lasts, which bounds what a cut loses.
const ALONE: u32 = 20;

/// Weight of the newest observation.
const NEWEST: f64 = 0.3;

/// Follows the measured speed of prefill.
#[derive(Clone, Debug)]
pub struct Pace {
    target: Option<Duration>,
    max_rows: usize,
    rows_per_second: Option<f64>,
    /// Maximum rows of a prompt alone, since a cut.
    regrown: Option<usize>,
}

impl Pace {
    /// Aims at `target` per micro-batch and never exceeds `max_rows`. Without a target every
    /// micro-batch may have `max_rows`, whatever the speed: the same turns then always make the
    /// same micro-batches.
    pub fn new(target: Option<Duration>, max_rows: usize) -> Self {
        Self { target, max_rows, rows_per_second: None, regrown: None }
    }

    /// Maximum rows of the next micro-batch.
    pub fn rows(&self) -> usize {
        self.rows_from(MIN_ROWS, MIN_ROWS)
    }

    /// The same for background prompts.
    pub fn background_rows(&self) -> usize {
        self.rows_from(MIN_BACKGROUND_ROWS, MEASURABLE_ROWS)
    }

    /// Rows of the next micro-batch of a prompt that has `left` tokens left, while nothing else is to be
    /// computed. The rest gets micro-batches of about equal size: one of a few rows would read all
    /// weights for them. All but the last fill their tiles, the last of which costs as much as a full one; matrix
    /// products take rows by fours.
    pub fn rows_alone(&self, left: usize) -> usize {
        let most = self.max_rows_alone().max(1);
        if left <= most {
            return left;
        }
        let equal = left.div_ceil(left.div_ceil(most));
        match equal.next_multiple_of(TILE_ROWS).min(most - most % TILE_ROWS) {
            0 => equal, // A tile has more rows than a micro-batch.
            filled => filled,
        }
    }

    fn max_rows_alone(&self) -> usize {
        let short = self.rows();
        let target = self.target.map(|target| target * ALONE);
        let long = self.rows_within(target, MIN_ROWS_ALONE, MIN_ROWS);
        long.min(self.regrown.unwrap_or(long)).max(short)
    }

    fn rows_from(&self, min: usize, initial: usize) -> usize {
        self.rows_within(self.target, min, initial)
    }

    /// `initial`: while the speed is unknown.
    fn rows_within(&self, target: Option<Duration>, min: usize, initial: usize) -> usize {
        match (target, self.rows_per_second) {
            (None, _) => self.max_rows,
            (Some(_), None) => initial.min(self.max_rows),
            (Some(target), Some(speed)) => {
                let rows = (speed * target.as_secs_f64()) as usize;
                rows.clamp(min.min(self.max_rows), self.max_rows)
            }
        }
    }

    /// A micro-batch was cut after `duration`. One that had hardly begun has lost nothing.
    pub fn observe_cut(&mut self, duration: Duration) {
        if self.target.is_some_and(|target| duration >= target) {
            self.regrown = Some(self.rows());
        }
    }

    /// Learns from a micro-batch of `rows` that took `duration`.
    pub fn observe(&mut self, rows: usize, duration: Duration) {
        self.regrown =
            self.regrown.map(|most| most.max(2 * rows)).filter(|&most| most < self.max_rows);
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
    fn a_slow_model_gets_min_rows_and_a_very_fast_one_max_rows() {
        let mut pace = Pace::new(TARGET, 512);
        pace.observe(32, Duration::from_secs(10));
        assert_eq!(pace.rows(), MIN_ROWS);
        for _ in 0..50 {
            pace.observe(512, Duration::from_millis(1));
        }
        assert_eq!(pace.rows(), 512);
    }

    #[test]
    fn background_prompts_have_fewer_rows_on_a_slow_machine() {
        let mut pace = Pace::new(TARGET, 512);
        assert_eq!(pace.background_rows(), MEASURABLE_ROWS, "so that the speed is learned");
        pace.observe(32, Duration::from_millis(500));
        assert_eq!((pace.background_rows(), pace.rows()), (MIN_BACKGROUND_ROWS, MIN_ROWS));
    }

    #[test]
    fn single_tokens_teach_nothing_about_prefill() {
        let mut pace = Pace::new(TARGET, 512);
        pace.observe(1, Duration::from_millis(50));
        assert_eq!(pace.rows_per_second(), None);
    }

    #[test]
    fn a_prompt_alone_gets_long_micro_batches_which_grow_again_after_a_cut() {
        let mut pace = Pace::new(TARGET, 512);
        assert_eq!(pace.max_rows_alone(), MIN_ROWS, "until the speed is known");
        let second = Duration::from_secs(1);
        pace.observe(125, second);
        assert_eq!((pace.rows(), pace.max_rows_alone()), (MIN_ROWS, 250));
        pace.observe_cut(Duration::from_millis(3));
        assert_eq!(pace.max_rows_alone(), 250, "nothing was lost");
        pace.observe_cut(second);
        let grown: Vec<usize> = (0..4)
            .map(|_| {
                let rows = pace.max_rows_alone();
                pace.observe(rows, second * u32::try_from(rows).unwrap() / 125);
                rows
            })
            .collect();
        assert_eq!(grown, [32, 64, 128, 250]);
    }

    #[test]
    fn a_prompt_alone_is_divided_evenly() {
        let pace = Pace::new(None, 512);
        assert_eq!([921, 1025, 512, 1].map(|left| pace.rows_alone(left)), [512, 384, 512, 1]);
        let narrow = Pace::new(None, 100);
        let rows = [100, 150, 86].map(|left| narrow.rows_alone(left));
        assert_eq!(rows, [100, 64, 86], "what one micro-batch can have is not divided");
        assert_eq!(Pace::new(None, 48).rows_alone(50), 25, "it cannot fill a tile");
    }

    #[test]
    fn without_a_target_the_size_does_not_depend_on_the_clock() {
        let mut pace = Pace::new(None, 256);
        pace.observe(64, Duration::from_secs(9));
        assert_eq!(pace.rows(), 256);
    }
}
