//! Chooses the next token.
//!
//! In this order: logit bias, penalties, tokens that may not be chosen, top-k, top-p, min-p, XTC, temperature, draw.
//!
//! - `choose` leaves the logits as it found them.
//! - With temperature 0 it takes the likeliest token, the lowest id on ties, and allocates nothing
//!   unless something reshapes the logits.
//! - It never sorts a vocabulary: 150,000 tokens take well under a millisecond. Where few tokens are allowed, it reads
//!   their logits alone.

mod allowed;

use std::collections::{BTreeMap, VecDeque};
use std::hash::{BuildHasher, Hasher, RandomState};

use hob_slots::Token;
use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::{RngCore, SeedableRng};

use allowed::Allowed;

use super::exp::exp;
use super::logprobs::{LOWEST_LOGPROB, RankedLogprobs};
use super::params::Sampling;
use super::shortlist::{self, Candidate};

/// What a token is drawn from. `highest`: the logit of the likeliest.
enum Candidates {
    /// Nothing is drawn.
    One(Candidate),
    All {
        highest: f32,
    },
    /// The tokens that the sampler has listed.
    Shortlist {
        highest: f32,
    },
}

/// The sampler of one answer: its random numbers and recent tokens.
#[derive(Debug)]
pub struct Sampler {
    sampling: Sampling,
    random: Pcg64Mcg,
    recent: VecDeque<Token>, // Those that the repeat penalty covers, if there is one.
    repeated: BTreeMap<Token, usize>, // How often each of them is among them.
    generated: BTreeMap<Token, u32>,
    allowed: Option<Allowed>,
    excludes: bool, // The latest choice left out the likeliest tokens: its odds do, too.
    // Reused between choices.
    shortlist: Vec<Candidate>,
    weights: Vec<f32>,
    untouched: Vec<(usize, f32)>, // Logits before [`Self::reshape`].
}

impl Sampler {
    pub fn new(sampling: &Sampling) -> Self {
        let seed = sampling.seed.unwrap_or_else(drawn_seed);
        Self {
            sampling: sampling.clone(),
            random: Pcg64Mcg::seed_from_u64(seed),
            recent: VecDeque::new(),
            repeated: BTreeMap::new(),
            generated: BTreeMap::new(),
            allowed: sampling.allowed.as_ref().map(Allowed::new),
            excludes: false,
            shortlist: Vec::new(),
            weights: Vec::new(),
            untouched: Vec::new(),
        }
    }

    /// Adds the prompt to the recent tokens, for the repeat penalty.
    pub fn prime(&mut self, prompt: &[Token]) {
        let tail = prompt.len().saturating_sub(self.sampling.repeat_window);
        prompt[tail..].iter().for_each(|&token| self.remember(token));
    }

    /// Adds a token of the answer.
    pub fn accept(&mut self, token: Token) {
        self.remember(token);
        if self.sampling.generated_cost() {
            *self.generated.entry(token).or_default() += 1;
        }
    }

    /// The next token, or `None` when no token can be chosen.
    pub fn choose(&mut self, logits: &mut [f32]) -> Option<Token> {
        if !self.sampling.reshapes() {
            return self.pick(logits);
        }
        self.reshape(logits);
        let token = self.pick(logits);
        self.restore(logits);
        token
    }

    /// How likely [`Self::choose`] is to choose each token: the `n` likeliest, and `chosen`. Before
    /// [`Self::accept`]; tokens that it cannot choose are left out.
    pub fn odds(&mut self, logits: &mut [f32], chosen: Token, n: usize) -> RankedLogprobs {
        self.reshape(logits);
        let odds = self.rank(logits, chosen, n);
        self.restore(logits);
        odds
    }

    fn rank(&mut self, logits: &[f32], chosen: Token, n: usize) -> RankedLogprobs {
        let Some(mut allowed) = self.allowed.take() else {
            return self.rank_all(logits, chosen, n);
        };
        let place = allowed.place_of(chosen);
        let ranked = self.rank_all(allowed.logits_of(logits), place, n);
        let top = ranked.top.into_iter().map(|(place, odds)| (allowed.at(place), odds)).collect();
        self.allowed = Some(allowed);
        RankedLogprobs { top, ..ranked }
    }

