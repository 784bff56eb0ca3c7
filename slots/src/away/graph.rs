//! A graph of relations between blocks: what is related least to the rest leaves first.
//!
//! KVCacheGraph (the package aither-kvcache, `kvcache_graph.py`, read in 2026). The block with the
//! *highest* of
//!
//! ```text
//! age x 0.01 - degree x 5 - edge weight x 2 - importance x 20 - hits x 3
//! ```
//!
//! leaves there; the score here is its negation. Published: this formula; degree as the number of
//! distinct neighbours and edge weight as the sum over all edges, of which a pair may have several
//! kinds; absent blocks as neighbours; a weight of 1 of an edge, and the cosine of a semantic one;
//! importance from 0 to 1, with 0.95 of the system's text, 0.6 of the user's and 0.3 of the
//! assistant's as examples; age in seconds.
//!
//! Chosen here:
//! - temporal: blocks that follow each other;
//! - group: a block, the one before it and the one after it in its group, so that a long file does
//!   not keep itself by its length;
//! - semantic: a block and those of the user's last [`FOCUS_BLOCKS`] blocks to which its [`Sketch`]
//!   has a cosine of [`SEMANTIC_COSINE`] at least. Published is 0.8, of embeddings of keys; sets of
//!   tokens reach that only where one text repeats the other;
//! - prefix share: a block with cells that another sequence shares has one neighbour more;
//! - co-attend: no edges. Nothing captures attention;
//! - spill links are no edges: that a block is absent is a place, not a relation;
//! - age: a turn counts as [`TURN_SECS`] seconds, because a decision knows no clock;
//! - importance is that of the layer times the weight of the segment over 50, at most 1.
//!
//! Time is O(n log n) for n blocks: the groups are sorted, and a candidate is compared with
//! `FOCUS_BLOCKS` blocks.

use super::sketch::Sketch;
use super::{BlockFacts, Scorer, ScorerInput};
use crate::layer::Layer;

/// The seconds that a turn counts for.
pub const TURN_SECS: f32 = 60.0;

/// The least cosine of a semantic edge.
pub const SEMANTIC_COSINE: f32 = 0.5;

/// The blocks of the user's text to which others may be semantically related.
pub const FOCUS_BLOCKS: usize = 4;

#[derive(Clone, Copy, Debug)]
pub struct Graph;

impl Scorer for Graph {
    fn scores(&self, input: &ScorerInput<'_>) -> Vec<f32> {
        let relations = Relations::of(input.blocks);
        let keep = |&at: &usize| {
            let block = &input.blocks[at];
            let edges = relations.edges(at);
            let age = input.turns_since(block.last_used_turn) as f32 * TURN_SECS;
            -score(age, edges.degree, edges.weight, importance(block), block.hits)
        };
        input.candidates.iter().map(keep).collect()
    }
}

/// The blocks without cells to which the conversation may turn after `turn`, at most `max`: neighbours
/// of those that came back in it, then neighbours of at most `max` others in use, which are the user's
/// last [`FOCUS_BLOCKS`] and what the turn used.
pub fn likely_next(blocks: &[BlockFacts], turn: u32, max: usize) -> Vec<usize> {
    let came_back = |&at: &usize| blocks[at].brought_back == Some(turn);
    let back: Vec<usize> = (0..blocks.len()).filter(came_back).collect();
    let newest_first = || (0..blocks.len()).rev().filter(move |&at| blocks[at].resident);
    let is_users = |&at: &usize| blocks[at].layer == Layer::User;
    let users: Vec<usize> = newest_first().filter(is_users).take(FOCUS_BLOCKS).collect();
    let used = newest_first().filter(|&at| blocks[at].last_used_turn == turn);
    let used = used.filter(|at| !users.contains(at));
    let others = users.iter().copied().chain(used).filter(|at| !came_back(at));
    let others: Vec<usize> = others.take(max).collect();

    let relations = Relations::of(blocks);
    let mut next = neighbours(&relations, &back, max);
    let mut of_others = neighbours(&relations, &others, max);
    of_others.retain(|at| !next.contains(at));
    next.extend(of_others);
    next.truncate(max);
    next
}

/// The blocks without cells to which the most edges lead from those in `used`. At most `max`, the
/// nearest first; of equal ones the later.
fn neighbours(relations: &Relations<'_>, used: &[usize], max: usize) -> Vec<usize> {
    let blocks = relations.blocks;
    let mut weights = vec![0.0_f32; blocks.len()];
    for &at in used {
        let near = [at.checked_sub(1), Some(at + 1)].into_iter().chain(relations.kin[at]);
        for near in near.flatten().filter(|&near| near < blocks.len()) {
            weights[near] += 1.0;
        }
        for (other, weight) in weights.iter_mut().enumerate() {
            let similarity = blocks[at].sketch.similarity(&blocks[other].sketch);
            if similarity >= SEMANTIC_COSINE {
                *weight += similarity;
            }
        }
    }
    let absent = |&at: &usize| weights[at] > 0.0 && !blocks[at].resident;
    let mut near: Vec<usize> = (0..blocks.len()).filter(absent).collect();
    near.sort_by(|&one, &other| weights[other].total_cmp(&weights[one]).then(other.cmp(&one)));
    near.truncate(max);
    near
}

