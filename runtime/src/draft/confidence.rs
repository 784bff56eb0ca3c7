//! How likely a token of the draft model is the one that will be sampled.
//!
//! - A chance for each class of the probability that the draft model itself gave the token: one that
//!   it is sure of is right more often, by how much depends on the two models.
//! - It learns from every guess whose place is sampled, computed or not.

use super::cumulated;

/// Upper bounds of the probabilities of a class; the last class has none.
const BOUNDS: [f32; 4] = [0.3, 0.6, 0.85, 0.97];

/// Before anything is known: the model's own word, with some doubt.
const PRIOR: [f64; BOUNDS.len() + 1] = [0.2, 0.4, 0.6, 0.75, 0.9];

/// Prior probability that a guess of any class is right.
const PRIOR_MEAN: f64 = 0.6;

/// Weight of the newest guess.
const NEWEST: f64 = 1.0 / 24.0;

/// Guesses after which a draft model is known.
const KNOWN_GUESSES: u64 = 32;

/// The guesses of one draft model.
#[derive(Clone, Debug)]
pub struct Confidence {
    chances: [f64; BOUNDS.len() + 1],
    mean: f64,
    observed: u64,
}

impl Default for Confidence {
    fn default() -> Self {
        Self { chances: PRIOR, mean: PRIOR_MEAN, observed: 0 }
    }
}

impl Confidence {
    /// The chances that the first guess is right, the first two, and so on. `probabilities`: the draft
    /// model's own.
    pub fn chances(&self, probabilities: &[f32]) -> Vec<f64> {
        cumulated(probabilities.iter().map(|&probability| self.chances[class(probability)]))
    }

    /// The chances of `count` guesses that are not made yet: that the first is right, the first two, and so on.
    pub fn expected(&self, count: usize) -> Vec<f64> {
        cumulated(std::iter::repeat_n(self.mean, count))
    }

    /// A guess was right or wrong.
    pub fn observe(&mut self, probability: f32, is_right: bool) {
        let towards = |chance: &mut f64| {
            *chance += NEWEST * (f64::from(u8::from(is_right)) - *chance);
        };
        towards(&mut self.chances[class(probability)]);
        towards(&mut self.mean);
        self.observed += 1;
    }

    /// Whether enough of its guesses were right or wrong to judge it.
    pub fn is_known(&self) -> bool {
        self.observed >= KNOWN_GUESSES
    }
}

fn class(probability: f32) -> usize {
    BOUNDS.partition_point(|&bound| bound <= probability)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_model_is_sure_of_is_trusted_apart_from_the_rest() {
        let mut confidence = Confidence::default();
        for _ in 0..120 {
            confidence.observe(0.99, true);
            confidence.observe(0.2, false);
        }
        let chances = confidence.chances(&[0.99, 0.99, 0.2]);
        assert!(chances[1] > 0.9 && chances[2] < 0.02, "{chances:?}");
        let expected = confidence.expected(2);
        assert!((0.4..0.6).contains(&expected[0]) && expected[1] < 0.36, "{expected:?}");
    }
}
