//! Whether a missed bar fails a benchmark.
//!
//! - A figure without samples is NaN and misses its bar: a benchmark never passes on what it has not measured.

use anyhow::{Result, ensure};

#[derive(clap::Args)]
pub struct BarFlags {
    /// Print the figures without failing on a missed bar.
    #[arg(long)]
    no_bars: bool,
}

impl BarFlags {
    /// # Errors
    /// Lists the bars that were `missed`, unless `--no-bars` is given.
    pub fn check(&self, missed: &[String]) -> Result<()> {
        ensure!(self.no_bars || missed.is_empty(), "missed: {}", missed.join("; "));
        Ok(())
    }

    /// [`Self::check`] for a benchmark whose bars are those of its own model: a model of the user has none.
    pub fn check_on(&self, model: Option<&str>, missed: &[String]) -> Result<()> {
        if model.is_some() { Ok(()) } else { self.check(missed) }
    }
}

/// Whether a figure misses a bar that is its maximum.
pub fn is_above(figure: f64, bar: f64) -> bool {
    figure.is_nan() || figure > bar
}

/// Whether a figure misses a bar that is its minimum.
pub fn is_below(figure: f64, bar: f64) -> bool {
    figure.is_nan() || figure < bar
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::median_ms;

    #[test]
    fn a_figure_without_samples_misses_every_bar() {
        let none = median_ms(&[]);
        assert!(is_above(none, 1.1) && is_below(none, 1.1));
        assert!(is_above(1.2, 1.1) && !is_above(1.1, 1.1));
        assert!(is_below(1.0, 1.1) && !is_below(1.1, 1.1));
    }
}