/// The published score: the highest leaves first.
fn score(age_secs: f32, degree: usize, edge_weight: f32, importance: f32, hits: u32) -> f32 {
    age_secs * 0.01
        - degree as f32 * 5.0
        - edge_weight * 2.0
        - importance * 20.0
        - hits as f32 * 3.0
}

/// From 0 to 1.
fn importance(block: &BlockFacts) -> f32 {
    let of_layer: f32 = match block.layer {
        Layer::Axioms | Layer::Identity | Layer::Rules | Layer::Capabilities => 0.95,
        Layer::Context | Layer::Memories | Layer::User => 0.6,
        Layer::Affect | Layer::Assistant | Layer::Tool | Layer::Document => 0.3,
    };
    (of_layer * block.priority()).min(1.0)
}

/// Where the edges of the blocks of a conversation lead.
struct Relations<'a> {
    blocks: &'a [BlockFacts],
    // Of each block: the one before it and the one after it in its group.
    kin: Vec<[Option<usize>; 2]>,
    focus: Vec<(usize, Sketch)>,
}

impl<'a> Relations<'a> {
    fn of(blocks: &'a [BlockFacts]) -> Self {
        let is_users = |(_, block): &(usize, &BlockFacts)| block.layer == Layer::User;
        let users = blocks.iter().enumerate().rev().filter(is_users).take(FOCUS_BLOCKS);
        let focus = users.map(|(at, block)| (at, block.sketch)).collect();
        Self { blocks, kin: kin(blocks), focus }
    }

    fn edges(&self, at: usize) -> Edges {
        let block = &self.blocks[at];
        let mut edges = Edges::default();
        if let Some(before) = at.checked_sub(1) {
            edges.add(before, 1.0);
        }
        if at + 1 < self.blocks.len() {
            edges.add(at + 1, 1.0);
        }
        for kin in self.kin[at].into_iter().flatten() {
            edges.add(kin, 1.0);
        }
        for (other, sketch) in &self.focus {
            let similarity = block.sketch.similarity(sketch);
            if *other != at && similarity >= SEMANTIC_COSINE {
                edges.add(*other, similarity);
            }
        }
        if block.is_shared {
            edges.add(self.blocks.len(), 1.0); // No block of this conversation.
        }
        edges
    }
}

/// For each block, the one before it and the one after it in its group.
fn kin(blocks: &[BlockFacts]) -> Vec<[Option<usize>; 2]> {
    let mut members: Vec<(u64, usize)> =
        blocks.iter().enumerate().map(|(at, block)| (block.group, at)).collect();
    members.retain(|&(group, _)| group != 0);
    members.sort_unstable();
    let mut kin = vec![[None; 2]; blocks.len()];
    for pair in members.windows(2) {
        let [(group, one), (next_group, next)] = *pair else { unreachable!("windows of two") };
        if group == next_group {
            kin[one][1] = Some(next);
            kin[next][0] = Some(one);
        }
    }
    kin
}

/// The edges of one block.
#[derive(Default)]
struct Edges {
    // Two in time, two in the group, those in the focus, one outside.
    neighbours: [usize; 2 + 2 + FOCUS_BLOCKS + 1],
    degree: usize,
    weight: f32,
}

