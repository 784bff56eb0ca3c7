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
use super::vocabulary::{PassageId, is_common};

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

/// Scores all passages, by their ids.
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
        for &passage in &holders {
            scores.score[passage] += weight * held[passage].share;
            scores.has_content[passage] |= !feature.is_stop;
            scores.has_substance[passage] |= !feature.is_stop && !common;
        }
        if !feature.is_stop {
            if weight > rarest && !holders.is_empty() {
                rarest = weight;
                scores.has_rarest.fill(false);
            }
            if weight == rarest {
                let has = |passage: &&PassageId| held[**passage].form >= SAME;
                holders.iter().filter(has).for_each(|&passage| scores.has_rarest[passage] = true);
            }
            asked += weight;
            holders.iter().for_each(|&passage| covered[passage] += weight * held[passage].form);
        }
        if !feature.is_stop && !common {
            spread(index, &neighbours, &holders, &held, &mut near, |passage, share| {
                context[passage] += weight * share;
                covered[passage] += CONTEXT * weight;
            });
        }
        holders.iter().for_each(|&passage| held[passage] = TermScore::default());
        weights.push(weight);
    }
    let proximity = Proximity::new(index, query, &weights);
    for (at, (passage, _)) in index.entries().enumerate() {
        if scores.has_content[passage] {
            let together = proximity.of(index, passage, neighbours[passage]);
            let newness = 1.0 + NEW * (at as f64 + 1.0) / index.len() as f64;
            let own = scores.score[passage] + CONTEXT * context[passage] + together.weight;
            let covered = covered[passage].max(together.sentence) / asked;
            scores.score[passage] = own * newness * covered.powi(2);
            scores.goes_on[passage] = together.goes_on;
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

/// The passages that have the word; what they have of it is in `held`, by their ids.
fn holders(index: &Index, feature: &Feature, held: &mut [TermScore]) -> Vec<PassageId> {
    let mean = index.mean_words().max(1.0);
    let mut holders = Vec::new();
    for &(id, form) in &feature.forms {
        for &(passage, count) in index.vocabulary().postings(id) {
            let count = f64::from(count);
            let length = index.entry(passage).sequence.len() as f64 / mean;
            let share = form * count * (K1 + 1.0) / (count + K1 * (1.0 - B + B * length));
            let held = &mut held[passage];
            if held.share == 0.0 {
                holders.push(passage);
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
    neighbours: &[[Option<PassageId>; 2]],
    holders: &[PassageId],
    held: &[TermScore],
    near: &mut [f64],
    mut tell: impl FnMut(PassageId, f64),
) {
    let mut told = Vec::new();
    let mut groups: BTreeMap<u64, (PassageId, f64)> = BTreeMap::new();
    let mut offer = |passage: PassageId, share: f64| {
        if held[passage].share == 0.0 {
            if near[passage] == 0.0 {
                told.push(passage);
            }
            near[passage] = near[passage].max(share);
        }
    };
    for &passage in holders {
        neighbours[passage].into_iter().flatten().for_each(|side| offer(side, held[passage].share));
        let group = groups.entry(index.entry(passage).passage.group).or_insert((passage, 0.0));
        group.1 = group.1.max(held[passage].share);
    }
    for &(passage, share) in groups.values() {
        index.group(passage).for_each(|member| offer(member, share));
    }
    for passage in told {
        tell(passage, near[passage]);
        near[passage] = 0.0;
    }
}
