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
//! word; `query`; `mentions`, `bm25` with `proximity`, [`Vectors`], the rankings; `fuse`.

mod bm25;
mod fuse;
mod index;
mod mentions;
mod proximity;
mod query;
mod shared;
mod stopwords;
mod vectors;
mod vocabulary;
mod words;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

pub use fuse::Room;
pub use index::{Index, Passage};
pub use shared::shared_words;
pub use vectors::Vectors;
pub use words::sentences;

use bm25::Scores;
use vocabulary::Slot;

/// A resident passage answers better than a candidate from this factor on.
const BETTER: f64 = 1.2;

/// A passage is asked for that answers at least this part as well as the best one.
const ASKED_FOR: f64 = 0.25;

/// Standard deviations above the mean from which on a passage is near in meaning: less than a third of those
/// of a long conversation.
const NEAR: f64 = 0.5;

/// The same from which on the nearest one is asked for, and comes first: of normally distributed cosines one
/// in 161. By all-MiniLM-L6-v2, nine of ten facts were 3.4 to 8.7 from the mean of 55 other passages, whose
/// nearest is at about 2.3 by chance.
const FOREMOST: f64 = 2.5;

/// Of a long text, so much of its beginning and so much of its end is searched for on its own, too.
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
    /// It may leave for what is asked for, unless it is asked for, too.
    MayLeave,
}

/// The choice for a query.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Chosen {
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
    /// Of the fused ranks; that of its hit for [`Why::Group`].
    pub score: f64,
}

/// The first of these that holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Why {
    /// The text names its key, its file or an identifier in it, or quotes it.
    Mention,
    /// It shares words with the text.
    Lexical,
    /// It means something alike.
    Semantic,
    /// It is next to such a block, or belongs to the same message, file or call.
    Group,
}

/// Chooses the absent blocks that come back. They have at most `free` tokens; those that the query asks for may
/// also take the cells of resident blocks that may leave.
pub fn choose(
    index: &Index,
    query: &Query<'_>,
    residence: &dyn Fn(usize) -> Residence,
    free: usize,
) -> Chosen {
    choose_within(index, query, residence, Room { free, taken: 0 })
}

/// The same, where blocks that the index does not have may leave, too.
pub fn choose_within(
    index: &Index,
    query: &Query<'_>,
    residence: &dyn Fn(usize) -> Residence,
    room: Room,
) -> Chosen {
    let mut is_absent = vec![false; index.bound()];
    for (slot, entry) in index.entries() {
        is_absent[slot] = residence(entry.passage.block) == Residence::Absent;
    }
    let score = |text: &str| match query.by.words {
        true => bm25::scores(index, &query::Words::of(text, index)),
        false => Scores::none(index.bound()),
    };
    let scores = score(query.text);
    let mentions = match query.by.mentions {
        true => mentions::mentions(index, query.text, &query::Words::of(query.text, index)),
        false => BTreeMap::new(),
    };
    let continuing = continuing(index, &scores, &is_absent);
    let alike = Alike::of(index, query);
    let mut rankings = vec![
        (Why::Mention, mentioned(index, &mentions, &scores, &is_absent)),
        (Why::Lexical, sharing_words(index, &scores, &is_absent)),
        (Why::Semantic, alike.near(index, &is_absent)),
        (Why::Group, continuing.clone()),
    ];
    let mut asked_for = asked_for(index, &mentions, &scores);
    if let Some(request) = request(query.text) {
        let scores = score(&request);
        rankings.push((Why::Lexical, sharing_words(index, &scores, &is_absent)));
        let more = self::asked_for(index, &BTreeMap::new(), &scores);
        asked_for.iter_mut().zip(more).for_each(|(one, other)| *one |= other);
    }
    continuing.into_iter().chain(alike.foremost()).for_each(|slot| asked_for[slot] = true);
    let mut hits = fuse::fuse(&rankings, index);
    let foremost = alike.foremost().and_then(|slot| hits.iter().position(|hit| hit.slot == slot));
    if let Some(at) = foremost {
        hits[..=at].rotate_right(1);
    }
    let block = |slot: Slot| index.entry(slot).passage.block;
    let may_leave =
        |slot: &Slot| !asked_for[*slot] && residence(block(*slot)) == Residence::MayLeave;
    let taken: usize = slots(index).filter(may_leave).map(|slot| index.entry(slot).tokens()).sum();
    let room = Room { taken: room.taken + taken, ..room };
    let chosen = fuse::fit(&hits, index, &scores, &asked_for, &is_absent, room).into_iter();
    let back = chosen.map(|hit| Choice { block: block(hit.slot), why: hit.why, score: hit.score });
    let stays = |slot: &Slot| asked_for[*slot] && !is_absent[*slot];
    Chosen { back: back.collect(), stay: slots(index).filter(stays).map(block).collect() }
}

/// All passages, by place.
fn slots(index: &Index) -> impl Iterator<Item = Slot> {
    index.entries().map(|(slot, _)| slot)
}

/// Which passages the query names, have its rarest word, or are among those that answer best; and those of their
/// groups that have words of it; with what these go on with. By slot.
fn asked_for(index: &Index, mentions: &BTreeMap<Slot, usize>, scores: &Scores) -> Vec<bool> {
    let best = scores.score.iter().copied().fold(0.0, f64::max);
    let mut asked_for = vec![false; index.bound()];
    let answers = |slot: &Slot| {
        let is_good = scores.has_rarest[*slot] || scores.score[*slot] >= ASKED_FOR * best;
        scores.has_substance[*slot] && is_good
    };
    let first: Vec<Slot> = slots(index).filter(answers).collect();
    for slot in first.into_iter().chain(mentions.keys().copied()) {
        asked_for[slot] = true;
        for member in index.group(slot).filter(|&member| scores.has_substance[member]) {
            asked_for[member] = true;
        }
    }
    for slot in slots(index).filter(|&slot| scores.has_substance[slot]) {
        if asked_for[slot] {
            fuse::continued(index, slot, scores)
                .into_iter()
                .for_each(|near| asked_for[near] = true);
        }
    }
    asked_for
}

