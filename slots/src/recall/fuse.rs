//! Several rankings of passages as one, the passages around each, and as many of these as there is
//! room for.

use std::collections::BTreeSet;

use super::Why;
use super::bm25::Scores;
use super::index::Index;
use super::proximity::Sides;
use super::vocabulary::PassageId;

/// Reciprocal rank fusion as in Cormack, Clarke & Büttcher, "Reciprocal Rank Fusion outperforms
/// Condorcet and individual Rank Learning Methods", 2009.
const K: f64 = 60.0;

/// The neighbour that continues what the hit says ranks this many ranks behind the hit.
const CONTINUED: f64 = 0.5;
/// Another neighbour ranks this many ranks behind the hit.
const NEIGHBOUR: f64 = 4.0;
/// The rest of a group ranks this many ranks behind the hit, plus one for each that comes before.
const GROUP: f64 = 8.0;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Hit {
    pub passage: PassageId,
    pub why: Why,
    pub score: f64,
}

/// Tokens that may come back.
#[derive(Clone, Copy, Debug)]
pub struct Room {
    /// Cells that are free.
    pub free: usize,
    /// Cells that others may leave for what is asked for.
    pub taken: usize,
}

/// Fuses rankings, each best first. A passage of several is there for the reason of the first of
/// them. Equal scores are ordered by that ranking too.
pub(super) fn fuse(rankings: &[(Why, Vec<PassageId>)], index: &Index) -> Vec<Hit> {
    let mut hits: Vec<Option<(usize, Hit)>> = vec![None; index.bound()];
    for (why, ranking) in rankings {
        for (rank, &passage) in ranking.iter().enumerate() {
            let (_, hit) =
                hits[passage].get_or_insert((rank, Hit { passage, why: *why, score: 0.0 }));
            hit.score += 1.0 / (K + 1.0 + rank as f64);
        }
    }
    let mut hits: Vec<(usize, Hit)> = hits.into_iter().flatten().collect();
    hits.sort_by(|(rank, one), (other_rank, other)| {
        let order = (one.why, rank).cmp(&(other.why, other_rank));
        other.score.total_cmp(&one.score).then(order)
    });
    hits.into_iter().map(|(_, hit)| hit).collect()
}

/// Hits and what comes with them, best first, as many as there is room for. What is asked for, and what
/// goes on with it or is of its group, may take cells of others.
pub(super) fn fit(
    hits: &[Hit],
    index: &Index,
    scores: &Scores,
    asked_for: &[bool],
    is_absent: &[bool],
    room: Room,
) -> Vec<Hit> {
    let mut queue: Vec<(f64, Hit, bool)> = Vec::new();
    let mut by_passage = vec![None; index.bound()];
    hits.iter().for_each(|hit| by_passage[hit.passage] = Some(*hit));
    let mut groups = BTreeSet::new();
    let mut tokens = 0;
    for (rank, hit) in hits.iter().enumerate() {
        let rank = rank as f64;
        let takes = asked_for[hit.passage];
        queue.push((rank, *hit, takes));
        // The hits behind this one cannot have room for more than themselves.
        if tokens <= room.free + room.taken {
            tokens += index.entry(hit.passage).tokens();
            let with_group = groups.insert(index.entry(hit.passage).passage.group);
            around(index, hit.passage, scores, with_group, |passage, behind, belongs| {
                let own = by_passage[passage].unwrap_or(Hit {
                    passage,
                    why: Why::Group,
                    score: hit.score,
                });
                queue.push((rank + behind, own, takes && belongs));
            });
        }
    }
    queue.sort_by(|one, other| one.0.total_cmp(&other.0));
    let mut is_left = is_absent.to_vec();
    let Room { mut free, mut taken } = room;
    let mut chosen = Vec::new();
    for (_, hit, takes) in queue {
        let tokens = index.entry(hit.passage).tokens();
        let fits = tokens <= if takes { free + taken } else { free };
        if is_left[hit.passage] && fits {
            is_left[hit.passage] = false;
            taken -= tokens.saturating_sub(free);
            free = free.saturating_sub(tokens);
            chosen.push(hit);
        }
    }
    chosen
}

/// The passages that come with one, how many ranks behind it, and whether they belong to it: a mere neighbour
/// does not.
fn around(
    index: &Index,
    passage: PassageId,
    scores: &Scores,
    with_group: bool,
    mut bring: impl FnMut(PassageId, f64, bool),
) {
    index.neighbours(passage).into_iter().flatten().for_each(|near| bring(near, NEIGHBOUR, false));
    continued(index, passage, scores).into_iter().for_each(|near| bring(near, CONTINUED, true));
    if !with_group {
        return;
    }
    let members: Vec<PassageId> = index.group(passage).collect();
    let own = members.iter().position(|&member| member == passage).unwrap_or(0);
    let mut others: Vec<(usize, PassageId)> =
        members.iter().enumerate().map(|(at, &member)| (at.abs_diff(own), member)).collect();
    others.sort_by_key(|(far, _)| *far);
    for (at, (_, member)) in others.into_iter().enumerate() {
        let behind = GROUP + at as f64;
        bring(member, behind, true);
        let continued = continued(index, member, scores).into_iter();
        continued.for_each(|near| bring(near, behind + CONTINUED, true));
    }
}

/// The passages over which goes on what this one says of the query.
pub(super) fn continued(index: &Index, passage: PassageId, scores: &Scores) -> Vec<PassageId> {
    let Sides { before, after } = scores.goes_on[passage];
    let sides = [(1, after), (0, before)].into_iter().filter(|&(_, goes_on)| goes_on);
    sides.flat_map(|(side, _)| index.continued(passage, side)).collect()
}
