//! The oldest leaves first, whatever uses it: the attention sinks and the most recent tokens stay.
//!
//! StreamingLLM (Xiao et al., 2023, arXiv:2309.17453). [`protect`](super::protect) keeps the sinks.
//! There positions are renumbered within the cache; here tokens keep theirs.

use super::{Scorer, ScorerInput};

#[derive(Clone, Copy, Debug)]
pub struct Streaming;

impl Scorer for Streaming {
    fn scores(&self, input: &ScorerInput<'_>) -> Vec<f32> {
        let start = |&at: &usize| input.blocks[at].range.start as f32;
        input.candidates.iter().map(start).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{choose, fixtures};
    use super::*;

    #[test]
    fn the_oldest_block_leaves_first_however_often_it_is_used() {
        let mut blocks = fixtures::chat(5);
        blocks[1].last_used_turn = 5;
        blocks[1].hits = 4;
        let input = ScorerInput { blocks: &blocks, candidates: &[1, 2, 3], turn: 5 };

        assert_eq!(choose(&Streaming, &input, 65), [1, 2]);
    }
}
