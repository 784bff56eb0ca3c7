//! EVOKE's score (github.com/Anyesh/EVOKE, `src/evoke/scorer.py` and `config.py`, read in 2026).
//!
//! ```text
//! raw    = (0.4 recency + 0.6 coherence + 1.0 recovery) / (0.4 + 0.6 + 1.0)
//! score  = min(1, priority x (floor + (1 - floor) x raw))
//! ```
//!
//! Published:
//! - recency: exp(-0.01 x tokens between the end of the block and that of the timeline);
//! - coherence: (cosine of the block's embedding and the task's focus + 1) / 2; without either,
//!   0.5. With each message of the user, focus = 0.7 focus + 0.3 message; a message with a cosine
//!   below 0.3 starts a new focus;
//! - recovery: 1 in the turn that brings the block back, times 0.7 each turn. Its weight is 0 by
//!   default; 1.0 is what its authors chose when they tuned it;
//! - floor: 0.6 of the user's text, 0.5 of the assistant's, none of documents, which includes tool
//!   results;
//! - priority: a factor, 1 by default; a part to prefer has 2. A score of 1 never leaves; sinks
//!   have it.
//!
//! Chosen here, where Hob differs:
//! - a [`Sketch`] of a block's tokens is its embedding. The focus is made of the last
//!   [`FOCUS_BLOCKS`] blocks of the user's text: what came before counts little (0.06 after eight
//!   messages) or belongs to a message of that length;
//! - tokens keep their positions, so a distance counts absent tokens, too, as in EVOKE's mode
//!   `sparse`;
//! - priority is the weight of a segment over 50. Blocks with a score of 1 leave last, not never:
//!   what never leaves is decided by [`protect`](super::protect) for all policies alike;
//! - the signals of attention and of its probe are left out: nothing captures them.

use super::sketch::Sketch;
use super::{BlockFacts, Scorer, ScorerInput};
use crate::layer::Layer;

const RECENCY_WEIGHT: f32 = 0.4;
const COHERENCE_WEIGHT: f32 = 0.6;
const RECOVERY_WEIGHT: f32 = 1.0;
/// For each token.
const RECENCY_DECAY: f32 = 0.01;
/// For each turn.
const RECOVERY_DECAY: f32 = 0.7;
const FOCUS_SHARE: f32 = 0.7;
const NEW_TASK_BELOW: f32 = 0.3;

/// The blocks of the user's text that make up the focus.
pub const FOCUS_BLOCKS: usize = 32;

#[derive(Clone, Copy, Debug)]
pub struct Evoke;

impl Scorer for Evoke {
    fn scores(&self, input: &ScorerInput<'_>) -> Vec<f32> {
        let focus = focus(input.blocks);
        let end = input.tokens();
        let score = |&at: &usize| {
            let block = &input.blocks[at];
            let back = block.brought_back.map(|turn| input.turns_since(turn));
            let signals = Signals {
                recency: recency(end - block.range.end),
                coherence: (block.sketch.similarity(&focus) + 1.0) / 2.0,
                recovery: back.map_or(0.0, recovery),
            };
            signals.score(floor(block.layer), block.priority())
        };
        input.candidates.iter().map(score).collect()
    }
}

/// Each from 0 to 1.
struct Signals {
    recency: f32,
    coherence: f32,
    recovery: f32,
}

impl Signals {
    fn score(&self, floor: f32, priority: f32) -> f32 {
        let sum = RECENCY_WEIGHT * self.recency
            + COHERENCE_WEIGHT * self.coherence
            + RECOVERY_WEIGHT * self.recovery;
        let raw = sum / (RECENCY_WEIGHT + COHERENCE_WEIGHT + RECOVERY_WEIGHT);
        (priority * (floor + (1.0 - floor) * raw)).min(1.0)
    }
}

fn recency(tokens: usize) -> f32 {
    (-RECENCY_DECAY * tokens as f32).exp()
}

fn recovery(turns: u32) -> f32 {
    RECOVERY_DECAY.powi(turns.min(1_000).cast_signed())
}

fn floor(layer: Layer) -> f32 {
    match layer {
        Layer::User => 0.6,
        Layer::Assistant => 0.5,
        _ => 0.0,
    }
}

/// What the user's last messages are about; similar to nothing without one.
fn focus(blocks: &[BlockFacts]) -> Sketch {
    let is_users = |block: &&BlockFacts| block.layer == Layer::User && !block.sketch.is_empty();
    let mut recent: Vec<_> = blocks.iter().rev().filter(is_users).take(FOCUS_BLOCKS).collect();
    recent.reverse();
    let mut votes = [0.0; Sketch::BITS];
    let mut focus = Sketch::default();
    for message in recent.chunk_by(|one, next| one.first_turn == next.first_turn) {
        let message = Sketch::majority(message.iter().map(|block| block.sketch));
        if message.similarity(&focus) < NEW_TASK_BELOW {
            votes = message.signs();
        } else {
            for (vote, sign) in votes.iter_mut().zip(message.signs()) {
                *vote = FOCUS_SHARE * *vote + (1.0 - FOCUS_SHARE) * sign;
            }
        }
        focus = Sketch::of_votes(&votes);
    }
    focus
}

