//! The state of one answer in its grammar.

use hob_slots::Token;
use llguidance::Matcher;

use super::error::{GrammarError, one_line};
use super::watch::Watch;

pub struct Constraint {
    state: State,
}

/// Matchers have more than a kilobyte, and are moved from queue to slot.
enum State {
    All(Box<Matcher>),
    Calls(Box<Watch>),
}

impl Constraint {
    pub(super) fn new(matcher: Matcher) -> Self {
        Self { state: State::All(Box::new(matcher)) }
    }

    /// A constraint of tool calls alone: text outside them is free.
    pub(super) fn watching(watch: Watch) -> Self {
        Self { state: State::Calls(Box::new(watch)) }
    }

    /// Sets the logits of all tokens that may not come next to minus infinity.
    ///
    /// Tokens that end an answer stay possible exactly where the answer may end.
    pub fn mask(&mut self, logits: &mut [f32]) -> Result<(), GrammarError> {
        match &mut self.state {
            State::All(matcher) => mask(matcher, logits),
            State::Calls(watch) => {
                if let Some(matcher) = watch.open()
                    && mask(matcher, logits).is_err()
                {
                    watch.give_up();
                }
                Ok(())
            }
        }
    }

    /// Advances by a token. A token that the mask forbids is an error, and ends the constraint.
    pub fn accept(&mut self, token: Token) -> Result<(), GrammarError> {
        let id = token.0.cast_unsigned();
        let matcher = match &mut self.state {
            State::All(matcher) => matcher,
            State::Calls(watch) => {
                watch.accept(token);
                return Ok(());
            }
        };
        if matcher.is_stopped() {
            let ends = matcher.tok_env().map_err(stuck)?;
            let ends = ends.tok_trie().eos_tokens().contains(&id);
            let beyond = || GrammarError::Stuck("the answer was already complete".to_owned());
            return if ends { Ok(()) } else { Err(beyond()) };
        }
        matcher.consume_token(id).map_err(stuck)
    }

    /// Whether the answer may end here.
    #[cfg(test)]
    pub fn may_stop(&mut self) -> bool {
        match &mut self.state {
            State::All(matcher) => matcher.is_stopped() || matcher.is_accepting().unwrap_or(true),
            State::Calls(watch) => watch.may_stop(),
        }
    }

    /// What the latest mask took; `None`: it failed, or calls alone are constrained.
    #[cfg(test)]
    pub(super) fn masking(&self) -> Option<super::work::Work> {
        let State::All(matcher) = &self.state else { return None };
        let stats = matcher.last_step_stats().ok()?;
        Some(super::work::Work { fuel: stats.lexer_cost, items: stats.all_items })
    }

    /// Whether the answer must end here.
    pub fn must_stop(&self) -> bool {
        match &self.state {
            State::All(matcher) => matcher.is_stopped(),
            State::Calls(watch) => watch.must_stop(),
        }
    }
}

fn mask(matcher: &mut Matcher, logits: &mut [f32]) -> Result<(), GrammarError> {
    let allowed = matcher.compute_mask_or_eos().map_err(stuck)?;
    let words = allowed.as_slice();
    for (word, logits) in logits.chunks_mut(u32::BITS as usize).enumerate() {
        match words.get(word).copied().unwrap_or(0) {
            u32::MAX => {}
            0 => logits.fill(f32::NEG_INFINITY),
            bits => forbid(bits, logits),
        }
    }
    Ok(())
}

impl std::fmt::Debug for Constraint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Constraint").field("stopped", &self.must_stop()).finish_non_exhaustive()
    }
}

/// Bit `n` of `allowed` is set when logit `n` may stay.
fn forbid(allowed: u32, logits: &mut [f32]) {
    for (bit, logit) in logits.iter_mut().enumerate() {
        if allowed >> bit & 1 == 0 {
            *logit = f32::NEG_INFINITY;
        }
    }
}

fn stuck(error: impl std::fmt::Display) -> GrammarError {
    GrammarError::Stuck(one_line(error))
}
