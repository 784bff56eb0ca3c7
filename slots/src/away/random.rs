//! Blocks leave by chance: what a policy must be better than.
//!
//! - A block's score depends on the seed, its position and the turn alone. So the choice can be
//!   repeated, and does not depend on what was asked before.

use super::{Scorer, ScorerInput};

#[derive(Clone, Copy, Debug)]
pub struct Random {
    seed: u64,
}

impl Random {
    pub fn new(seed: u64) -> Self {
        Self { seed }
    }
}

impl Scorer for Random {
    fn scores(&self, input: &ScorerInput<'_>) -> Vec<f32> {
        let turn = mix(self.seed ^ mix(u64::from(input.turn)));
        let draw = |&at: &usize| {
            let bits = mix(turn ^ input.blocks[at].range.start as u64);
            (bits >> 40) as f32 // 24 bits: those of a float
        };
        input.candidates.iter().map(draw).collect()
    }
}

/// A step of SplitMix64 (Steele, Lea and Flood, 2014): each bit of `state` moves all bits of the
/// result.
pub(super) fn mix(state: u64) -> u64 {
    let mut bits = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use super::super::{choose, fixtures};
    use super::*;

    #[test]
    fn a_step_is_that_of_splitmix64() {
        // The first outputs for the seed 1234567 (Rosetta Code, "Splitmix64").
        let golden: u64 = 0x9e37_79b9_7f4a_7c15;
        assert_eq!(mix(1_234_567), 6_457_827_717_110_365_317);
        assert_eq!(mix(1_234_567_u64.wrapping_add(golden)), 3_203_168_211_198_807_973);
    }

    #[test]
    fn each_seed_and_each_turn_draws_anew_and_repeats_itself() {
        let blocks = fixtures::chat(200);
        let candidates: Vec<usize> = (1..190).collect();
        let drawn = |seed, turn| {
            let input = ScorerInput { blocks: &blocks, candidates: &candidates, turn };
            choose(&Random::new(seed), &input, 64 * 20)
        };

        assert_eq!(drawn(1, 200), drawn(1, 200));
        assert_ne!(drawn(1, 200), drawn(2, 200));
        assert_ne!(drawn(1, 200), drawn(1, 201));
    }

    #[test]
    fn every_block_is_drawn_about_as_often() {
        let blocks = fixtures::chat(10);
        let candidates: Vec<usize> = (0..10).collect();
        let input = ScorerInput { blocks: &blocks, candidates: &candidates, turn: 10 };
        let mut first = [0; 10];
        for seed in 0..10_000 {
            first[choose(&Random::new(seed), &input, 1)[0]] += 1;
        }
        // 1,000 each, standard deviation 30.
        assert!(first.iter().all(|times| (850..1_150).contains(times)), "{first:?}");
    }
}
