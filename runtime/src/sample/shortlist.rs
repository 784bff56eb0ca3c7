//! The candidates of a draw: top-k, top-p, min-p and XTC without sorting a vocabulary.
//!
//! - A shortlist holds candidates in no particular order, but the same inputs give the same order.
//! - Tokens that cannot be chosen (minus infinity, NaN) are never on it.
//! - Of equally likely tokens, the one with the lower id counts as likelier.

use std::cmp::Ordering;

use hob_slots::Token;

use super::exp::exp;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Candidate {
    pub id: u32,
    pub logit: f32,
}

impl Candidate {
    /// Likeliest first, ties by lower id. Total, because no candidate is NaN.
    pub fn by_likelihood(&self, other: &Self) -> Ordering {
        other.logit.total_cmp(&self.logit).then(self.id.cmp(&other.id))
    }

    pub fn token(&self) -> Token {
        Token(self.id as i32)
    }
}

/// The likeliest token; `None` when none can be chosen.
pub(super) fn argmax(logits: &[f32]) -> Option<Candidate> {
    let mut best = None;
    let mut bar = f32::NEG_INFINITY;
    for (chunk, first) in logits.chunks(CHUNK).zip((0..).step_by(CHUNK)) {
        if any(chunk, |logit| logit > bar) {
            for (&logit, id) in chunk.iter().zip(first..) {
                if logit > bar {
                    bar = logit;
                    best = Some(Candidate { id, logit });
                }
            }
        }
    }
    best
}

/// Every token that can be chosen and is at least as likely as `lowest`.
pub(super) fn everything_above(logits: &[f32], lowest: f32, list: &mut Vec<Candidate>) {
    list.clear();
    let lowest = lowest.max(f32::MIN);
    for (chunk, first) in logits.chunks(CHUNK).zip((0..).step_by(CHUNK)) {
        if any(chunk, |logit| logit >= lowest) {
            let candidates = chunk.iter().zip(first..);
            let likely = candidates.filter(|&(&logit, _)| logit >= lowest);
            list.extend(likely.map(|(&logit, id)| Candidate { id, logit }));
        }
    }
}

/// The `count` likeliest tokens. One pass: most tokens fail one comparison with the worst of the
/// best so far, which is renewed whenever the list has grown to a multiple of `count`.
pub(super) fn likeliest(logits: &[f32], count: usize, list: &mut Vec<Candidate>) {
    list.clear();
    if count == 0 {
        return;
    }
    if count >= logits.len() {
        return everything_above(logits, f32::MIN, list);
    }
    let room = (count * 4).max(256);
    let mut bar = f32::NEG_INFINITY;
    for (chunk, first) in logits.chunks(CHUNK).zip((0..).step_by(CHUNK)) {
        if !any(chunk, |logit| logit > bar) {
            continue;
        }
        for (&logit, id) in chunk.iter().zip(first..) {
            if logit > bar {
                list.push(Candidate { id, logit });
                if list.len() == room {
                    bar = keep_likeliest(list, count);
                }
            }
        }
    }
    if list.len() > count {
        keep_likeliest(list, count);
    }
}

/// Logits that are tested together, so that chunks are skipped at the speed of memory.
const CHUNK: usize = 32;

/// Without a branch for each logit, so that it becomes vector code.
fn any(chunk: &[f32], test: impl Fn(f32) -> bool) -> bool {
    chunk.iter().fold(false, |found, &logit| found | test(logit))
}

/// Leaves the `count` likeliest, the least likely of them last, and returns that one's logit.
fn keep_likeliest(list: &mut Vec<Candidate>, count: usize) -> f32 {
    let (_, last, _) = list.select_nth_unstable_by(count - 1, Candidate::by_likelihood);
    let bar = last.logit;
    list.truncate(count);
    bar
}

/// Bins of weight, 128 to each power of two, down to 2^-58: lighter weights share the last bin,
/// whose sum is negligible.
const BINS: usize = 58 * 128;

/// Collects the fewest likeliest tokens whose probabilities reach `top_p`, always at least one.
///
/// Weights are summed in bins by likelihood, so that only the bin in which the sum is reached has
/// to be sorted. `weights` is scratch; `highest` is the highest logit, and finite.
pub(super) fn nucleus(
    logits: &[f32],
    highest: f32,
    top_p: f32,
    weights: &mut Vec<f32>,
    list: &mut Vec<Candidate>,
) {
    weights.clear();
    weights.extend(logits.iter().map(|&logit| exp(logit - highest)));
    // Between 0 and 1, a larger float has larger bits.
    let bin_of = |weight: f32| {
        let below_one = 1.0_f32.to_bits().saturating_sub(weight.to_bits()) >> 16;
        (below_one as usize).min(BINS - 1)
    };
    let mut mass = [0.0_f64; BINS];
    for &weight in weights.iter() {
        mass[bin_of(weight)] += f64::from(weight);
    }
    let wanted = mass.iter().sum::<f64>() * f64::from(top_p);
    let mut reached = 0.0;
    let mut border = 0;
    while border < BINS - 1 && reached + mass[border] < wanted {
        reached += mass[border];
        border += 1;
    }

    list.clear();
    let mut at_border = Vec::new();
    let chunks = logits.chunks(CHUNK).zip(weights.chunks(CHUNK));
    for ((logits, weights), first) in chunks.zip((0..).step_by(CHUNK)) {
        if !any(weights, |weight| bin_of(weight) <= border) {
            continue;
        }
        for ((&logit, &weight), id) in logits.iter().zip(weights).zip(first..) {
            let bin = bin_of(weight);
            if bin <= border && logit > f32::NEG_INFINITY {
                let part = if bin < border { &mut *list } else { &mut at_border };
                part.push(Candidate { id, logit });
            }
        }
    }
    at_border.sort_unstable_by(Candidate::by_likelihood);
    append_until(list, &at_border, highest, reached, wanted);
}

