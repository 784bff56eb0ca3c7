//! Which of the absent blocks of a conversation come back when new text arrives.
//!
//! - Pure: no clock, no I/O, no model. The same passages and the same query always choose the same
//!   blocks, in whatever order the passages were added.
//! - Three rankings, fused by rank: what the query *mentions*, what it shares *words* with, and,
//!   where the caller has vectors, what *means* something alike. Neighbours and the rest of a group
//!   follow their hits.
//! - Never more tokens than there is room for. In cells that are free, rather too much comes back
//!   than too little: a candidate is dropped only if it has no word of the query that tells what the
//!   query is about. Resident blocks leave only for what the query asks for: a passage that it
//!   names, one with its rarest word, one that answers about as well as the best one, or the one that is by
//!   far nearest in meaning.
//!
//! Reading order: [`Index`] and its [`Passage`]s; [`choose`]; `words`, what counts as the same
//! word; `query`; `mentions`, `bm25` with `proximity`, [`Vectors`], the scores; `rankings` and `meaning`,
//! the passages in their order; `fuse`.

mod bm25;
mod fuse;
mod index;
mod meaning;
mod mentions;
mod proximity;
mod query;
mod rankings;
mod shared;
mod stopwords;
mod vectors;
mod vocabulary;
mod words;

use std::collections::BTreeMap;

pub use fuse::Room;
pub use index::{Index, Passage};
pub use shared::shared_words;
pub use vectors::Vectors;
pub use words::sentences;

use bm25::Scores;
use meaning::Alike;
use vocabulary::PassageId;

/// This much of the beginning and of the end of a long text is searched for on its own, too.
const REQUEST_CHARS: usize = 300;

/// New text, for which absent blocks may come back.
#[derive(Clone, Copy, Debug)]
pub struct Query<'a> {
    pub text: &'a str,
    /// Vectors of passages, and the unit vector of the text, of the same embedding model.
    pub meaning: Option<(&'a Vectors, &'a [f32])>,
    pub by: Retrievals,
}

impl<'a> Query<'a> {
    pub fn new(text: &'a str) -> Self {
        Self { text, meaning: None, by: Retrievals::ALL }
    }
}

/// The rankings that are fused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retrievals {
    pub mentions: bool,
    pub words: bool,
    pub meaning: bool,
}

impl Retrievals {
    pub const ALL: Self = Self { mentions: true, words: true, meaning: true };
    pub const MENTIONS: Self = Self { mentions: true, ..Self::NONE };
    pub const WORDS: Self = Self { words: true, ..Self::NONE };
    pub const MEANING: Self = Self { meaning: true, ..Self::NONE };
    const NONE: Self = Self { mentions: false, words: false, meaning: false };
}

/// Where a block is, and whether its cells may be given to others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Residence {
    Absent,
    Resident,
    /// The block may leave for what is asked for, unless it is asked for, too.
    MayLeave,
}

/// The blocks that a query selects.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Selection {
    /// Absent blocks that come back, best first.
    pub back: Vec<Choice>,
    /// Resident blocks that must not leave for them, by place.
    pub stay: Vec<usize>,
}

/// A block that comes back.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Choice {
    pub block: usize,
    pub why: Why,
    /// Score of the fused ranks; that of its hit for [`Why::Group`].
    pub score: f64,
}

/// The first of these that holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Why {
    /// The text names its key, its file or an identifier in it, or quotes it.
    Mention,
    /// The block shares words with the text.
    Lexical,
    /// The block means something alike.
    Semantic,
    /// The block is next to such a block, or belongs to the same message, file or call.
    Group,
}

/// Chooses the absent blocks that come back. They have at most `free` tokens; those that the query asks for may
/// also take the cells of resident blocks that may leave.
pub fn choose(
    index: &Index,
    query: &Query<'_>,
    residence: &dyn Fn(usize) -> Residence,
    free: usize,
) -> Selection {
    choose_within(index, query, residence, Room { free, taken: 0 })
}

/// [`choose`], where blocks that the index does not have may leave, too.
pub fn choose_within(
    index: &Index,
    query: &Query<'_>,
    residence: &dyn Fn(usize) -> Residence,
    room: Room,
) -> Selection {
    let mut is_absent = vec![false; index.bound()];
    for (passage, entry) in index.entries() {
        is_absent[passage] = residence(entry.passage.block) == Residence::Absent;
    }
    let score = |text: &str| {
        if query.by.words {
            bm25::scores(index, &query::Words::of(text, index))
        } else {
            Scores::none(index.bound())
        }
    };
    let scores = score(query.text);
    let mentions = if query.by.mentions {
        mentions::mentions(index, query.text, &query::Words::of(query.text, index))
    } else {
        BTreeMap::new()
    };
    let continuing = rankings::continuing(index, &scores, &is_absent);
    let alike = Alike::of(index, query);
    let mut ranked = vec![
        (Why::Mention, rankings::mentioned(index, &mentions, &scores, &is_absent)),
        (Why::Lexical, rankings::sharing_words(index, &scores, &is_absent)),
        (Why::Semantic, alike.near(index, &is_absent)),
        (Why::Group, continuing.clone()),
    ];
    let mut asked_for = rankings::asked_for(index, &mentions, &scores);
    if let Some(request) = request(query.text) {
        let scores = score(&request);
        ranked.push((Why::Lexical, rankings::sharing_words(index, &scores, &is_absent)));
        let more = rankings::asked_for(index, &BTreeMap::new(), &scores);
        asked_for.iter_mut().zip(more).for_each(|(one, other)| *one |= other);
    }
    continuing.into_iter().chain(alike.foremost()).for_each(|passage| asked_for[passage] = true);
    let mut hits = fuse::fuse(&ranked, index);
    let foremost =
        alike.foremost().and_then(|passage| hits.iter().position(|hit| hit.passage == passage));
    if let Some(at) = foremost {
        hits[..=at].rotate_right(1);
    }
    let block = |passage: PassageId| index.entry(passage).passage.block;
    let may_leave = |passage: &PassageId| {
        !asked_for[*passage] && residence(block(*passage)) == Residence::MayLeave
    };
    let taken: usize = rankings::passages(index)
        .filter(may_leave)
        .map(|passage| index.entry(passage).tokens())
        .sum();
    let room = Room { taken: room.taken + taken, ..room };
    let chosen = fuse::fit(&hits, index, &scores, &asked_for, &is_absent, room).into_iter();
    let back =
        chosen.map(|hit| Choice { block: block(hit.passage), why: hit.why, score: hit.score });
    let stays = |passage: &PassageId| asked_for[*passage] && !is_absent[*passage];
    Selection {
        back: back.collect(),
        stay: rankings::passages(index).filter(stays).map(block).collect(),
    }
}

/// The first and last lines of a text that is too long to be a question: what to do with it stands
/// there.
fn request(text: &str) -> Option<String> {
    let mut ends = text.char_indices().map(|(at, _)| at);
    let first = ends.nth(REQUEST_CHARS)?;
    let last = ends.nth_back(REQUEST_CHARS)?;
    Some(format!("{}\n{}", &text[..first], &text[last..]))
}