    fn rank_all(&mut self, logits: &[f32], chosen: Token, n: usize) -> RankedLogprobs {
        let Some(candidates) = self.candidates(logits) else {
            return RankedLogprobs { chosen: LOWEST_LOGPROB, top: Vec::new() };
        };
        let highest = match candidates {
            Candidates::One(best) => {
                self.shortlist.clear();
                self.shortlist.push(best);
                best.logit
            }
            Candidates::All { highest } => {
                shortlist::everything_above(logits, f32::MIN, &mut self.shortlist);
                highest
            }
            Candidates::Shortlist { highest } => highest,
        };
        let sharpness = self.sampling.temperature.recip().min(f32::MAX);
        // The likeliest one's is 0, also where the product would be no number.
        let log_weight = |logit: f32| match logit - highest {
            0.0 => 0.0,
            distance => f64::from(distance * sharpness),
        };
        let total: f64 = self.shortlist.iter().map(|it| log_weight(it.logit).exp()).sum();
        let logprob = |it: &Candidate| {
            ((log_weight(it.logit) - total.ln()) as f32).clamp(LOWEST_LOGPROB, 0.0)
        };
        self.shortlist.sort_unstable_by(Candidate::by_likelihood);
        let found = self.shortlist.iter().find(|it| it.token() == chosen);
        let can_be_chosen = |it: &&Candidate| logprob(it).exp() > 0.0;
        let top = self.shortlist.iter().filter(can_be_chosen).take(n);
        RankedLogprobs {
            chosen: found.map_or(LOWEST_LOGPROB, logprob),
            top: top.map(|it| (it.token(), logprob(it))).collect(),
        }
    }

    /// Newest first: of a logit that was changed twice, the oldest value is written last.
    fn restore(&mut self, logits: &mut [f32]) {
        for (index, logit) in self.untouched.drain(..).rev() {
            logits[index] = logit;
        }
    }

    fn remember(&mut self, token: Token) {
        if !self.sampling.repeats_cost() {
            return;
        }
        self.recent.push_back(token);
        *self.repeated.entry(token).or_default() += 1;
        if self.recent.len() > self.sampling.repeat_window
            && let Some(oldest) = self.recent.pop_front()
            && let Some(count) = self.repeated.get_mut(&oldest)
        {
            *count -= 1;
            if *count == 0 {
                self.repeated.remove(&oldest);
            }
        }
    }

    fn reshape(&mut self, logits: &mut [f32]) {
        let untouched = &mut self.untouched;
        let mut change = |token: Token, to: &dyn Fn(f32) -> f32| {
            let index = usize::try_from(token.0).unwrap_or(usize::MAX);
            if let Some(logit) = logits.get_mut(index) {
                untouched.push((index, *logit));
                *logit = to(*logit);
            }
        };
        for &(token, bias) in &self.sampling.logit_bias {
            change(token, &|logit| logit + bias);
        }
        if self.sampling.repeats_cost() {
            let penalty = self.sampling.repeat_penalty;
            for &token in self.repeated.keys() {
                change(token, &|logit| if logit > 0.0 { logit / penalty } else { logit * penalty });
            }
        }
        for (&token, &count) in &self.generated {
            let cost =
                self.sampling.frequency_penalty * count as f32 + self.sampling.presence_penalty;
            change(token, &|logit| logit - cost);
        }
        for &token in &self.sampling.banned {
            change(token, &|_| f32::NEG_INFINITY);
        }
    }

    /// The next token, of logits that nothing changes.
    fn pick(&mut self, logits: &[f32]) -> Option<Token> {
        let Some(mut allowed) = self.allowed.take() else { return self.pick_any(logits) };
        let place = self.pick_any(allowed.logits_of(logits));
        let token = place.map(|place| allowed.at(place));
        self.allowed = Some(allowed);
        token
    }

