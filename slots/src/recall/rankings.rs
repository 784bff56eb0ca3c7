//! The rankings of absent passages by mentions and words, and the passages that a query asks for.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::bm25::Scores;
use super::fuse;
use super::index::Index;
use super::vocabulary::PassageId;

/// A resident passage answers better than a candidate from this factor on.
const BETTER: f64 = 1.2;

/// A passage is asked for if its score is at least this part of the best one.
const ASKED_FOR: f64 = 0.25;

/// All passages, by place.
pub(super) fn passages(index: &Index) -> impl Iterator<Item = PassageId> {
    index.entries().map(|(passage, _)| passage)
}

/// Which passages the query names, have its rarest word, or are among those that answer best; and those of their
/// groups that have words of it; with what these go on with. By id.
pub(super) fn asked_for(
    index: &Index,
    mentions: &BTreeMap<PassageId, usize>,
    scores: &Scores,
) -> Vec<bool> {
    let best = scores.score.iter().copied().fold(0.0, f64::max);
    let mut asked_for = vec![false; index.bound()];
    let answers = |passage: &PassageId| {
        let is_good = scores.has_rarest[*passage] || scores.score[*passage] >= ASKED_FOR * best;
        scores.has_substance[*passage] && is_good
    };
    let first: Vec<PassageId> = passages(index).filter(answers).collect();
    for passage in first.into_iter().chain(mentions.keys().copied()) {
        asked_for[passage] = true;
        for member in index.group(passage).filter(|&member| scores.has_substance[member]) {
            asked_for[member] = true;
        }
    }
    for passage in passages(index).filter(|&passage| scores.has_substance[passage]) {
        if asked_for[passage] {
            fuse::continued(index, passage, scores)
                .into_iter()
                .for_each(|near| asked_for[near] = true);
        }
    }
    asked_for
}

/// Absent passages that the text names: most names first, then by words.
pub(super) fn mentioned(
    index: &Index,
    mentions: &BTreeMap<PassageId, usize>,
    scores: &Scores,
    is_absent: &[bool],
) -> Vec<PassageId> {
    let absent = mentions.iter().filter(|&(&passage, _)| is_absent[passage]);
    ranked(index, absent.map(|(&passage, &names)| (passage, names as f64, scores.score[passage])))
}

/// Absent passages with words of the text that tell what it is about; with other words than
/// function words, where no resident passage answers better.
pub(super) fn sharing_words(index: &Index, scores: &Scores, is_absent: &[bool]) -> Vec<PassageId> {
    let resident = index.entries().filter(|&(passage, _)| !is_absent[passage]);
    let best = resident.map(|(passage, _)| scores.score[passage]).fold(0.0, f64::max);
    let absent = index.entries().map(|(passage, _)| passage).filter(|&passage| {
        let answers = best < BETTER * scores.score[passage];
        is_absent[passage]
            && scores.has_content[passage]
            && (scores.has_substance[passage] || answers)
    });
    let ranking = ranked(index, absent.map(|passage| (passage, scores.score[passage], 0.0)));
    // Of equal texts, the newest tells what all of them tell.
    let mut seen = BTreeSet::new();
    let (mut new, again): (Vec<PassageId>, Vec<PassageId>) =
        ranking.into_iter().partition(|&passage| seen.insert(&index.entry(passage).sequence));
    new.extend(again);
    new
}

/// Absent passages into which a resident one goes on, where none answers much better than this one.
pub(super) fn continuing(index: &Index, scores: &Scores, is_absent: &[bool]) -> Vec<PassageId> {
    let best = index.entries().map(|(passage, _)| scores.score[passage]).fold(0.0, f64::max);
    let answers =
        |passage: PassageId| scores.has_substance[passage] && best < BETTER * scores.score[passage];
    let resident =
        index.entries().map(|(passage, _)| passage).filter(|&passage| !is_absent[passage]);
    let continued = resident.filter(|&passage| answers(passage)).flat_map(|passage| {
        let near = fuse::continued(index, passage, scores).into_iter();
        near.map(move |near| (near, scores.score[passage], 0.0))
    });
    ranked(index, continued.filter(|&(passage, ..)| is_absent[passage]))
}

/// By first and second score, highest first. Of equal ones, later groups come first, because what
/// was said later holds; and within a group the beginning.
pub(super) fn ranked(
    index: &Index,
    scored: impl Iterator<Item = (PassageId, f64, f64)>,
) -> Vec<PassageId> {
    let mut scored: Vec<(PassageId, f64, f64)> = scored.collect();
    scored.sort_by(|one, other| {
        let order = |passage: PassageId| {
            let first = index.group(passage).next().unwrap_or(passage);
            (Reverse(index.entry(first).place()), index.entry(passage).place())
        };
        let scores = other.1.total_cmp(&one.1).then(other.2.total_cmp(&one.2));
        scores.then_with(|| order(one.0).cmp(&order(other.0)))
    });
    scored.into_iter().map(|(passage, ..)| passage).collect()
}