/// The first and last lines of a text that is too long to be a question: what to do with it stands
/// there.
fn request(text: &str) -> Option<String> {
    let mut ends = text.char_indices().map(|(at, _)| at);
    let first = ends.nth(REQUEST_CHARS)?;
    let last = ends.nth_back(REQUEST_CHARS)?;
    Some(format!("{}\n{}", &text[..first], &text[last..]))
}

/// Absent passages that the text names: most names first, then by words.
fn mentioned(
    index: &Index,
    mentions: &BTreeMap<Slot, usize>,
    scores: &Scores,
    is_absent: &[bool],
) -> Vec<Slot> {
    let absent = mentions.iter().filter(|&(&slot, _)| is_absent[slot]);
    ranked(index, absent.map(|(&slot, &names)| (slot, names as f64, scores.score[slot])))
}

/// Absent passages with words of the text that tell what it is about; with other words than
/// function words, where no resident passage answers better.
fn sharing_words(index: &Index, scores: &Scores, is_absent: &[bool]) -> Vec<Slot> {
    let resident = index.entries().filter(|&(slot, _)| !is_absent[slot]);
    let best = resident.map(|(slot, _)| scores.score[slot]).fold(0.0, f64::max);
    let absent = index.entries().map(|(slot, _)| slot).filter(|&slot| {
        let answers = best < BETTER * scores.score[slot];
        is_absent[slot] && scores.has_content[slot] && (scores.has_substance[slot] || answers)
    });
    let ranking = ranked(index, absent.map(|slot| (slot, scores.score[slot], 0.0)));
    // Of equal texts, the newest tells what all of them tell.
    let mut seen = BTreeSet::new();
    let (mut new, again): (Vec<Slot>, Vec<Slot>) =
        ranking.into_iter().partition(|&slot| seen.insert(&index.entry(slot).sequence));
    new.extend(again);
    new
}

/// Absent passages into which a resident one goes on, where none answers much better than this one.
fn continuing(index: &Index, scores: &Scores, is_absent: &[bool]) -> Vec<Slot> {
    let best = index.entries().map(|(slot, _)| scores.score[slot]).fold(0.0, f64::max);
    let answers = |slot: Slot| scores.has_substance[slot] && best < BETTER * scores.score[slot];
    let resident = index.entries().map(|(slot, _)| slot).filter(|&slot| !is_absent[slot]);
    let continued = resident.filter(|&slot| answers(slot)).flat_map(|slot| {
        let near = fuse::continued(index, slot, scores).into_iter();
        near.map(move |near| (near, scores.score[slot], 0.0))
    });
    ranked(index, continued.filter(|&(slot, ..)| is_absent[slot]))
}

/// How near passages are to the query in meaning. Cosines of one model lie close together, those of another
/// far apart: what counts is how a passage compares with the others.
struct Alike {
    cosines: Vec<(Slot, f64)>,
    mean: f64,
    deviation: f64,
}

impl Alike {
    fn of(index: &Index, query: &Query<'_>) -> Self {
        let meaning = query.meaning.filter(|_| query.by.meaning);
        let cosines = meaning.map(|(vectors, vector)| vectors.cosines(vector)).unwrap_or_default();
        let cosines: Vec<(Slot, f64)> = cosines
            .into_iter()
            .filter_map(|(block, cosine)| Some((index.slot(block)?, cosine)))
            .collect();
        let count = cosines.len().max(1) as f64;
        let mean = cosines.iter().map(|(_, cosine)| cosine).sum::<f64>() / count;
        let variance = cosines.iter().map(|(_, cosine)| (cosine - mean).powi(2)).sum::<f64>();
        Self { cosines, mean, deviation: (variance / count).sqrt() }
    }

    /// Absent passages that are nearer than most.
    fn near(&self, index: &Index, is_absent: &[bool]) -> Vec<Slot> {
        let near = self.mean + NEAR * self.deviation;
        let absent =
            self.cosines.iter().filter(|&&(slot, cosine)| is_absent[slot] && cosine >= near);
        ranked(index, absent.map(|&(slot, cosine)| (slot, cosine, 0.0)))
    }

    /// The nearest passage, if it is far nearer than most.
    fn foremost(&self) -> Option<Slot> {
        let best = self.cosines.iter().max_by(|one, other| one.1.total_cmp(&other.1));
        let least = self.mean + FOREMOST * self.deviation;
        best.filter(|(_, cosine)| self.deviation > 0.0 && *cosine >= least).map(|(slot, _)| *slot)
    }
}

/// By first and second score, highest first. Of equal ones, later groups come first, because what
/// was said later holds; and within a group the beginning.
fn ranked(index: &Index, scored: impl Iterator<Item = (Slot, f64, f64)>) -> Vec<Slot> {
    let mut scored: Vec<(Slot, f64, f64)> = scored.collect();
    scored.sort_by(|one, other| {
        let order = |slot: Slot| {
            let first = index.group(slot).next().unwrap_or(slot);
            (Reverse(index.entry(first).place()), index.entry(slot).place())
        };
        let scores = other.1.total_cmp(&one.1).then(other.2.total_cmp(&one.2));
        scores.then_with(|| order(one.0).cmp(&order(other.0)))
    });
    scored.into_iter().map(|(slot, ..)| slot).collect()
}
