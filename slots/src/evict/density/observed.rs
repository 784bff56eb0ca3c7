//! The observed reuse of each class, of wider classes and of all blocks.
//!
//! - A class with few observations takes its chances from the wider class, and that one from all blocks.
//! - Observations of earlier periods count less.

use super::classes::Class;
use super::histogram::{AGES, Chances, Histogram};
use super::history::History;

/// For each period: half after 4,000 runs.
const FADING: f32 = 0.994_47;

/// The weight, in runs, of the wider class where a class has few observations.
const PRIOR_RUNS: f32 = 12.0;

/// The prior: one block in this many is reused per bucket.
const FIRST_CHANCE: f32 = 0.05;

#[derive(Clone, Debug)]
pub struct Observed {
    all: Histogram,
    /// Histograms of the classes without size and sharing.
    coarse: Vec<Histogram>,
    fine: Vec<Histogram>,
}

impl Default for Observed {
    fn default() -> Self {
        Self {
            all: Histogram::default(),
            coarse: vec![Histogram::default(); Class::COARSE_COUNT],
            fine: vec![Histogram::default(); Class::COUNT],
        }
    }
}

impl Observed {
    /// Adds the observations of `history`.
    pub fn add(&mut self, history: &History) {
        for (class, histogram) in history.classes() {
            self.all.add(histogram);
            // Classes without size and sharing come first in the order of classes.
            self.coarse[class * Class::COARSE_COUNT / Class::COUNT].add(histogram);
            self.fine[class].add(histogram);
        }
    }

    /// All observations, faded until `period`.
    pub fn history(&self, period: u64) -> History {
        let faded = |histogram: &Histogram| {
            let mut histogram = histogram.clone();
            histogram.fade(period, FADING);
            let (used, survived) = histogram.weights();
            Histogram::of(used, survived)
        };
        History::new(self.fine.iter().map(faded).enumerate())
    }

    /// Changes the histograms of a class and of the wider ones by an observation of `period`.
    pub fn change(&mut self, class: Class, period: u64, change: impl Fn(&mut Histogram)) {
        for histogram in self.of_class(class, period) {
            change(histogram);
        }
    }

    /// The chances of a class in `period`.
    pub fn chances(&mut self, class: Class, period: u64) -> Chances {
        let first: Chances = [FIRST_CHANCE; AGES];
        let [all, coarse, fine] = self.of_class(class, period);
        let all = all.chances(&first, PRIOR_RUNS);
        let coarse = coarse.chances(&all, PRIOR_RUNS);
        fine.chances(&coarse, PRIOR_RUNS)
    }

    /// The histograms of a class, the widest first, faded until `period`.
    fn of_class(&mut self, class: Class, period: u64) -> [&mut Histogram; 3] {
        let (coarse, fine) = (class.coarse_index(), class.index());
        let mut histograms = [&mut self.all, &mut self.coarse[coarse], &mut self.fine[fine]];
        for histogram in &mut histograms {
            histogram.fade(period, FADING);
        }
        histograms
    }
}
