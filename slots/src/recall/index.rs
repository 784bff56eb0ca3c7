//! The passages of a conversation, and what is derived from each: its words, its neighbours, its
//! group.
//!
//! - Adding and removing in any order equals building anew from what remains.
//! - A word that the border between two adjacent passages cuts is a word of both.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::{Excluded, Unbounded};
use std::ops::Range;

use super::stopwords::is_stop_word;
use super::vocabulary::{PassageId, TermId, Vocabulary};
use super::words::{End, Kind, Word, cut_word, words};

/// The text of one block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Passage {
    /// The caller's number of the block; unique in an index.
    pub block: usize,
    /// The tokens of the passage. Where one passage ends and another begins, they are neighbours.
    pub range: Range<usize>,
    /// The tokens, decoded, without those of the chat template. A character that the block's border
    /// cuts belongs to either side.
    pub text: String,
    /// What people call its segment: the name of a file, say.
    pub key: Option<String>,
    /// Passages that belong together have the same: the blocks of one message or file, a call and
    /// its result. 0: none.
    pub group: u64,
}

/// The passages of a conversation, resident or absent: how rare a word is, all of them say.
#[derive(Clone, Debug, Default)]
pub struct Index {
    entries: Vec<Option<Entry>>,
    free: Vec<PassageId>,
    by_block: BTreeMap<usize, PassageId>,
    by_place: BTreeMap<Place, PassageId>,
    groups: BTreeMap<u64, BTreeMap<Place, PassageId>>,
    keys: BTreeMap<String, Key>,
    vocabulary: Vocabulary,
    words: usize,
}

/// Maximum passages over which a sentence is followed. Where micro-batches end, passages may have one token.
const MAX_CONTINUED: usize = 4;

/// The first token, and the block, which tells apart what begins at the same.
pub(super) type Place = (usize, usize);

#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub passage: Passage,
    /// The plain words of the passage, in order.
    pub sequence: Vec<TermId>,
    pub sentences: Vec<Sentence>,
    /// Each of its words once.
    terms: Vec<TermId>,
    /// What its neighbours add to its first and to its last word.
    cut_words: [String; 2],
}

/// A sentence or line of a passage, as far as the passage has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sentence {
    /// The words of the sentence, in the sequence.
    pub words: Range<usize>,
    /// How the sentence ends; `None` if that is not in the passage.
    pub end: Option<End>,
}

/// What people call a segment.
#[derive(Clone, Debug)]
pub(super) struct Key {
    pub words: Vec<Word>,
    pub passages: BTreeSet<PassageId>,
}

impl Entry {
    pub fn place(&self) -> Place {
        (self.passage.range.start, self.passage.block)
    }

    /// Whether the last word of its sequence is the first of the next passage's.
    pub fn cuts_word(&self) -> bool {
        !self.cut_words[1].is_empty()
    }

    pub fn tokens(&self) -> usize {
        self.passage.range.len()
    }
}

impl FromIterator<Passage> for Index {
    fn from_iter<I: IntoIterator<Item = Passage>>(passages: I) -> Self {
        let mut index = Self::default();
        passages.into_iter().for_each(|passage| index.add(passage));
        index
    }
}

impl Index {
    pub fn len(&self) -> usize {
        self.by_block.len()
    }

    pub fn is_empty(&self) -> bool {
        self.by_block.is_empty()
    }

    /// The text of a block's passage.
    pub fn text(&self, block: usize) -> Option<&str> {
        Some(&self.entry(*self.by_block.get(&block)?).passage.text)
    }