/// [`nucleus`] of a shortlist.
pub(super) fn keep_nucleus(list: &mut Vec<Candidate>, highest: f32, top_p: f32) {
    list.sort_unstable_by(Candidate::by_likelihood);
    let total: f64 = list.iter().map(|c| f64::from(exp(c.logit - highest))).sum();
    let sorted = std::mem::take(list);
    append_until(list, &sorted, highest, 0.0, total * f64::from(top_p));
}

/// Appends the likeliest of `sorted` until the sum of weights reaches `wanted`.
fn append_until(
    list: &mut Vec<Candidate>,
    sorted: &[Candidate],
    highest: f32,
    mut reached: f64,
    wanted: f64,
) {
    for candidate in sorted {
        if reached >= wanted && !list.is_empty() {
            break;
        }
        reached += f64::from(exp(candidate.logit - highest));
        list.push(*candidate);
    }
}

/// Keeps candidates at least `min_p` times as likely as the likeliest.
pub(super) fn keep_near_best(list: &mut Vec<Candidate>, highest: f32, min_p: f32) {
    list.retain(|c| c.logit >= highest + min_p.ln());
}

/// Leaves out the candidates with at least this probability, except the least likely one of them. Returns the
/// highest logit that is left.
pub(super) fn leave_out_likeliest(list: &mut Vec<Candidate>, highest: f32, threshold: f32) -> f32 {
    let weight = |candidate: &Candidate| f64::from(exp(candidate.logit - highest));
    let wanted = list.iter().map(weight).sum::<f64>() * f64::from(threshold);
    let likely = list.iter().copied().filter(|candidate| weight(candidate) >= wanted);
    let Some(least) = likely.max_by(Candidate::by_likelihood) else { return highest };
    list.retain(|candidate| candidate.by_likelihood(&least) != Ordering::Less);
    least.logit
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ids(mut list: Vec<Candidate>) -> Vec<u32> {
        list.sort_unstable_by(Candidate::by_likelihood);
        list.into_iter().map(|c| c.id).collect()
    }

    fn sorted(logits: &[f32]) -> Vec<Candidate> {
        let mut list = Vec::new();
        everything_above(logits, f32::NEG_INFINITY, &mut list);
        list.sort_by(Candidate::by_likelihood);
        list
    }

    /// The definition, over a full sort.
    fn naive_nucleus(logits: &[f32], top_p: f32) -> Vec<u32> {
        let all = sorted(logits);
        let weights: Vec<f64> =
            all.iter().map(|c| f64::from(exp(c.logit - all[0].logit))).collect();
        let wanted = weights.iter().sum::<f64>() * f64::from(top_p);
        let mut reached = 0.0;
        let mut kept = Vec::new();
        for (candidate, weight) in all.iter().zip(weights) {
            if reached >= wanted - 1e-9 && !kept.is_empty() {
                break;
            }
            reached += weight;
            kept.push(candidate.id);
        }
        kept
    }

    fn nucleus_of(logits: &[f32], top_p: f32) -> Vec<u32> {
        let (mut weights, mut list) = (Vec::new(), Vec::new());
        nucleus(logits, sorted(logits)[0].logit, top_p, &mut weights, &mut list);
        ids(list)
    }

    #[test]
    fn the_nucleus_is_the_smallest_set_that_reaches_the_sum() {
        let logits: Vec<f32> = [0.5_f32, 0.25, 0.15, 0.1].iter().map(|p| p.ln()).collect();
        for (top_p, kept) in [(0.0, 1), (0.4, 1), (0.6, 2), (0.8, 3), (0.95, 4), (1.0, 4)] {
            let mut list = sorted(&logits);
            keep_nucleus(&mut list, logits[0], top_p);
            assert_eq!(list.len(), kept, "top_p {top_p}");
            assert_eq!(nucleus_of(&logits, top_p).len(), kept, "top_p {top_p}");
        }
    }

    #[test]
    fn equal_tokens_are_kept_by_lower_id() {
        let mut list = Vec::new();
        likeliest(&[1.0; 3000], 4, &mut list);
        assert_eq!(ids(list), [0, 1, 2, 3]);
    }

    proptest! {
        #[test]
        fn top_k_agrees_with_a_full_sort(
            logits in prop::collection::vec(prop_oneof![
                8 => -20.0_f32..20.0,
                2 => (-3_i8..3).prop_map(f32::from),
                1 => Just(f32::NEG_INFINITY),
                1 => Just(f32::NAN),
            ], 0..2000),
            count in 0_usize..40,
        ) {
            let mut list = Vec::new();
            likeliest(&logits, count, &mut list);
            let naive: Vec<_> = sorted(&logits).into_iter().take(count).map(|c| c.id).collect();
            prop_assert_eq!(ids(list), naive);
        }

        #[test]
        fn top_p_agrees_with_a_full_sort(
            logits in prop::collection::vec(-30.0_f32..10.0, 1..600),
            scale in 0.0001_f32..10.0,
            top_p in 0.01_f32..0.99,
        ) {
            let logits: Vec<f32> = logits.iter().map(|logit| logit * scale).collect();
            let (kept, naive) = (nucleus_of(&logits, top_p), naive_nucleus(&logits, top_p));
            // Sums in another order may differ in the last bit, hence by one token.
            prop_assert!(kept.len().abs_diff(naive.len()) <= 1, "{} {}", kept.len(), naive.len());
            prop_assert!(kept.iter().zip(&naive).all(|(a, b)| a == b));
        }
    }
}
