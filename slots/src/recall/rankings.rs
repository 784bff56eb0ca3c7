//! The rankings of absent passages by mentions and words, and the passages that a query asks for.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::bm25::Scores;
use super::fuse;
use super::index::Index;
use super::vocabulary::Slot;

/// A resident passage answers better than a candidate from this factor on.
const BETTER: f64 = 1.2;

/// A passage is asked for that answers at least this part as well as the best one.
const ASKED_FOR: f64 = 0.25;

/// All passages, by place.
pub(super) fn slots(index: &Index) -> impl Iterator<Item = Slot> {
    index.entries().map(|(slot, _)| slot)
}

/// Which passages the query names, have its rarest word, or are among those that answer best; and those of their
/// groups that have words of it; with what these go on with. By slot.
pub(super) fn asked_for(
    index: &Index,
    mentions: &BTreeMap<Slot, usize>,
    scores: &Scores,
) -> Vec<bool> {
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

/// Absent passages that the text names: most names first, then by words.
pub(super) fn mentioned(
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
pub(super) fn sharing_words(index: &Index, scores: &Scores, is_absent: &[bool]) -> Vec<Slot> {
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
pub(super) fn continuing(index: &Index, scores: &Scores, is_absent: &[bool]) -> Vec<Slot> {
    let best = index.entries().map(|(slot, _)| scores.score[slot]).fold(0.0, f64::max);
    let answers = |slot: Slot| scores.has_substance[slot] && best < BETTER * scores.score[slot];
    let resident = index.entries().map(|(slot, _)| slot).filter(|&slot| !is_absent[slot]);
    let continued = resident.filter(|&slot| answers(slot)).flat_map(|slot| {
        let near = fuse::continued(index, slot, scores).into_iter();
        near.map(move |near| (near, scores.score[slot], 0.0))
    });
    ranked(index, continued.filter(|&(slot, ..)| is_absent[slot]))
}

/// By first and second score, highest first. Of equal ones, later groups come first, because what
/// was said later holds; and within a group the beginning.
pub(super) fn ranked(index: &Index, scored: impl Iterator<Item = (Slot, f64, f64)>) -> Vec<Slot> {
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
