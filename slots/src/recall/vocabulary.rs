//! The words of all passages, and which passage has which: an inverted index.
//!
//! Words that no passage has any more are forgotten, so an index after removals answers as one that
//! was built without what was removed.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound::{Included, Unbounded};

pub(super) type TermId = u32;
/// The place of a passage among the entries of the index. A passage that is added later may have the id of a removed
/// one.
pub(super) type PassageId = usize;

#[derive(Clone, Debug, Default)]
pub(super) struct Vocabulary {
    /// Never iterated: its order is random.
    ids: HashMap<Box<str>, TermId>,
    forwards: BTreeMap<Box<str>, TermId>,
    /// The words read backwards, to find those with a common end.
    backwards: BTreeMap<Box<str>, TermId>,
    terms: Vec<Term>,
    free: Vec<TermId>,
}

#[derive(Clone, Debug, Default)]
struct Term {
    text: Box<str>,
    /// Passages and how often each has the word, in any order.
    postings: Vec<(PassageId, u32)>,
}

impl Vocabulary {
    pub fn id(&self, word: &str) -> Option<TermId> {
        self.ids.get(word).copied()
    }

    pub fn text(&self, id: TermId) -> &str {
        &self.terms[id as usize].text
    }

    pub fn postings(&self, id: TermId) -> &[(PassageId, u32)] {
        &self.terms[id as usize].postings
    }

    /// More than any id.
    pub fn bound(&self) -> usize {
        self.terms.len()
    }

    /// The words that begin with `start`, in their order.
    pub fn beginning_with(&self, start: &str) -> impl Iterator<Item = (&str, TermId)> {
        let words = self.forwards.range::<str, _>((Included(start), Unbounded));
        let words = words.map(|(word, &id)| (&**word, id));
        words.take_while(move |(word, _)| word.starts_with(start))
    }

    /// The words that end with `end`, in the order of their reversals.
    pub fn ending_with(&self, end: &str) -> impl Iterator<Item = (&str, TermId)> {
        let end = backwards(end);
        let words = self
            .backwards
            .range::<str, _>((Included(&*end), Unbounded))
            .map(|(word, &id)| (word.clone(), id));
        let words = words.take_while(move |(word, _)| word.starts_with(&*end));
        words.map(|(_, id)| (self.text(id), id))
    }

    /// A passage has a word once more.
    pub fn add(&mut self, word: &str, passage: PassageId) -> TermId {
        let id = self.id(word).unwrap_or_else(|| self.learn(word));
        let postings = &mut self.terms[id as usize].postings;
        match postings.last_mut() {
            Some((last, count)) if *last == passage => *count += 1,
            _ => postings.push((passage, 1)),
        }
        id
    }

    /// A passage has a word no more.
    pub fn remove(&mut self, id: TermId, passage: PassageId) {
        let term = &mut self.terms[id as usize];
        let at = term.postings.iter().position(|&(other, _)| other == passage);
        term.postings.swap_remove(at.expect("a passage's words have postings"));
        if term.postings.is_empty() {
            self.ids.remove(&term.text);
            self.forwards.remove(&term.text);
            self.backwards.remove(&backwards(&term.text));
            self.free.push(id);
        }
    }

    fn learn(&mut self, word: &str) -> TermId {
        let term = Term { text: word.into(), postings: Vec::new() };
        let id = match self.free.pop() {
            Some(id) => {
                self.terms[id as usize] = term;
                id
            }
            None => {
                self.terms.push(term);
                TermId::try_from(self.terms.len() - 1).expect("fewer words than 2^32")
            }
        };
        self.ids.insert(word.into(), id);
        self.forwards.insert(word.into(), id);
        self.backwards.insert(backwards(word), id);
        id
    }
}

fn backwards(word: &str) -> Box<str> {
    word.chars().rev().collect::<String>().into()
}

/// More than a third of the passages have it; in few passages, every word may be in most.
pub(super) fn is_common(passages: usize, holders: usize) -> bool {
    3 * holders > passages + 6
}
