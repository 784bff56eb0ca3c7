//! How long micro-batches of answers take, by their rows.
//!
//! The curve is measured, because it is no line: llama.cpp's kernels for a processor compute rows in
//! groups of four, so that two rows may take longer than twice one, and eight only three times. What was
//! not measured is estimated, up to twice as many rows as were: so a wrong estimate costs the time of
//! one short micro-batch, not of the longest.

use std::time::Duration;

use super::MAX_ROWS;
use crate::backend::tile::TILE_ROWS;

/// Weight of the newest observation of a number of rows.
const NEWEST: f64 = 0.1;

/// Share of a surprise that holds for other numbers of rows too: the machine is busier, or the
/// conversation longer.
const COMMON: f64 = 0.3;

/// An observation counts as at most this many times slower or faster than expected: other programs may
/// have used the processor meanwhile.
const MAX_SURPRISE: f64 = 2.0;

/// After this many micro-batches with other numbers of rows, a number of rows is estimated again, so that one
/// that was measured in a bad moment is tried again.
const MAX_AGE: u32 = 1000;

/// The time of a micro-batch that fills a tile is estimated from one of at least as many rows.
const KNOWN_ROWS: usize = 8;

/// The measured seconds of micro-batches of 1 to [`MAX_ROWS`] rows, and of [`TILE_ROWS`].
#[derive(Clone, Debug)]
pub struct CostCurve {
    measured: [Option<Measured>; MAX_ROWS],
    tile: Option<Measured>,
    is_fixed: bool,
    /// Numbers of rows whose next micro-batch says nothing.
    warms_up: [bool; MAX_ROWS],
}

#[derive(Clone, Copy, Debug)]
struct Measured {
    seconds: f64,
    /// Micro-batches of other numbers of rows since.
    age: u32,
}

impl CostCurve {
    /// `on_devices`: the first micro-batch of each number of rows does not count, because it may load or
    /// compile kernels.
    pub fn measured(on_devices: bool) -> Self {
        let warms_up = [on_devices; MAX_ROWS];
        Self { measured: [None; MAX_ROWS], tile: None, is_fixed: false, warms_up }
    }

    /// Every micro-batch counts as this long, so that nothing depends on the clock.
    pub fn fixed(seconds: f64) -> Self {
        let one = Some(Measured { seconds, age: 0 });
        let warms_up = [false; MAX_ROWS];
        Self { measured: [one; MAX_ROWS], tile: one, is_fixed: true, warms_up }
    }

    /// Learns from a micro-batch of `rows` that took `duration`.
    pub fn observe(&mut self, rows: usize, duration: Duration) {
        let seconds = duration.as_secs_f64();
        if self.is_fixed || seconds == 0.0 {
            return;
        }
        let Some(observed) = self.of(rows) else { return };
        let known = observed.map_or(seconds, |known| known.seconds);
        if self.warms_up.get_mut(rows - 1).is_some_and(std::mem::take) {
            return;
        }
        let surprise = (seconds / known).clamp(MAX_SURPRISE.recip(), MAX_SURPRISE);
        let common = surprise.powf(COMMON);
        for measured in self.measured.iter_mut().chain([&mut self.tile]) {
            if let Some(other) = measured {
                other.seconds *= common;
                other.age += 1;
            }
            measured.take_if(|other| other.age > MAX_AGE);
        }
        let seconds = known * (common + NEWEST * (surprise - common));
        if let Some(observed) = self.of(rows) {
            *observed = Some(Measured { seconds, age: 0 });
        }
    }

    /// `None` for a number of rows that is not measured.
    fn of(&mut self, rows: usize) -> Option<&mut Option<Measured>> {
        match rows {
            TILE_ROWS => Some(&mut self.tile),
            _ => self.measured.get_mut(rows.checked_sub(1)?),
        }
    }

    /// The seconds of a micro-batch of [`TILE_ROWS`]: as measured, or estimated from the longest other one that was.
    /// `ratio`: the time of the former by that of one of so many rows. `None` while that has few rows.
    pub fn tile_seconds(&self, ratio: impl Fn(usize) -> f64) -> Option<f64> {
        let measured = |rows: usize| Some(self.measured[rows - 1]?.seconds * ratio(rows));
        let estimated = || (KNOWN_ROWS..=MAX_ROWS).rev().find_map(measured);
        self.tile.map(|tile| tile.seconds).or_else(estimated)
    }

