//! Chooses the next token of an answer, and says which tokens must not come next.
//!
//! - Tokens that end an answer are left out while it is too short, and those that the request ignores always.
//! - An answer that is too short ends all the same where no other token may come: its form is complete, or ends alone
//!   are allowed.

use hob_slots::Token;

use super::running::Running;
use crate::vocabulary::Vocabulary;

/// Chooses the next token of `turn`, from the logits of its row. Where something changes them before the choice,
/// or asks for its odds afterwards, `copy` has them then. Others copy nothing: Qwen2.5's are 608 KB a token.
pub(super) fn choose(
    turn: &mut Running,
    logits: &[f32],
    copy: &mut Vec<f32>,
    vocabulary: &Vocabulary,
) -> Result<Token, String> {
    let none_is_left = || "no token is left".to_owned();
    let is_too_short = turn.is_too_short();
    let copies = is_too_short
        || turn.request.ignore_eog
        || turn.request.logprobs_of_sampling
        || turn.constraint.is_some()
        || turn.sampler.changes_logits();
    if !copies {
        return turn.sampler.pick(logits).ok_or_else(none_is_left);
    }
    copy.clear();
    copy.extend_from_slice(logits);
    if let Some(constraint) = &mut turn.constraint {
        constraint.mask(copy).map_err(|error| error.to_string())?;
    }
    let mut ends: Vec<(usize, f32)> = Vec::new();
    for token in hidden_ends(turn, vocabulary) {
        let index = usize::try_from(token.0).unwrap_or(usize::MAX);
        let Some(logit) = copy.get_mut(index) else { continue };
        let before = std::mem::replace(logit, f32::NEG_INFINITY);
        // One that the request ignores ends no answer, and never comes.
        if turn.ends_at(token, vocabulary) {
            ends.push((index, before));
        }
    }
    let chosen = turn.sampler.choose(copy);
    if chosen.is_some() || !is_too_short {
        return chosen.ok_or_else(none_is_left);
    }
    // A token may be hidden twice: its first logit is written last.
    ends.into_iter().rev().for_each(|(index, logit)| copy[index] = logit);
    turn.sampler.choose(copy).ok_or_else(none_is_left)
}

/// The tokens that must not come next because the answer would end, or that the request ignores.
fn hidden_ends(turn: &Running, vocabulary: &Vocabulary) -> Vec<Token> {
    let (request, is_too_short) = (&turn.request, turn.is_too_short());
    if !is_too_short && !request.ignore_eog {
        return Vec::new();
    }
    let is_hidden = |token: &Token| is_too_short || !request.stop_tokens.contains(token);
    let mut hidden = vocabulary.eog_tokens().to_vec();
    hidden.retain(is_hidden);
    if is_too_short {
        hidden.extend(&request.stop_tokens);
    }
    hidden
}
