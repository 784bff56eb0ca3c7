//! The model's log-probabilities, before temperature, filters and penalties.
//!
//! The logits must not be masked by a grammar ([`Sampler::choose`] restores them; a mask does not).
//!
//! [`Sampler::choose`]: super::Sampler::choose

use hob_slots::Token;

use super::exp::exp;
use super::shortlist::{Candidate, likeliest};

/// Stands for minus infinity, which JSON cannot write; OpenAI uses the same number.
pub const LOWEST_LOGPROB: f32 = -9999.0;

#[derive(Clone, Debug, PartialEq)]
pub struct RankedLogprobs {
    /// ln p of the chosen token.
    pub chosen: f32,
    /// The likeliest tokens with their ln p, likeliest first, ties by lower id.
    pub top: Vec<(Token, f32)>,
}

/// Log-probabilities of `chosen` and of the `n` likeliest tokens.
pub fn logprobs(logits: &[f32], chosen: Token, n: usize) -> RankedLogprobs {
    let highest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let weights: f64 = logits.iter().map(|&logit| f64::from(exp(logit - highest))).sum();
    let normal = f64::from(highest) + weights.ln();
    let logprob = |logit: f32| {
        let value = (f64::from(logit) - normal) as f32;
        if value.is_finite() { value.clamp(LOWEST_LOGPROB, 0.0) } else { LOWEST_LOGPROB }
    };

    let mut top = Vec::new();
    likeliest(logits, n, &mut top);
    top.sort_unstable_by(Candidate::by_likelihood);
    let chosen = usize::try_from(chosen.0).ok().and_then(|index| logits.get(index));
    RankedLogprobs {
        chosen: chosen.map_or(LOWEST_LOGPROB, |&logit| logprob(logit)),
        top: top.into_iter().map(|c| (c.token(), logprob(c.logit))).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probabilities_add_up_to_one_and_come_likeliest_first() {
        let ranked = logprobs(&[0.5, 2.0, -1.0, 2.0], Token(2), 4);
        let order: Vec<_> = ranked.top.iter().map(|(token, _)| token.0).collect();
        assert_eq!(order, [1, 3, 0, 2]);
        let sum: f32 = ranked.top.iter().map(|(_, logprob)| logprob.exp()).sum();
        assert!((sum - 1.0).abs() < 1e-5);
        assert_eq!(ranked.chosen, ranked.top[3].1);
    }

    #[test]
    fn an_impossible_token_has_the_lowest_logprob() {
        let ranked = logprobs(&[1.0, f32::NEG_INFINITY, f32::NAN], Token(1), 5);
        assert_eq!(ranked.chosen, LOWEST_LOGPROB);
        assert_eq!(ranked.top, [(Token(0), 0.0)]);
    }

    #[test]
    fn logits_without_meaning_do_not_panic() {
        for logits in [&[][..], &[f32::NAN], &[f32::NEG_INFINITY], &[f32::INFINITY, 1.0]] {
            for chosen in [-1, 0, 7] {
                let ranked = logprobs(logits, Token(chosen), 3);
                assert!(ranked.chosen.is_finite());
            }
        }
    }
}