    /// The seconds of a micro-batch of `rows`: as measured, or estimated from those of fewer and of
    /// more rows. `prompt_row`: seconds of a prompt's row, which is what further rows take at best.
    /// `prompt_row` counts as half of the rows below it at most: a prompt's pace that was measured in a bad moment
    /// must not keep the first draft from being tried. `None` for more than [`MAX_ROWS`], and for more
    /// than twice those that were measured.
    pub fn seconds(&self, rows: usize, prompt_row: Option<f64>) -> Option<f64> {
        let measured = |rows: usize| Some((rows, self.measured[rows - 1]?.seconds));
        let at_most = self.measured.get(..rows)?.len();
        let (fewer, below) = (1..=at_most).rev().find_map(measured)?;
        let further = (rows - fewer) as f64;
        let Some((more, above)) = (rows..=MAX_ROWS).find_map(measured) else {
            let at_most = below / 2.0;
            let estimate = below + further * prompt_row.map_or(at_most, |row| row.min(at_most));
            return (rows <= 2 * fewer).then_some(estimate);
        };
        let distance = (more - fewer).max(1) as f64;
        Some(below + (above - below) * further / distance)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: f64) -> Duration {
        Duration::from_secs_f64(ms / 1e3)
    }

    fn known(curve: &CostCurve, rows: usize) -> f64 {
        curve.seconds(rows, Some(0.008)).map_or(f64::NAN, |seconds| (seconds * 1e4).round() / 10.0)
    }

    #[test]
    fn what_is_not_measured_is_estimated_from_what_is() {
        let mut curve = CostCurve::measured(false);
        assert_eq!(curve.seconds(1, None), None);
        curve.observe(1, ms(20.0));
        assert_eq!((known(&curve, 1), known(&curve, 2)), (20.0, 28.0));
        assert_eq!(curve.seconds(2, None), Some(0.03), "the speed of prompts is unknown");
        assert_eq!(curve.seconds(2, Some(1.0)), Some(0.03), "that of prompts was a bad moment's");
        assert_eq!(curve.seconds(3, None), None, "two rows are tried first");
        curve.observe(9, ms(100.0));
        assert_eq!((known(&curve, 5), known(&curve, 9), known(&curve, 10)), (60.0, 100.0, 108.0));
        assert_eq!(curve.seconds(MAX_ROWS + 1, None), None);
    }

    #[test]
    fn a_busier_machine_makes_all_micro_batches_longer_and_one_stall_few() {
        let mut curve = CostCurve::measured(false);
        curve.observe(8, ms(70.0));
        curve.observe(1, ms(20.0));
        curve.observe(1, ms(5_000.0));
        assert!(known(&curve, 1) < 30.0 && known(&curve, 8) < 90.0, "{curve:?}");
        for _ in 0..60 {
            curve.observe(1, ms(40.0));
        }
        assert!((38.0..41.0).contains(&known(&curve, 1)), "{}", known(&curve, 1));
        assert!((115.0..145.0).contains(&known(&curve, 8)), "{}", known(&curve, 8));
    }

    #[test]
    fn a_number_of_rows_that_was_measured_in_a_bad_moment_is_tried_again() {
        let mut curve = CostCurve::measured(false);
        curve.observe(2, ms(200.0));
        for _ in 0..=MAX_AGE {
            curve.observe(1, ms(20.0));
        }
        assert_eq!(known(&curve, 2), 28.0);
    }

    #[test]
    fn a_fixed_curve_does_not_depend_on_the_clock() {
        let mut curve = CostCurve::fixed(1.0);
        curve.observe(4, ms(200.0));
        assert_eq!(curve.seconds(4, None), curve.seconds(1, None));
        assert_eq!(curve.seconds(MAX_ROWS + 1, None), None);
    }

    #[test]
    fn a_tile_is_estimated_from_the_most_rows_until_it_is_measured() {
        let seconds = |curve: &CostCurve| {
            curve.tile_seconds(|rows| 64.0 / rows as f64).map(|seconds| (seconds * 1e3).round())
        };
        let mut curve = CostCurve::measured(false);
        curve.observe(4, ms(30.0));
        assert_eq!(seconds(&curve), None, "four rows say little of 64");
        curve.observe(8, ms(80.0));
        assert_eq!(seconds(&curve), Some(640.0));
        curve.observe(16, ms(100.0));
        assert_eq!(seconds(&curve), Some(400.0));
        curve.observe(TILE_ROWS, ms(300.0));
        assert_eq!(seconds(&curve), Some(300.0));
        curve.observe(TILE_ROWS - 1, ms(900.0));
        assert_eq!(known(&curve, 16), 100.0, "it says nothing of fewer rows");
        assert_eq!(CostCurve::fixed(1.0).tile_seconds(|_| 9.0), Some(1.0));
    }

    #[test]
    fn on_a_device_the_first_micro_batch_of_a_number_of_rows_does_not_count() {
        let mut curve = CostCurve::measured(true);
        curve.observe(1, ms(900.0));
        assert_eq!(curve.seconds(1, None), None);
        curve.observe(1, ms(10.0));
        curve.observe(2, ms(900.0));
        assert_eq!((known(&curve, 1), known(&curve, 2)), (10.0, 15.0));
    }
}
