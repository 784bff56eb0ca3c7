//! How well each passage answers a query by its words: Okapi BM25, and the words around.
//!
//! - BM25 as in Robertson & Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond",
//!   2009; the inverse document frequency with 1 added under the logarithm, so that no word counts
//!   against a passage. How rare a word is, all passages of the conversation say, absent or
//!   resident.
//! - A word that only its neighbours or its group have counts a part: the file is named in its
//!   first block, the key in its third; a border cuts a sentence.
//! - A passage counts by the square of the share of the query that it covers, so that one with the
//!   rare word comes before one that has all others in fewer words.

use std::collections::BTreeMap;

use super::index::Index;
use super::proximity::{Proximity, Sides};
use super::query::{Feature, SAME, Words};
use super::stopwords;
use super::vocabulary::{Slot, is_common};

const K1: f64 = 1.2;
const B: f64 = 0.75;
/// Saturation of repeated words of the query.
const K3: f64 = 8.0;

/// The least inverse document frequency of a word that is no function word: in a conversation about
/// one thing, its name still counts more than "what".
const MIN_RARE: f64 = 0.5;

/// What a word of the neighbours or the group counts, of its weight here.
const CONTEXT: f64 = 0.4;

/// What the newest passage counts more than the oldest: what was said later often corrects what was
/// said before.
const NEW: f64 = 0.1;

/// A passage without any of the query's words has 0.
#[derive(Clone, Debug, Default)]
pub(super) struct Scores {
    pub score: Vec<f64>,
    /// By passage: whether it has a word of the query that tells what the query is about.
    pub has_substance: Vec<bool>,
    /// Whether it has a word of the query that is no function word.
    pub has_content: Vec<bool>,
    /// Whether it has the rarest word of the query.
    pub has_rarest: Vec<bool>,
    /// Over which of its borders what it says of the query goes on.
    pub goes_on: Vec<Sides>,
}

impl Scores {
    /// The scores of a query without a word that any passage has.
    pub fn none(bound: usize) -> Self {
        Self {
            score: vec![0.0; bound],
            has_substance: vec![false; bound],
            has_content: vec![false; bound],
            has_rarest: vec![false; bound],
            goes_on: vec![Sides::default(); bound],
        }
    }
}

/// Scores all passages, by slot.
pub(super) fn scores(index: &Index, query: &Words) -> Scores {
    let bound = index.bound();
    let mut scores = Scores::none(bound);
    let neighbours = index.all_neighbours();
    let mut context = vec![0.0; bound];
    let mut covered = vec![0.0; bound];
    let mut asked = 0.0;
    let mut weights = Vec::with_capacity(query.features.len());
    let mut held = vec![TermScore::default(); bound];
    let mut near = vec![0.0_f64; bound];
    let mut rarest = 0.0;
    for feature in &query.features {
        let holders = holders(index, feature, &mut held);
        let weight = weight(index.len(), holders.len(), feature);
        let common = is_common(index.len(), holders.len());
        for &slot in &holders {
            scores.score[slot] += weight * held[slot].share;
            scores.has_content[slot] |= !feature.is_stop;
            scores.has_substance[slot] |= !feature.is_stop && !common;
        }
        if !feature.is_stop {
            if weight > rarest && !holders.is_empty() {
                rarest = weight;
                scores.has_rarest.fill(false);
            }
            if weight == rarest {
                let has = |slot: &&Slot| held[**slot].form >= SAME;
                holders.iter().filter(has).for_each(|&slot| scores.has_rarest[slot] = true);
            }
            asked += weight;
            holders.iter().for_each(|&slot| covered[slot] += weight * held[slot].form);
        }
        if !feature.is_stop && !common {
            spread(index, &neighbours, &holders, &held, &mut near, |slot, share| {
                context[slot] += weight * share;
                covered[slot] += CONTEXT * weight;
            });
        }
        holders.iter().for_each(|&slot| held[slot] = TermScore::default());
        weights.push(weight);
    }
    let proximity = Proximity::new(index, query, &weights);
    for (at, (slot, _)) in index.entries().enumerate() {
        if scores.has_content[slot] {
            let together = proximity.of(index, slot, neighbours[slot]);
            let newness = 1.0 + NEW * (at as f64 + 1.0) / index.len() as f64;
            let own = scores.score[slot] + CONTEXT * context[slot] + together.weight;
            let covered = covered[slot].max(together.sentence) / asked;
            scores.score[slot] = own * newness * covered.powi(2);
            scores.goes_on[slot] = together.goes_on;
        }
    }
    scores
}

/// How well a passage has a word.
#[derive(Clone, Copy, Debug, Default)]
struct TermScore {
    /// The word's part of BM25 in the passage, without the weight of the word.
    share: f64,
    /// What the form counts that it has, the word itself 1.
    form: f64,
}

/// The passages that have the word; what they have of it is in `held`, by slot.
fn holders(index: &Index, feature: &Feature, held: &mut [TermScore]) -> Vec<Slot> {
    let mean = index.mean_words().max(1.0);
    let mut holders = Vec::new();
    for &(id, form) in &feature.forms {
        for &(slot, count) in index.vocabulary().postings(id) {
            let count = f64::from(count);
            let length = index.entry(slot).sequence.len() as f64 / mean;
            let share = form * count * (K1 + 1.0) / (count + K1 * (1.0 - B + B * length));
            let held = &mut held[slot];
            if held.share == 0.0 {
                holders.push(slot);
            }
            held.share = held.share.max(share);
            held.form = held.form.max(form);
        }
    }
    holders
}

fn weight(passages: usize, holders: usize, feature: &Feature) -> f64 {
    let (passages, holders) = (passages as f64, holders as f64);
    let rare = ((passages - holders + 0.5) / (holders + 0.5)).ln_1p();
    let count = feature.count as f64;
    let rare = if feature.is_stop { rare * stopwords::WEIGHT } else { rare.max(MIN_RARE) };
    rare * (K3 + 1.0) * count / (K3 + count)
}

/// Tells those that have not the word what the best of their neighbours and group has of it.
fn spread(
    index: &Index,
    neighbours: &[[Option<Slot>; 2]],
    holders: &[Slot],
    held: &[TermScore],
    near: &mut [f64],
    mut tell: impl FnMut(Slot, f64),
) {
    let mut told = Vec::new();
    let mut groups: BTreeMap<u64, (Slot, f64)> = BTreeMap::new();
    let mut offer = |slot: Slot, share: f64| {
        if held[slot].share == 0.0 {
            if near[slot] == 0.0 {
                told.push(slot);
            }
            near[slot] = near[slot].max(share);
        }
    };
    for &slot in holders {
        neighbours[slot].into_iter().flatten().for_each(|side| offer(side, held[slot].share));
        let group = groups.entry(index.entry(slot).passage.group).or_insert((slot, 0.0));
        group.1 = group.1.max(held[slot].share);
    }
    for &(slot, share) in groups.values() {
        index.group(slot).for_each(|member| offer(member, share));
    }
    for slot in told {
        tell(slot, near[slot]);
        near[slot] = 0.0;
    }
}
