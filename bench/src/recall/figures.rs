//! Figures of many probes.

use std::fmt;

use hob_runtime::BackReason;

use super::probe::Outcome;

/// A part of a number of trials.
#[derive(Clone, Copy, Debug, Default)]
pub struct Part {
    pub of: usize,
    pub hits: usize,
}

impl Part {
    pub fn add(&mut self, is_hit: bool) {
        self.of += 1;
        self.hits += usize::from(is_hit);
    }

    pub fn value(self) -> f64 {
        self.hits as f64 / self.of.max(1) as f64
    }

    /// The bounds of Wilson's score interval at 95 %.
    pub fn wilson(self) -> (f64, f64) {
        const Z: f64 = 1.959_964;
        let (n, p) = (self.of.max(1) as f64, self.value());
        let centre = p + Z * Z / (2.0 * n);
        let half = Z * (p * (1.0 - p) / n + Z * Z / (4.0 * n * n)).sqrt();
        let scale = 1.0 + Z * Z / n;
        (((centre - half) / scale).max(0.0), ((centre + half) / scale).min(1.0))
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (low, high) = self.wilson();
        write!(f, "{:.2} ({low:.2} to {high:.2})", self.value())
    }
}

/// The probes of one engine and budget, beside those of full context.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    pub right: Part,
    pub resident: Part,
    /// Probes whose budget was refused. They count as wrong, and as not resident.
    pub refused: usize,
    /// Sums over the other probes.
    more_loss: f64,
    overlap: f64,
    pub mentions: usize,
    pub words: usize,
    pub meanings: usize,
    pub groups: usize,
}

impl Figures {
    pub fn add(&mut self, outcome: &Outcome, full: &Outcome) {
        self.right.add(outcome.is_right);
        self.resident.add(outcome.is_resident);
        self.more_loss += outcome.loss - full.loss;
        self.overlap += outcome.overlap(full);
        match outcome.came_back {
            Some(BackReason::Mention) => self.mentions += 1,
            Some(BackReason::Words) => self.words += 1,
            Some(BackReason::Meaning) => self.meanings += 1,
            Some(BackReason::Group) => self.groups += 1,
            _ => {}
        }
    }

    pub fn refuse(&mut self) {
        self.refused += 1;
        self.right.add(false);
        self.resident.add(false);
    }

    /// The mean loss beyond that of full context, in nats.
    pub fn more_loss(&self) -> f64 {
        self.more_loss / self.counted()
    }

    pub fn overlap(&self) -> f64 {
        self.overlap / self.counted()
    }

    fn counted(&self) -> f64 {
        self.right.of.saturating_sub(self.refused).max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_is_that_of_the_literature() {
        // 81 of 263: Newcombe, 1998, Statistics in Medicine 17, 857-872, table I.
        let (low, high) = Part { of: 263, hits: 81 }.wilson();
        assert_eq!((format!("{low:.4}"), format!("{high:.4}")), ("0.2553".into(), "0.3662".into()));
    }
}
