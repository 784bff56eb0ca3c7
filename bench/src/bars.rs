//! Whether a missed bar fails a benchmark.

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

    /// The same for a benchmark whose bars are those of its own model: one that `model` names has none.
    pub fn check_on(&self, model: Option<&str>, missed: &[String]) -> Result<()> {
        if model.is_some() { Ok(()) } else { self.check(missed) }
    }
}