impl Edges {
    fn add(&mut self, neighbour: usize, weight: f32) {
        self.weight += weight;
        if !self.neighbours[..self.degree].contains(&neighbour) {
            self.neighbours[self.degree] = neighbour;
            self.degree += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{choose, fixtures};
    use super::*;

    /// Unrelated documents, one a turn.
    fn documents(n: usize) -> Vec<BlockFacts> {
        let mut blocks = fixtures::chat(n);
        for (at, block) in blocks.iter_mut().enumerate() {
            (block.layer, block.sketch) = (Layer::Document, fixtures::sketch(at));
        }
        blocks
    }

    fn score_of(blocks: &[BlockFacts], at: usize) -> f32 {
        let turn = blocks.len() as u32;
        Graph.scores(&ScorerInput { blocks, candidates: &[at], turn })[0]
    }

    #[test]
    fn the_terms_are_weighed_as_published() {
        // 500 x 0.01 - 3 x 5 - 3.6 x 2 - 0.3 x 20 - 2 x 3 = 5 - 15 - 7.2 - 6 - 6 = -29.2
        assert_eq!(score(500.0, 3, 3.6, 0.3, 2), -29.2);
        assert_eq!(score(100.0, 0, 0.0, 0.0, 0), 1.0);
    }

    #[test]
    fn a_block_has_the_score_of_its_edges() {
        let mut blocks = documents(10);
        // Block 4 of turn 5, at turn 10: age 5 x 60. Two neighbours in time, importance 0.3:
        // -(300 x 0.01 - 2 x 5 - 2 x 2 - 0.3 x 20) = -(3 - 10 - 4 - 6) = 17
        assert_eq!(score_of(&blocks, 4), 17.0);

        // A group of 3, 4 and 8. 3 is a neighbour already: one more neighbour, two more edges.
        for at in [3, 4, 8] {
            blocks[at].group = 7;
        }
        assert_eq!(score_of(&blocks, 4), 17.0 + 5.0 + 2.0 * 2.0);

        // The user asks about it: one more neighbour, and an edge with a weight of 1.
        blocks[9].layer = Layer::User;
        blocks[9].sketch = blocks[4].sketch;
        assert_eq!(score_of(&blocks, 4), 26.0 + 5.0 + 2.0);

        // Shared by another sequence, mentioned twice, and of double weight: 0.6 x 20 instead of
        // 0.3 x 20.
        blocks[4].is_shared = true;
        blocks[4].hits = 2;
        blocks[4].weight = 100;
        assert_eq!(score_of(&blocks, 4), 33.0 + 5.0 + 2.0 + 6.0 + 6.0);
    }

    #[test]
    fn unrelated_texts_have_no_semantic_edge() {
        let mut blocks = documents(200);
        blocks[199].layer = Layer::User;
        let relations = Relations::of(&blocks);
        assert!((1..198).all(|at| relations.edges(at).degree == 2));
    }

    #[test]
    fn a_long_group_keeps_itself_no_more_than_a_short_one() {
        let mut blocks = documents(40);
        for block in &mut blocks[5..25] {
            block.group = 1;
        }
        for block in &mut blocks[30..33] {
            block.group = 2;
        }
        let relations = Relations::of(&blocks);
        assert_eq!(relations.edges(15).degree, relations.edges(31).degree);
        assert_eq!(relations.edges(15).weight, relations.edges(31).weight);
    }

    #[test]
    fn what_is_unrelated_and_unimportant_leaves_first() {
        let mut blocks = documents(12);
        blocks[2].layer = Layer::User;
        for at in [4, 8] {
            blocks[at].group = 1;
        }
        blocks[5].hits = 1;
        let candidates: Vec<usize> = (1..10).collect();
        let input = ScorerInput { blocks: &blocks, candidates: &candidates, turn: 12 };

        // Alike but for their age: 1, 3, 6, 7, 9. Then one hit (3), the user's (6), a group (7).
        assert_eq!(choose(&Graph, &input, 64 * 9), [1, 3, 6, 7, 9, 5, 2, 4, 8]);
    }

    #[test]
    fn absent_blocks_next_to_what_is_used_are_its_neighbours() {
        let mut blocks = documents(12);
        for block in &mut blocks[1..9] {
            block.resident = false;
        }
        blocks[5].resident = true; // It came back.
        blocks[2].sketch = blocks[5].sketch; // Alike.
        for at in [5, 6] {
            blocks[at].group = 1;
        }
        let relations = Relations::of(&blocks);
        assert_eq!(neighbours(&relations, &[5], 10), [6, 4, 2]);
        assert_eq!(neighbours(&relations, &[5], 1), [6]);
        assert!(neighbours(&relations, &[], 10).is_empty());
    }

    /// The blocks of turn 12, before which the user said block 3: all but the first, that one and the last three
    /// are away.
    fn with_a_question() -> Vec<BlockFacts> {
        let mut blocks = documents(12);
        for at in [1, 2, 4, 5, 6, 7, 8] {
            blocks[at].resident = false;
        }
        blocks[3].layer = Layer::User;
        blocks
    }

    #[test]
    fn what_is_next_to_what_came_back_precedes_what_is_next_to_others_in_use() {
        let mut blocks = with_a_question();
        blocks[6].resident = true;
        blocks[6].brought_back = Some(12);
        blocks[8].sketch = blocks[11].sketch; // Like what the turn said.
        assert_eq!(likely_next(&blocks, 12, 10), [7, 5, 8, 4, 2]);
        assert_eq!(likely_next(&blocks, 12, 3), [7, 5, 8]);
        assert_eq!(likely_next(&blocks, 12, 1), [7]);
    }

    #[test]
    fn a_turn_to_which_nothing_came_back_has_its_own_text_and_the_user_s_newest_in_use() {
        let mut blocks = with_a_question();
        blocks[6].sketch = blocks[11].sketch;
        blocks[7].sketch = blocks[9].sketch; // Of an earlier turn, and not the user's.
        assert_eq!(likely_next(&blocks, 12, 10), [6, 4, 2]);
        blocks[6].brought_back = Some(11); // And left again.
        assert_eq!(likely_next(&blocks, 12, 10), [6, 4, 2]);
    }

    #[test]
    fn nothing_is_next_where_all_neighbours_have_cells() {
        let mut blocks = with_a_question();
        for at in [2, 4] {
            blocks[at].resident = true;
        }
        assert!(likely_next(&blocks, 12, 10).is_empty());
        blocks.iter_mut().for_each(|block| block.resident = true);
        assert!(likely_next(&blocks, 12, 10).is_empty());
    }
}
