//! Chooses which part of a conversation goes on in a new timeline, where the whole no longer fits into the
//! context. Pure: sizes in, places out.
//!
//! - What always stays is in every timeline: instructions, and exchanges with a pinned part.
//! - Of the others the newest stay, without a gap. An *exchange* is a question with all that follows it; it
//!   stays or leaves whole. A *step* is an answer, or a call of tools with their results.
//! - The last exchange is what is being answered. Where it alone is too long, its question and its newest
//!   steps stay.
//! - The new timeline is longer than it may be only where its last part and what always stays are.
//! - [`fit`]: what comes back in front of a question, of what left.

use serde::Deserialize;

/// What becomes of a conversation that outgrows the context, as requests and profiles say it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Beyond {
    /// The conversation's answers end there.
    End,
    /// The conversation goes on as a new timeline of its newest part.
    Reanchor,
}

/// Adjacent messages that stay or leave together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    pub tokens: usize,
    pub kind: Kind,
    /// The exchange of this part always stays.
    pub pinned: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Always stays, whatever is around it.
    Instructions,
    /// Begins an exchange.
    Question,
    Step,
}

/// The parts of the new timeline, in order: at most `tokens`, if that is possible.
pub fn choose(parts: &[Part], tokens: usize) -> Vec<usize> {
    let mut stays = vec![false; parts.len()];
    let exchanges = exchanges(parts);
    for (at, part) in parts.iter().enumerate() {
        stays[at] = part.kind == Kind::Instructions;
    }
    for exchange in &exchanges {
        if exchange.iter().any(|&at| parts[at].pinned) {
            exchange.iter().for_each(|&at| stays[at] = true);
        }
    }
    let Some((last, earlier)) = exchanges.split_last() else { return kept(&stays) };
    let ends = [last[0], last[last.len() - 1]];
    let is_end = |at: usize| ends[1] == at || (ends[0] == at && parts[at].kind == Kind::Question);
    last.iter().filter(|&&at| is_end(at)).for_each(|&at| stays[at] = true);
    let sum = |stays: &[bool]| kept(stays).iter().map(|&at| parts[at].tokens).sum::<usize>();
    let mut room = tokens.saturating_sub(sum(&stays));
    let mut take = |group: &[usize]| {
        let absent: Vec<usize> = group.iter().copied().filter(|&at| !stays[at]).collect();
        let needed: usize = absent.iter().map(|&at| parts[at].tokens).sum();
        let fits = needed <= room;
        if fits {
            room -= needed;
            absent.into_iter().for_each(|at| stays[at] = true);
        }
        fits
    };
    let is_whole = last.iter().rev().all(|&at| take(&[at]));
    if is_whole {
        let _ = earlier.iter().rev().all(|exchange| take(exchange));
    }
    kept(&stays)
}

/// Which candidates, the best first, come back within `tokens`. A candidate that does not fit leaves its room to
/// those behind it.
pub fn fit<T>(candidates: impl IntoIterator<Item = (T, usize)>, tokens: usize) -> Vec<T> {
    let mut room = tokens;
    let fits = |(_, size): &(T, usize)| {
        let fits = *size <= room;
        room -= if fits { *size } else { 0 };
        fits
    };
    candidates.into_iter().filter(fits).map(|(candidate, _)| candidate).collect()
}

/// The parts of each exchange. Steps in front of the first question are one, too.
fn exchanges(parts: &[Part]) -> Vec<Vec<usize>> {
    let mut exchanges: Vec<Vec<usize>> = Vec::new();
    for (at, part) in parts.iter().enumerate() {
        match (part.kind, exchanges.last_mut()) {
            (Kind::Instructions, _) => {}
            (Kind::Step, Some(exchange)) => exchange.push(at),
            _ => exchanges.push(vec![at]),
        }
    }
    exchanges
}