    /// Replaces a passage of the same block.
    pub fn add(&mut self, passage: Passage) {
        self.remove(passage.block);
        let passage_id = self.free.pop().unwrap_or(self.entries.len());
        if passage_id == self.entries.len() {
            self.entries.push(None);
        }
        let place = (passage.range.start, passage.block);
        let near = self.around(place);
        self.by_block.insert(passage.block, passage_id);
        self.by_place.insert(place, passage_id);
        if passage.group != 0 {
            self.groups.entry(passage.group).or_default().insert(place, passage_id);
        }
        if let Some(key) = passage.key.as_ref().filter(|key| !is_number_of_message(key)) {
            let new = || Key { words: words(key), passages: BTreeSet::new() };
            self.keys.entry(key.clone()).or_insert_with(new).passages.insert(passage_id);
        }
        self.entries[passage_id] = Some(Entry {
            passage,
            sequence: Vec::new(),
            sentences: Vec::new(),
            terms: Vec::new(),
            cut_words: Default::default(),
        });
        self.learn_words(passage_id);
        self.read_cut_words(near);
    }

    /// Nothing happens for a block without a passage.
    pub fn remove(&mut self, block: usize) {
        let Some(passage_id) = self.by_block.remove(&block) else { return };
        self.forget_words(passage_id);
        let entry = self.entries[passage_id].take().expect("`by_block` names what is there");
        let (place, group) = (entry.place(), entry.passage.group);
        self.by_place.remove(&place);
        if let Some(members) = self.groups.get_mut(&group) {
            members.remove(&place);
            if members.is_empty() {
                self.groups.remove(&group);
            }
        }
        let key = entry.passage.key.unwrap_or_default();
        if let Some(holders) = self.keys.get_mut(&key) {
            holders.passages.remove(&passage_id);
            if holders.passages.is_empty() {
                self.keys.remove(&key);
            }
        }
        self.free.push(passage_id);
        self.read_cut_words(self.around(place));
    }

    pub(super) fn vocabulary(&self) -> &Vocabulary {
        &self.vocabulary
    }

    pub(super) fn entry(&self, passage_id: PassageId) -> &Entry {
        self.entries[passage_id].as_ref().expect("a passage has this id")
    }

    /// More than the id of any passage.
    pub(super) fn bound(&self) -> usize {
        self.entries.len()
    }

    /// All passages, by place.
    pub(super) fn entries(&self) -> impl Iterator<Item = (PassageId, &Entry)> {
        self.by_place.values().map(|&passage_id| (passage_id, self.entry(passage_id)))
    }

    /// The passages that end where this one begins, and begin where it ends.
    pub(super) fn neighbours(&self, passage_id: PassageId) -> [Option<PassageId>; 2] {
        let range = &self.entry(passage_id).passage.range;
        let [before, after] = self.around(self.entry(passage_id).place());
        [
            before.filter(|&near| self.entry(near).passage.range.end == range.start),
            after.filter(|&near| self.entry(near).passage.range.start == range.end),
        ]
    }

    /// The passages over which a sentence goes on that this one's border cuts, nearest first, as far as its
    /// end: before it for side 0, behind it for side 1.
    pub(super) fn continued(&self, passage_id: PassageId, side: usize) -> Vec<PassageId> {
        let mut parts = Vec::new();
        let mut at = passage_id;
        while let Some(near) = self.neighbours(at)[side].filter(|_| parts.len() < MAX_CONTINUED) {
            parts.push(near);
            let sentences = &self.entry(near).sentences;
            let has_end = match side {
                0 => sentences.len() > 1,
                _ => sentences.first().is_some_and(|sentence| sentence.end.is_some()),
            };
            if has_end {
                break;
            }
            at = near;
        }
        parts
    }

    /// [`Self::neighbours`] of all passages, by their ids.
    pub(super) fn all_neighbours(&self) -> Vec<[Option<PassageId>; 2]> {
        let mut all = vec![[None; 2]; self.bound()];
        let pairs = self.by_place.values().zip(self.by_place.values().skip(1));
        for (&one, &other) in pairs {
            if self.entry(one).passage.range.end == self.entry(other).passage.range.start {
                all[one][1] = Some(other);
                all[other][0] = Some(one);
            }
        }
        all
    }

