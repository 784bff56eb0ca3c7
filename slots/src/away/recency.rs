//! The block that was used longest ago leaves first; of those used in one turn, the oldest.

use super::{Scorer, ScorerInput};

#[derive(Clone, Copy, Debug)]
pub struct Recency;

impl Scorer for Recency {
    fn scores(&self, input: &ScorerInput<'_>) -> Vec<f32> {
        let used = |&at: &usize| input.blocks[at].last_used_turn as f32;
        input.candidates.iter().map(used).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{choose, fixtures};
    use super::*;

    #[test]
    fn the_least_recently_used_block_leaves_first() {
        let mut blocks = fixtures::chat(5);
        blocks[0].last_used_turn = 5; // mentioned again
        let input = ScorerInput { blocks: &blocks, candidates: &[0, 1, 2, 3], turn: 5 };

        assert_eq!(choose(&Recency, &input, 64 * 3), [1, 2, 3]);
    }

    #[test]
    fn of_one_turn_the_oldest_block_leaves_first() {
        let mut blocks = fixtures::chat(4);
        for block in &mut blocks {
            block.last_used_turn = 1;
        }
        let input = ScorerInput { blocks: &blocks, candidates: &[1, 2, 3], turn: 4 };

        assert_eq!(choose(&Recency, &input, 1), [1]);
    }
}