#[cfg(test)]
mod tests {
    use super::super::{choose, fixtures};
    use super::*;

    fn assert_near(score: f32, expected: f32) {
        assert!((score - expected).abs() < 1e-5, "{score}, expected {expected}");
    }

    fn score(blocks: &[BlockFacts], at: usize, turn: u32) -> f32 {
        Evoke.scores(&ScorerInput { blocks, candidates: &[at], turn })[0]
    }

    #[test]
    fn the_signals_are_weighed_as_published() {
        let signals = Signals { recency: 0.5, coherence: 0.75, recovery: 0.0 };
        // (0.4 x 0.5 + 0.6 x 0.75) / 2 = (0.2 + 0.45) / 2 = 0.325
        assert_near(signals.score(0.0, 1.0), 0.325);
        // 0.6 + 0.4 x 0.325 = 0.73; 0.5 + 0.5 x 0.325 = 0.6625
        assert_near(signals.score(floor(Layer::User), 1.0), 0.73);
        assert_near(signals.score(floor(Layer::Assistant), 1.0), 0.6625);
        // (0.2 + 0.45 + 0.7) / 2 = 0.675
        assert_near(Signals { recovery: recovery(1), ..signals }.score(0.0, 1.0), 0.675);
        // 2 x 0.325 = 0.65; 2 x 0.73 = 1.46, cut to 1; 0.5 x 0.325 = 0.1625
        assert_near(Signals { recovery: 0.0, ..signals }.score(0.0, 2.0), 0.65);
        assert_near(signals.score(floor(Layer::User), 2.0), 1.0);
        assert_near(signals.score(0.0, 0.5), 0.1625);
    }

    #[test]
    fn recency_and_recovery_decay_as_published() {
        // exp(-0.01 x 100) = 0.36788; 0.7^3 = 0.343
        assert_near(recency(0), 1.0);
        assert_near(recency(100), 0.367_879);
        assert_near(recovery(0), 1.0);
        assert_near(recovery(3), 0.343);
    }

    #[test]
    fn a_block_is_scored_by_its_distance_its_source_and_its_weight() {
        let mut blocks = fixtures::chat(4);
        for block in &mut blocks {
            (block.layer, block.sketch) = (Layer::Document, Sketch::default());
        }
        // Without a focus coherence is 0.5. 128 tokens follow block 1: exp(-1.28) = 0.27804.
        // (0.4 x 0.27804 + 0.6 x 0.5) / 2 = 0.20561
        assert_near(score(&blocks, 1, 4), 0.205_607);
        // 0.5 + 0.5 x 0.20561 = 0.60280
        blocks[1].layer = Layer::Assistant;
        assert_near(score(&blocks, 1, 4), 0.602_804);
        // 75 / 50 x 0.60280 = 0.90421
        blocks[1].weight = 75;
        assert_near(score(&blocks, 1, 4), 0.904_206);
        // Brought back a turn ago: (0.4 x 0.27804 + 0.3 + 0.7) / 2 = 0.55561, of a document.
        blocks[1].layer = Layer::Document;
        blocks[1].weight = 50;
        blocks[1].brought_back = Some(3);
        assert_near(score(&blocks, 1, 4), 0.555_607);
    }

    #[test]
    fn what_the_user_writes_about_stays() {
        let mut blocks = fixtures::chat(40);
        for (at, block) in blocks.iter_mut().enumerate() {
            (block.layer, block.sketch) = (Layer::Document, fixtures::sketch(at));
        }
        blocks[5].sketch = fixtures::sketch(1_000);
        blocks[39].layer = Layer::User;
        blocks[39].sketch = fixtures::sketch(1_000);
        let candidates: Vec<usize> = (1..30).collect();
        let input = ScorerInput { blocks: &blocks, candidates: &candidates, turn: 40 };

        let leave = choose(&Evoke, &input, 64 * 29);
        assert_eq!((leave.len(), leave.last()), (29, Some(&5)));
    }

    #[test]
    fn a_message_about_something_else_starts_a_new_focus() {
        let mut blocks = fixtures::chat(3);
        for (block, topic) in blocks.iter_mut().zip([1, 1, 2]) {
            (block.layer, block.sketch) = (Layer::User, fixtures::sketch(topic));
        }
        assert_eq!(focus(&blocks[..2]), fixtures::sketch(1));
        assert_eq!(focus(&blocks), fixtures::sketch(2));
    }

    #[test]
    fn a_related_message_shifts_the_focus_a_little() {
        // Half of the tokens are equal: a cosine of 0.5, of 256 bits a third differs.
        let mut blocks = fixtures::chat(2);
        let text = |start: i32| (start..start + 64).map(crate::Token).collect::<Vec<_>>();
        blocks[0].sketch = Sketch::of(&text(0));
        blocks[1].sketch = Sketch::of(&text(32));
        for block in &mut blocks {
            block.layer = Layer::User;
        }
        // 0.7 against 0.3: each bit is that of the focus before.
        assert_eq!(focus(&blocks), blocks[0].sketch);
    }
}
