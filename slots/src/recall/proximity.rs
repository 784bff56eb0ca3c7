//! What a bag of words does not see: which words of the query stand together in a passage, and in
//! what sentence.
//!
//! - Two words that follow each other in the query and in the passage count more: the ordered pairs
//!   of Metzler & Croft, "A Markov Random Field Model for Term Dependencies", 2005.
//! - Words in one sentence count more, if the sentence can answer: it does not ask, and says more
//!   than the query.
//! - What a border cuts goes on behind it, and what answers a question follows it.

use super::index::Index;
use super::query::{MAX_FEATURES, SAME, Words};
use super::stopwords::is_stop_word;
use super::vocabulary::{PassageId, TermId, is_common};
use super::words::End;

/// The score of a pair of words in order, as a part of the weights of both.
const PAIR: f64 = 0.6;
/// The score of a word in the sentence that answers, as a part of its weight.
const ANSWER: f64 = 1.0;

/// The borders of a passage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sides {
    pub before: bool,
    pub after: bool,
}

/// What stands together in a passage.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Together {
    /// What this counts beside the words alone.
    pub weight: f64,
    /// The weights of the query's words in the sentence with most of them, across the passage's
    /// borders.
    pub sentence: f64,
    /// Over which borders this sentence goes on, or its answer stands.
    pub goes_on: Sides,
}

/// Which word of the vocabulary is which of the query.
pub(super) struct Proximity<'a> {
    query: &'a Words,
    weights: &'a [f64],
    features: Vec<Option<Form>>,
    /// Pairs that follow each other in the query, as bits.
    pairs: Vec<u64>,
}

#[derive(Clone, Copy)]
struct Form {
    feature: usize,
    /// The form is the word itself, in the singular or plural.
    is_same: bool,
}

impl<'a> Proximity<'a> {
    /// `weights` are those of the query's features.
    pub fn new(index: &Index, query: &'a Words, weights: &'a [f64]) -> Self {
        let mut features: Vec<Option<Form>> = vec![None; index.vocabulary().bound()];
        for (feature, of) in query.features.iter().enumerate() {
            for &(id, weight) in &of.forms {
                let is_same = weight >= SAME;
                let known = &mut features[id as usize];
                if known.is_none_or(|known| !known.is_same && is_same) {
                    *known = Some(Form { feature, is_same });
                }
            }
        }
        let mut pairs = vec![0_u64; (MAX_FEATURES * MAX_FEATURES).div_ceil(64)];
        for pair in query.sequence.windows(2) {
            if let [Some(one), Some(other)] = pair {
                let bit = one * MAX_FEATURES + other;
                pairs[bit / 64] |= 1 << (bit % 64);
            }
        }
        Self { query, weights, features, pairs }
    }

    /// Where a passage's words of the query stand together.
    pub fn of(
        &self,
        index: &Index,
        passage: PassageId,
        neighbours: [Option<PassageId>; 2],
    ) -> Together {
        let entry = index.entry(passage);
        let mut together = Together::default();
        let mut answer = 0.0_f64;
        for (at, sentence) in entry.sentences.iter().enumerate() {
            let own = &entry.sequence[sentence.words.clone()];
            let is_first = at == 0;
            let is_last = at + 1 == entry.sentences.len();
            let before = neighbours[0].filter(|_| is_first).and_then(|near| cut_end(index, near));
            let after = neighbours[1].filter(|_| is_last && sentence.end.is_none());
            let after = after.and_then(|near| cut_start(index, near));
            if own.iter().all(|&id| self.content(id).is_none()) {
                continue;
            }
            let parts = [before.unwrap_or_default(), own, after.unwrap_or_default()];
            let weight = self.weight(parts);
            let asks = sentence.end == Some(End::Question);
            if !asks && (sentence.end.is_none() || self.says_more(index, parts)) {
                answer = answer.max(weight);
            }
            if weight >= together.sentence {
                together.sentence = weight;
                let after = is_last && (asks || sentence.end.is_none());
                together.goes_on = Sides { before: before.is_some(), after };
            }
        }
        together.weight = PAIR * self.pairs(index, passage, neighbours) + ANSWER * answer;
        together
    }

    /// The weights of the query's words in a sentence, each once.
    fn weight(&self, parts: [&[TermId]; 3]) -> f64 {
        let mut found: Vec<usize> =
            parts.into_iter().flatten().filter_map(|&id| self.content(id)).collect();
        found.sort_unstable();
        found.dedup();
        found.into_iter().map(|feature| self.weights[feature]).sum()
    }

    /// The feature of which a word is the word itself, unless it is a function word.
    fn content(&self, id: TermId) -> Option<usize> {
        self.same(id).filter(|&feature| !self.query.features[feature].is_stop)
    }

    /// Whether a sentence has a word of substance that is not in the query.
    fn says_more(&self, index: &Index, parts: [&[TermId]; 3]) -> bool {
        let vocabulary = index.vocabulary();
        parts.into_iter().flatten().any(|&id| {
            self.features[id as usize].is_none()
                && !is_common(index.len(), vocabulary.postings(id).len())
                && !is_stop_word(vocabulary.text(id))
        })
    }

    /// The weights of the pairs of the query that the passage has, also across its borders; each
    /// once.
    fn pairs(
        &self,
        index: &Index,
        passage: PassageId,
        [before, after]: [Option<PassageId>; 2],
    ) -> f64 {
        let entry = index.entry(passage);
        let before = before.filter(|&near| !index.entry(near).cuts_word());
        let before = before.and_then(|near| index.entry(near).sequence.last());
        let after = after.filter(|_| !entry.cuts_word());
        let after = after.and_then(|near| index.entry(near).sequence.first());
        let mut found: Vec<usize> = Vec::new();
        let mut last = None;
        for &id in before.into_iter().chain(&entry.sequence).chain(after) {
            let here = self.same(id);
            if let (Some(one), Some(other)) = (last, here) {
                let bit = one * MAX_FEATURES + other;
                if self.pairs[bit / 64] >> (bit % 64) & 1 == 1 {
                    found.push(bit);
                }
            }
            last = here;
        }
        found.sort_unstable();
        found.dedup();
        let weight = |bit| self.weights[bit / MAX_FEATURES] + self.weights[bit % MAX_FEATURES];
        found.into_iter().map(weight).sum()
    }

    fn same(&self, id: TermId) -> Option<usize> {
        self.features[id as usize].filter(|form| form.is_same).map(|form| form.feature)
    }
}

/// The words of the sentence that a passage leaves to the next.
fn cut_end(index: &Index, passage: PassageId) -> Option<&[TermId]> {
    let entry = index.entry(passage);
    let last = entry.sentences.last().filter(|sentence| sentence.end.is_none())?;
    Some(&entry.sequence[last.words.clone()])
}

/// The words of the sentence with which a passage begins.
fn cut_start(index: &Index, passage: PassageId) -> Option<&[TermId]> {
    let entry = index.entry(passage);
    Some(&entry.sequence[entry.sentences.first()?.words.clone()])
}