    /// The passages of its group, itself among them, by place; none without a group.
    pub(super) fn group(&self, passage_id: PassageId) -> impl Iterator<Item = PassageId> {
        let members = self.groups.get(&self.entry(passage_id).passage.group);
        members.into_iter().flat_map(|members| members.values().copied())
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = &Key> {
        self.keys.values()
    }

    pub(super) fn passage_id(&self, block: usize) -> Option<PassageId> {
        self.by_block.get(&block).copied()
    }

    pub(super) fn mean_words(&self) -> f64 {
        self.words as f64 / self.len().max(1) as f64
    }

    /// The passages before and after a place, near or far.
    fn around(&self, place: Place) -> [Option<PassageId>; 2] {
        let before = self.by_place.range(..place).next_back();
        let after = self.by_place.range((Excluded(place), Unbounded)).next();
        [before.map(|(_, &passage_id)| passage_id), after.map(|(_, &passage_id)| passage_id)]
    }

    fn entry_mut(&mut self, passage_id: PassageId) -> &mut Entry {
        self.entries[passage_id].as_mut().expect("a passage has this id")
    }

    /// Reads passages again whose cut words have changed, because something came or went between
    /// them.
    fn read_cut_words(&mut self, [before, after]: [Option<PassageId>; 2]) {
        for passage_id in [before, after].into_iter().flatten() {
            let [start, end] = self.cut_words(passage_id);
            if start != self.entry(passage_id).cut_words[0]
                || end != self.entry(passage_id).cut_words[1]
            {
                self.forget_words(passage_id);
                self.learn_words(passage_id);
            }
        }
    }

    /// What its neighbours add to its first and to its last word.
    fn cut_words(&self, passage_id: PassageId) -> [String; 2] {
        let text = |passage_id: PassageId| &*self.entry(passage_id).passage.text;
        let [before, after] = self.neighbours(passage_id);
        let start = before.and_then(|near| cut_word(text(near), text(passage_id)));
        let end = after.and_then(|near| cut_word(text(passage_id), text(near)));
        [start.map_or("", |(left, _)| left).into(), end.map_or("", |(_, right)| right).into()]
    }

    fn learn_words(&mut self, passage_id: PassageId) {
        let [start, end] = self.cut_words(passage_id);
        let passage = &self.entry(passage_id).passage;
        let text = words(&format!("{start}{}{end}", passage.text));
        let key = passage.key.as_ref().and_then(|key| self.keys.get(key));
        let vocabulary = &mut self.vocabulary;
        let mut sequence = Vec::with_capacity(text.len());
        let mut sentences = Vec::new();
        let mut terms = Vec::with_capacity(text.len());
        for word in &text {
            let id = vocabulary.add(&word.text, passage_id);
            terms.push(id);
            if word.kind == Kind::Plain {
                sequence.push(id);
            }
            if word.end.is_some() {
                sentences
                    .push(Sentence { words: begun(&sentences)..sequence.len(), end: word.end });
            }
        }
        if begun(&sentences) < sequence.len() {
            sentences.push(Sentence { words: begun(&sentences)..sequence.len(), end: None });
        }
        let key = key.into_iter().flat_map(|key| &key.words);
        terms.extend(key.map(|word| vocabulary.add(&word.text, passage_id)));
        terms.sort_unstable();
        terms.dedup();
        self.words += sequence.len();
        let entry = self.entry_mut(passage_id);
        (entry.sequence, entry.sentences) = (sequence, sentences);
        (entry.terms, entry.cut_words) = (terms, [start, end]);
    }

    fn forget_words(&mut self, passage_id: PassageId) {
        let entry = self.entry_mut(passage_id);
        let terms = std::mem::take(&mut entry.terms);
        let words = std::mem::take(&mut entry.sequence).len();
        self.words -= words;
        terms.into_iter().for_each(|id| self.vocabulary.remove(id, passage_id));
    }
}

/// Where the next sentence begins.
fn begun(sentences: &[Sentence]) -> usize {
    sentences.last().map_or(0, |sentence| sentence.words.end)
}

/// Whether a key is one that the daemon gives to messages without a name: users do not write "message 3".
fn is_number_of_message(key: &str) -> bool {
    let number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    match &words(key)[..] {
        [] => true,
        [one] => is_stop_word(&one.text) || number(&one.text),
        [word, n] => (word.text == "message" || is_stop_word(&word.text)) && number(&n.text),
        _ => false,
    }
}
