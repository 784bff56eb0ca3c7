//! A request's sampling settings and their ranges. The default is OpenAI's: the model's own
//! distribution, without filters and penalties.

use std::collections::BTreeSet;

use hob_slots::Token;

#[derive(Clone, Debug, PartialEq)]
pub struct Sampling {
    /// 0 always takes the likeliest token; above 1 flattens the distribution.
    pub temperature: f32,
    /// Keep the fewest likeliest tokens whose probabilities reach this sum; 1 keeps all.
    pub top_p: f32,
    /// Keep this many of the likeliest tokens; 0 keeps all.
    pub top_k: usize,
    /// Keep tokens at least this fraction as likely as the likeliest; 0 keeps all.
    pub min_p: f32,
    /// Equal seeds repeat an answer; `None` draws one.
    pub seed: Option<u64>,
    /// Subtracted from a token's logit for each time that it was generated.
    pub frequency_penalty: f32,
    /// Subtracted once from the logit of every token that was generated.
    pub presence_penalty: f32,
    /// Divides the odds of the tokens in `repeat_window`; 1 changes nothing.
    pub repeat_penalty: f32,
    /// How often a draw leaves out the likeliest tokens: of those at least as likely as `xtc_threshold`, all but
    /// the least likely one (llama.cpp's XTC). 0 never does.
    pub xtc_probability: f32,
    /// Probability that a token must reach, among the tokens that the other filters keep. Above 0.5 no two tokens
    /// reach it, and all are kept.
    pub xtc_threshold: f32,
    /// How many of the last tokens the penalties look at, the prompt's included.
    pub repeat_window: usize,
    /// Added to the logits of single tokens.
    pub logit_bias: Vec<(Token, f32)>,
    /// No other token is chosen; `None`: any may be.
    pub allowed: Option<BTreeSet<Token>>,
    /// Tokens that are never chosen.
    pub banned: Vec<Token>,
}

impl Default for Sampling {
    fn default() -> Self {
        Self {
            temperature: 1.0,
            top_p: 1.0,
            top_k: 0,
            min_p: 0.0,
            seed: None,
            frequency_penalty: 0.0,
            presence_penalty: 0.0,
            repeat_penalty: 1.0,
            xtc_probability: 0.0,
            xtc_threshold: 0.1,
            repeat_window: 64,
            logit_bias: Vec::new(),
            allowed: None,
            banned: Vec::new(),
        }
    }
}

/// A parameter outside its range.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{parameter} must be between {lowest} and {highest}, not {got}")]
pub struct SamplingError {
    /// The name in a request.
    pub parameter: &'static str,
    pub lowest: f32,
    pub highest: f32,
    pub got: f32,
}

impl Sampling {
    /// Always the likeliest token.
    pub fn greedy() -> Self {
        Self { temperature: 0.0, ..Self::default() }
    }

    /// Names the first parameter outside its range.
    pub fn validate(&self) -> Result<(), SamplingError> {
        within("temperature", self.temperature, 0.0, 2.0)?;
        within("top_p", self.top_p, 0.0, 1.0)?;
        within("min_p", self.min_p, 0.0, 1.0)?;
        within("frequency_penalty", self.frequency_penalty, -2.0, 2.0)?;
        within("presence_penalty", self.presence_penalty, -2.0, 2.0)?;
        within("repeat_penalty", self.repeat_penalty, 0.1, 10.0)?;
        within("xtc_probability", self.xtc_probability, 0.0, 1.0)?;
        within("xtc_threshold", self.xtc_threshold, 0.0, 1.0)?;
        self.logit_bias.iter().try_for_each(|&(_, bias)| within("logit_bias", bias, -100.0, 100.0))
    }

    /// Whether logits are changed before the choice.
    pub(super) fn reshapes(&self) -> bool {
        let shifts = !self.logit_bias.is_empty() || !self.banned.is_empty();
        shifts || self.repeats_cost() || self.generated_cost()
    }

    /// Whether some tokens are left out of the draw.
    pub(super) fn filters(&self) -> bool {
        self.top_k > 0 || self.top_p < 1.0 || self.min_p > 0.0
    }

    /// Whether some draws leave out the likeliest tokens.
    pub(super) fn may_exclude(&self) -> bool {
        self.xtc_probability > 0.0 && self.xtc_threshold <= 0.5
    }

    pub(super) fn repeats_cost(&self) -> bool {
        self.repeat_penalty != 1.0
    }

    pub(super) fn generated_cost(&self) -> bool {
        self.frequency_penalty != 0.0 || self.presence_penalty != 0.0
    }
}

/// NaN is within no range.
fn within(
    parameter: &'static str,
    got: f32,
    lowest: f32,
    highest: f32,
) -> Result<(), SamplingError> {
    if (lowest..=highest).contains(&got) {
        return Ok(());
    }
    Err(SamplingError { parameter, lowest, highest, got })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_is_valid_and_changes_no_logit() {
        let sampling = Sampling::default();
        assert_eq!(sampling.validate(), Ok(()));
        assert!(!sampling.reshapes());
    }

    #[test]
    fn an_error_names_the_parameter_and_its_range() {
        let error = Sampling { top_p: 1.5, ..Sampling::default() }.validate().unwrap_err();
        assert_eq!(error.to_string(), "top_p must be between 0 and 1, not 1.5");
    }

    #[test]
    fn nan_and_infinity_are_outside_every_range() {
        for broken in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let fields: [fn(&mut Sampling, f32); 9] = [
                |s, v| s.temperature = v,
                |s, v| s.top_p = v,
                |s, v| s.min_p = v,
                |s, v| s.frequency_penalty = v,
                |s, v| s.presence_penalty = v,
                |s, v| s.repeat_penalty = v,
                |s, v| s.xtc_probability = v,
                |s, v| s.xtc_threshold = v,
                |s, v| s.logit_bias = vec![(Token(0), v)],
            ];
            for set in fields {
                let mut sampling = Sampling::default();
                set(&mut sampling, broken);
                assert!(sampling.validate().is_err(), "{sampling:?}");
            }
        }
    }
}