fn kept(stays: &[bool]) -> Vec<usize> {
    stays.iter().enumerate().filter(|(_, stays)| **stays).map(|(at, _)| at).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn part(kind: Kind, tokens: usize) -> Part {
        Part { tokens, kind, pinned: false }
    }

    /// Instructions of 10 tokens, and exchanges of a question and an answer, 20 tokens each.
    fn talk(exchanges: usize) -> Vec<Part> {
        let exchange = [part(Kind::Question, 5), part(Kind::Step, 15)];
        let front = std::iter::once(part(Kind::Instructions, 10));
        front.chain((0..exchanges).flat_map(|_| exchange)).collect()
    }

    #[test]
    fn the_instructions_and_the_newest_exchanges_that_fit_stay() {
        let mut parts = talk(4);
        parts.push(part(Kind::Question, 5));
        assert_eq!(choose(&parts, 1000), (0..10).collect::<Vec<_>>());
        assert_eq!(choose(&parts, 55), [0, 5, 6, 7, 8, 9]);
        assert_eq!(choose(&parts, 54), [0, 7, 8, 9]);
        assert_eq!(choose(&parts, 0), [0, 9], "without them nothing can be answered");
    }

    #[test]
    fn a_long_run_of_calls_keeps_its_question_and_its_newest_steps() {
        let mut parts = talk(1);
        parts.push(part(Kind::Question, 5));
        parts.extend([part(Kind::Step, 20); 5]);
        assert_eq!(choose(&parts, 60), [0, 3, 7, 8]);
        assert_eq!(choose(&parts, 134), [0, 3, 4, 5, 6, 7, 8]);
        assert_eq!(choose(&parts, 135), [0, 1, 2, 3, 4, 5, 6, 7, 8]);
    }

    #[test]
    fn a_pinned_exchange_stays_whole_and_counts() {
        let mut parts = talk(4);
        parts[2].pinned = true;
        assert_eq!(choose(&parts, 50), [0, 1, 2, 7, 8]);
    }

    #[test]
    fn what_does_not_fit_leaves_its_room_to_what_is_less_asked_for() {
        assert_eq!(fit([('a', 50), ('b', 60), ('c', 40), ('d', 1)], 100), ['a', 'c', 'd']);
        assert_eq!(fit([('a', 101)], 100), []);
    }

    fn kinds() -> impl Strategy<Value = Vec<Part>> {
        let kind = prop::sample::select(vec![Kind::Question, Kind::Step, Kind::Step]);
        let one = (kind, 1..40_usize, prop::bool::weighted(0.05));
        let of = |(kind, tokens, pinned)| Part { tokens, kind, pinned };
        let rest = prop::collection::vec(one.prop_map(of), 1..40);
        (0..3_usize, rest).prop_map(|(instructions, rest)| {
            let front = vec![part(Kind::Instructions, 7); instructions];
            front.into_iter().chain(rest).collect()
        })
    }

    proptest! {
        #[test]
        fn a_timeline_is_in_order_never_splits_an_earlier_exchange_and_fits(
            parts in kinds(),
            tokens in 0..600_usize,
        ) {
            let chosen = choose(&parts, tokens);
            prop_assert!(chosen.is_sorted_by(|one, other| one < other));
            prop_assert_eq!(chosen.last(), Some(&(parts.len() - 1)), "what is answered");
            for (at, part) in parts.iter().enumerate() {
                prop_assert!(part.kind != Kind::Instructions || chosen.contains(&at));
            }
            let groups = exchanges(&parts);
            let (last, earlier) = groups.split_last().unwrap();
            let has = |at: &usize| chosen.contains(at);
            for exchange in earlier {
                prop_assert!(exchange.iter().all(has) || !exchange.iter().any(has));
                prop_assert!(!exchange.iter().any(|&at| parts[at].pinned) || exchange.iter().all(has));
            }
            // Of the last one, the question and a tail.
            let tail = last.iter().skip(1).skip_while(|at| !has(at)).count();
            let kept = last.iter().skip(1).filter(|at| has(at)).count();
            prop_assert_eq!(tail, kept);
            prop_assert!(parts[last[0]].kind != Kind::Question || has(&last[0]));
            // No gap but in front of pinned ones.
            let free: Vec<bool> = earlier.iter()
                .filter(|exchange| !exchange.iter().any(|&at| parts[at].pinned))
                .map(|exchange| has(&exchange[0])).collect();
            prop_assert!(free.is_sorted());
            prop_assert!(free.iter().all(|stays| !stays) || last.iter().all(has));
            let sum = |of: &[usize]| of.iter().map(|&at| parts[at].tokens).sum::<usize>();
            let least = choose(&parts, 0);
            prop_assert!(sum(&chosen) <= tokens.max(sum(&least)));
            // The choice is stable: a choice from what was chosen is the whole of it.
            let again: Vec<Part> = chosen.iter().map(|&at| parts[at]).collect();
            prop_assert_eq!(choose(&again, tokens.max(sum(&least))).len(), again.len());
        }
    }
}
