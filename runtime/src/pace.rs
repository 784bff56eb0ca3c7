//! How many rows a micro-batch has, so that each lasts about [`Pace::target`].
//!
//! - Pure: durations in, a number of rows out.
//! - The engine admits, cancels and interleaves turns between two micro-batches, so the length of a
//!   prefill micro-batch bounds how long they wait.
//! - Beside many answers a prompt has more rows than last that long, within ten targets: each micro-batch delays them all.
//! - A prompt without neighbours gets longer micro-batches, which compute a token faster. A caller
//!   cuts such a one, and what it had computed is lost: after a cut, they grow again from the
//!   shortest, twofold each, so that about as much is lost at most as was computed since.
//! - Where it cannot be cut, an arrival waits for its end: it lasts 2.5 targets, instead of 20.
//! - Short micro-batches teach a speed that is too low for a longer one, which then teaches a higher speed: the
//!   sizes of a prompt alone grow until one lasts its target.
//! - A known speed at most doubles with each observation: a single micro-batch that was measured as far too fast cannot
//!   make the next one last many targets.

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

/// For each answer beside a prompt. With 4 answers, 60 rows instead of 32 double the longest gaps and hardly help the
/// prompt; with 16, 112 rows make its first token come in 0.7 of the time.
const ROWS_PER_ANSWER: usize = 8;

/// How many targets a larger micro-batch of a prompt alone lasts, which bounds what a cut loses.
const ALONE: u32 = 20;

/// How many targets such a micro-batch lasts where it cannot be interrupted: an arrival waits for its end.
const UNCUT: f64 = 2.5;

/// Where [`MIN_ROWS_ALONE`], or the tiles beside many answers, would last more targets and cannot be cut, a prompt has
/// fewer rows.
const MAX_UNCUT: u32 = 10;

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

    /// Maximum rows of prompts in the next micro-batch, in which `answers` have rows too. Beside many answers they
    /// fill tiles together, within the longest micro-batch that cannot be cut: the fewer micro-batches a prompt takes,
    /// the fewer tokens of each answer it delays.
    pub fn prompt_rows_beside(&self, answers: usize) -> usize {
        let whole = (ROWS_PER_ANSWER * answers).min(MIN_ROWS_ALONE);
        let tiles = whole - whole % TILE_ROWS;
        let longest = self.rows_within(self.longest_uncut(), MIN_ROWS, MIN_ROWS);
        let min = tiles.saturating_sub(answers).min(longest);
        self.rows_from(MIN_ROWS.max(min), MIN_ROWS)
    }

    /// Maximum rows of the next micro-batch for background prompts.
    pub fn background_rows(&self) -> usize {
        self.rows_from(MIN_BACKGROUND_ROWS, MEASURABLE_ROWS)
    }

    /// Rows of the next micro-batch of a prompt that has `left` tokens left, while nothing else is to be
    /// computed. The rest gets micro-batches of about equal size: one of a few rows would read all
    /// weights for them. All but the last fill their tiles, the last of which costs as much as a full one; matrix
    /// products take rows by fours.
    pub fn rows_alone(&self, left: usize) -> usize {
        divided(left, self.max_rows_alone())
    }

    /// [`Self::rows_alone`] where the micro-batch cannot be interrupted.
    pub fn rows_alone_uncut(&self, left: usize) -> usize {
        divided(left, self.max_rows_uncut())
    }

    /// How long a micro-batch may last that cannot be cut; `None`: however long.
    pub fn longest_uncut(&self) -> Option<Duration> {
        self.target.map(|target| target * MAX_UNCUT)
    }

    fn max_rows_uncut(&self) -> usize {
        let long = self.target.map(|target| target.mul_f64(UNCUT));
        let longest = self.rows_within(self.longest_uncut(), MIN_ROWS, MIN_ROWS);
        let min = longest.min(MIN_ROWS_ALONE);
        self.rows_within(long, min, MIN_ROWS)
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
        self.rows_per_second = Some((known + NEWEST * (speed - known)).min(2.0 * known));
    }

    /// Measured speed of prefill; `None` before the first measurable micro-batch.
    pub fn rows_per_second(&self) -> Option<f64> {
        self.rows_per_second
    }
}

/// Rows of the next of the micro-batches of about equal size, of `most` rows at most, which compute `left` tokens.
fn divided(left: usize, most: usize) -> usize {
    let most = most.max(1);
    if left <= most {
        return left;
    }
    let equal = left.div_ceil(left.div_ceil(most));
    match equal.next_multiple_of(TILE_ROWS).min(most - most % TILE_ROWS) {
        0 => equal, // A tile has more rows than a micro-batch.
        filled => filled,
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
    fn beside_many_answers_a_slow_model_fills_one_or_two_tiles_with_them() {
        let mut pace = Pace::new(TARGET, 512);
        assert_eq!(pace.prompt_rows_beside(16), MIN_ROWS, "until the speed is known");
        pace.observe(128, Duration::from_secs(1));
        let rows = [0, 1, 4, 7, 8, 15, 16, 100].map(|answers| pace.prompt_rows_beside(answers));
        assert_eq!(rows, [32, 32, 32, 32, 56, 49, 112, 32]);
        let mut slower = Pace::new(TARGET, 512);
        slower.observe(50, Duration::from_secs(1));
        assert_eq!(slower.prompt_rows_beside(16), 50, "it lasts a second");
        let mut fast = Pace::new(TARGET, 512);
        fast.observe(64, Duration::from_millis(32));
        assert_eq!(fast.prompt_rows_beside(8), 200, "it lasts its target");
    }

    #[test]
    fn one_observation_that_is_far_too_fast_doubles_the_rows_at_most() {
        let mut pace = Pace::new(TARGET, 4096);
        let second = Duration::from_secs(1);
        pace.observe(640, second);
        assert_eq!((pace.rows(), pace.max_rows_uncut()), (64, 160));
        pace.observe(64, Duration::from_micros(1));
        assert_eq!((pace.rows(), pace.max_rows_uncut()), (128, 320));
        (0..20).for_each(|_| pace.observe(640, second));
        assert_eq!(pace.rows(), 64, "it is forgotten");
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
    fn a_prompt_alone_that_cannot_be_cut_gets_micro_batches_of_250_ms_or_128_rows_within_a_second()
    {
        assert_eq!(Pace::new(TARGET, 512).max_rows_uncut(), MIN_ROWS, "until the speed is known");
        let sizes = [20, 60, 300, 1000, 9000].map(|rows_per_second| {
            let mut pace = Pace::new(TARGET, 512);
            pace.observe(rows_per_second, Duration::from_secs(1));
            (pace.rows(), pace.max_rows_uncut())
        });
        assert_eq!(sizes, [(32, 32), (32, 60), (32, 128), (100, 250), (512, 512)]);
        assert_eq!(Pace::new(None, 512).rows_alone_uncut(1025), 384, "it is divided evenly, too");
    }

    #[test]
    fn micro_batches_that_cannot_be_cut_outgrow_the_speed_of_short_ones() {
        let mut pace = Pace::new(TARGET, 512);
        let duration_of = |rows: usize| Duration::from_micros(60_000 + 500 * rows as u64);
        pace.observe(MIN_ROWS, duration_of(MIN_ROWS));
        let sizes: Vec<usize> = (0..20)
            .map(|_| {
                let rows = pace.max_rows_uncut();
                pace.observe(rows, duration_of(rows));
                rows
            })
            .collect();
        assert_eq!(sizes[0], MIN_ROWS_ALONE);
        assert!((360..=380).contains(&sizes[19]), "380 rows take 250 ms: {sizes:?}");
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
