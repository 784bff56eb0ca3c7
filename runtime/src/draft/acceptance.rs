//! How likely a guessed token is the one that will be sampled.
//!
//! - The engine reports each guess whose place it samples, computed or not. So [`Acceptance`] learns at
//!   no cost, and notices a text that begins to repeat while the engine drafts nothing.
//! - [`Acceptance`] has a chance for each class of match: behind 3 equal tokens anything may follow,
//!   behind 32 a copy goes on.

use super::cumulated;

/// Upper bounds of the matched tokens of a class; the last class has none.
const BOUNDS: [usize; 4] = [4, 6, 9, 17];

/// Before anything is known. The short ones would cost time on a processor until they prove right.
const PRIOR: [f64; BOUNDS.len() + 1] = [0.2, 0.3, 0.45, 0.65, 0.85];

/// Weight of the newest guess.
const NEWEST: f64 = 1.0 / 12.0;

/// The guesses of one answer.
#[derive(Clone, Debug)]
pub struct Acceptance {
    chances: [f64; BOUNDS.len() + 1],
}

impl Default for Acceptance {
    fn default() -> Self {
        Self { chances: PRIOR }
    }
}

impl Acceptance {
    /// The chances that the first guess behind `matched` equal tokens is right, the first two, and so
    /// on up to `count`.
    pub fn chances(&self, matched: usize, count: usize) -> Vec<f64> {
        cumulated((matched..matched + count).map(|matched| self.chances[class(matched)]))
    }

    /// The guess behind `matched` equal tokens was right or wrong.
    pub fn observe(&mut self, matched: usize, is_right: bool) {
        let chance = &mut self.chances[class(matched)];
        *chance += NEWEST * (f64::from(u8::from(is_right)) - *chance);
    }
}

fn class(matched: usize) -> usize {
    BOUNDS.partition_point(|&bound| bound <= matched)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guesses_behind_long_matches_are_trusted_apart_from_those_behind_short_ones() {
        let mut acceptance = Acceptance::default();
        for _ in 0..60 {
            acceptance.observe(3, false);
            acceptance.observe(40, true);
        }
        assert!(acceptance.chances(3, 1)[0] < 0.01);
        assert!(acceptance.chances(40, 8)[7] > 0.9);
    }

    #[test]
    fn a_later_guess_needs_all_earlier_ones_and_stands_behind_a_longer_match() {
        let chances = Acceptance::default().chances(3, 3);
        assert_eq!(chances, [PRIOR[0], PRIOR[0] * PRIOR[1], PRIOR[0] * PRIOR[1] * PRIOR[1]]);
    }
}
