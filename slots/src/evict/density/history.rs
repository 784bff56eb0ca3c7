//! What a policy has learned, as a text that outlives the process.
//!
//! - Weights of uses and survivals by class and age, see [`Histogram`]; no names, no times of day.
//! - A text of another version, or with an unknown class or an impossible weight, is no history.

use serde::{Deserialize, Serialize};

use super::classes::Class;
use super::histogram::{AGES, Histogram};

/// Changes with the meaning of a class or of an age.
const VERSION: u32 = 1;

/// Observed reuse by class of blocks. The default: nothing is known.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct History {
    classes: Vec<(usize, Histogram)>,
}

#[derive(Serialize, Deserialize)]
struct Text {
    version: u32,
    #[serde(default)]
    class: Vec<OfClass>,
}

#[derive(Serialize, Deserialize)]
struct OfClass {
    id: usize,
    used: Vec<f32>,
    survived: Vec<f32>,
}

impl History {
    /// Fitted by `hob simulate --fit` from recorded requests: what a policy assumes before it has
    /// seen any.
    pub fn prior() -> Self {
        let prior = Self::from_text(include_str!("prior.toml"));
        prior.expect("the shipped prior is of this version")
    }

    pub fn from_text(text: &str) -> Option<Self> {
        let Text { version, class } = toml::from_str(text).ok()?;
        let classes = class.into_iter().map(OfClass::read).collect::<Option<Vec<_>>>()?;
        (version == VERSION).then_some(Self { classes })
    }

    pub fn to_text(&self) -> String {
        let class = self.classes.iter().map(|(id, histogram)| OfClass::of(*id, histogram));
        let text = Text { version: VERSION, class: class.collect() };
        toml::to_string(&text).expect("numbers can be written")
    }

    /// These chances, as observed in `runs` runs at most: newer observations outweigh them sooner.
    #[must_use]
    pub fn of_at_most(mut self, runs: f32) -> Self {
        let seen: f32 = self.classes.iter().map(|(_, histogram)| histogram.seen()).sum();
        let factor = (runs / seen).min(1.0);
        self.classes.iter_mut().for_each(|(_, histogram)| histogram.scale(factor));
        self
    }

    /// The observations of both.
    #[must_use]
    pub fn and(mut self, other: &Self) -> Self {
        for (class, histogram) in &other.classes {
            match self.classes.iter_mut().find(|(known, _)| known == class) {
                Some((_, known)) => known.add(histogram),
                None => self.classes.push((*class, histogram.clone())),
            }
        }
        self.classes.sort_by_key(|(class, _)| *class);
        self
    }

    pub(super) fn new(classes: impl Iterator<Item = (usize, Histogram)>) -> Self {
        let known = classes.filter(|(_, histogram)| histogram.seen() > 0.0);
        Self { classes: known.collect() }
    }

    /// By class.
    pub(super) fn classes(&self) -> impl Iterator<Item = (usize, &Histogram)> {
        self.classes.iter().map(|(class, histogram)| (*class, histogram))
    }
}

impl OfClass {
    fn of(id: usize, histogram: &Histogram) -> Self {
        let (used, survived) = histogram.weights();
        Self { id, used: used.map(rounded).into(), survived: survived.map(rounded).into() }
    }

    fn read(self) -> Option<(usize, Histogram)> {
        let weights = |weights: Vec<f32>| -> Option<[f32; AGES]> {
            let possible = weights.iter().all(|weight| weight.is_finite() && *weight >= 0.0);
            weights.try_into().ok().filter(|_| possible)
        };
        let histogram = Histogram::of(weights(self.used)?, weights(self.survived)?);
        (self.id < Class::COUNT).then_some((self.id, histogram))
    }
}

/// Four decimals are more than was measured.
fn rounded(weight: f32) -> f32 {
    (weight * 1e4).round() / 1e4
}

#[cfg(test)]
mod tests {
    use super::*;

    fn history() -> History {
        let mut histogram = Histogram::default();
        histogram.add_used(3, 1.5);
        histogram.add_survived(0, 2.0);
        History::new([(7, histogram)].into_iter())
    }

    #[test]
    fn a_written_history_is_read_back() {
        assert_eq!(History::from_text(&history().to_text()), Some(history()));
        assert_eq!(History::from_text(&History::default().to_text()), Some(History::default()));
    }

    #[test]
    fn a_damaged_history_is_none() {
        let text = history().to_text();
        for damaged in [
            String::new(),
            text[..text.len() / 2].to_owned(),
            text.replace("version = 1", "version = 2"),
            text.replace("id = 7", &format!("id = {}", Class::COUNT)),
            text.replace("1.5", "-1.5"),
            text.replace("1.5", "nan"),
            text.replace("1.5", "1.5, 0.0"),
        ] {
            assert_eq!(History::from_text(&damaged), None, "{damaged}");
        }
    }

    #[test]
    fn the_prior_is_a_few_hundred_runs() {
        let seen: f32 = History::prior().classes().map(|(_, histogram)| histogram.seen()).sum();
        assert!((50.0..=300.0).contains(&seen), "{seen}");
    }

    #[test]
    fn a_scaled_history_keeps_its_chances() {
        let seen = |history: &History| history.classes().map(|(_, h)| h.seen()).sum::<f32>();
        assert_eq!(seen(&history().of_at_most(1.0)), 1.0);
        assert_eq!(history().of_at_most(1e9), history());
    }
}