    fn pick_any(&mut self, logits: &[f32]) -> Option<Token> {
        self.excludes = self.sampling.may_exclude()
            && uniform(&mut self.random) < f64::from(self.sampling.xtc_probability);
        match self.candidates(logits)? {
            Candidates::One(best) => Some(best.token()),
            Candidates::All { highest } => {
                let scores = logits.iter().copied();
                draw(scores, highest, &self.sampling, &mut self.weights, &mut self.random)
                    .map(|index| Token(index as i32))
            }
            Candidates::Shortlist { highest } => {
                let scores = self.shortlist.iter().map(|c| c.logit);
                draw(scores, highest, &self.sampling, &mut self.weights, &mut self.random)
                    .map(|index| self.shortlist[index].token())
            }
        }
    }

    /// What the next token is drawn from; `None` when no token can be chosen. The pass that finds the likeliest
    /// token lists the `top_k` likeliest too.
    fn candidates(&mut self, logits: &[f32]) -> Option<Candidates> {
        let Sampling { temperature, top_k, top_p, min_p, xtc_threshold, .. } = self.sampling;
        let list = &mut self.shortlist;
        let best = if temperature <= 0.0 || top_k == 0 {
            shortlist::argmax(logits)?
        } else {
            shortlist::likeliest(logits, top_k, list);
            list.iter().copied().min_by(Candidate::by_likelihood)?
        };
        let highest = best.logit;
        // An infinite logit leaves nothing to draw.
        if temperature <= 0.0 || highest == f32::INFINITY {
            return Some(Candidates::One(best));
        }
        if !self.sampling.filters() && !self.excludes {
            return Some(Candidates::All { highest });
        }
        match (top_k > 0, top_p < 1.0) {
            (false, false) => shortlist::everything_above(logits, highest + min_p.ln(), list),
            (false, true) => shortlist::nucleus(logits, highest, top_p, &mut self.weights, list),
            (true, false) => {} // They are listed.
            (true, true) => shortlist::keep_nucleus(list, highest, top_p),
        }
        if min_p > 0.0 {
            shortlist::keep_near_best(list, highest, min_p);
        }
        if self.excludes {
            let highest = shortlist::leave_out_likeliest(list, highest, xtc_threshold);
            return Some(Candidates::Shortlist { highest });
        }
        Some(Candidates::Shortlist { highest })
    }
}

/// Draws an index in proportion to e^(logit / temperature); one of weight 0 is never drawn. `None`
/// only when all weights are 0, which `highest` excludes.
fn draw(
    logits: impl Iterator<Item = f32>,
    highest: f32,
    sampling: &Sampling,
    weights: &mut Vec<f32>,
    random: &mut Pcg64Mcg,
) -> Option<usize> {
    weights.clear();
    // Finite, or the likeliest token's 0 would become NaN.
    let sharpness = sampling.temperature.recip().min(f32::MAX);
    weights.extend(logits.map(|logit| exp((logit - highest) * sharpness)));
    let total: f64 = weights.chunks(CHUNK).map(sum).sum();
    let mut left = uniform(random) * total;
    for (chunk, start) in weights.chunks(CHUNK).zip((0..).step_by(CHUNK)) {
        let chunk_sum = sum(chunk);
        if left >= chunk_sum {
            left -= chunk_sum;
            continue;
        }
        for (&weight, index) in chunk.iter().zip(start..) {
            left -= f64::from(weight);
            if left < 0.0 {
                return Some(index);
            }
        }
    }
    // Only rounding leads here.
    weights.iter().rposition(|&weight| weight > 0.0)
}

/// Weights that are summed, and passed over, together.
const CHUNK: usize = 64;

/// A chunk's weight, added in eight sums side by side: an order that is vector code everywhere.
fn sum(chunk: &[f32]) -> f64 {
    let mut sums = [0.0_f32; 8];
    for eight in chunk.chunks(8) {
        sums.iter_mut().zip(eight).for_each(|(sum, weight)| *sum += weight);
    }
    sums.into_iter().map(f64::from).sum()
}

/// Uniform in `0.0..1.0`, with all the bits that a double holds.
fn uniform(random: &mut Pcg64Mcg) -> f64 {
    const BITS: u32 = f64::MANTISSA_DIGITS;
    (random.next_u64() >> (u64::BITS - BITS)) as f64 / (1_u64 << BITS) as f64
}

/// A random seed: the standard library keys every `RandomState` differently.
fn drawn_seed() -> u64 {
    RandomState::new().build_hasher().finish()
}

#[cfg(test)]
mod tests;
