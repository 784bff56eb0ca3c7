//! Chooses the next token of an answer, and says which tokens must not come next.
//!
//! - Tokens that end an answer are left out while it is too short, and those that the request ignores always.
//! - An answer that is too short ends all the same where no other token may come: its form is complete, or ends alone
//!   are allowed.

use hob_slots::Token;

use super::running::Running;
use crate::vocabulary::Vocabulary;

/// Chooses the next token of `turn`, from the logits of its row, which it leaves as it found them. Where a grammar
/// masks them, or the odds of the choice are asked for, `copy` has what it chose from. Others copy nothing: Qwen2.5's
/// logits are 608 KB a token.
pub(super) fn choose(
    turn: &mut Running,
    logits: &mut [f32],
    copy: &mut Vec<f32>,
    vocabulary: &Vocabulary,
) -> Result<Token, String> {
    let none_is_left = || "no token is left".to_owned();
    if turn.constraint.is_none() && !turn.request.logprobs_of_sampling {
        let hidden = hide_ends(turn, logits, vocabulary);
        let chosen = choose_behind(turn, logits, &hidden);
        show(logits, &hidden, |_| true);
        return chosen.ok_or_else(none_is_left);
    }
    copy.clear();
    copy.extend_from_slice(logits);
    if let Some(constraint) = &mut turn.constraint {
        constraint.mask(copy).map_err(|error| error.to_string())?;
    }
    let hidden = hide_ends(turn, copy, vocabulary);
    choose_behind(turn, copy, &hidden).ok_or_else(none_is_left)
}

/// A token that must not come next, with the logit that it had.
struct Hidden {
    index: usize,
    logit: f32,
    /// It ends the answer: one that the request ignores ends none, and never comes.
    ends: bool,
}

fn hide_ends(turn: &Running, logits: &mut [f32], vocabulary: &Vocabulary) -> Vec<Hidden> {
    let hide = |token: Token| {
        let index = usize::try_from(token.0).ok()?;
        let logit = std::mem::replace(logits.get_mut(index)?, f32::NEG_INFINITY);
        Some(Hidden { index, logit, ends: turn.ends_at(token, vocabulary) })
    };
    hidden_ends(turn, vocabulary).into_iter().filter_map(hide).collect()
}

/// Restores those logits. A token may be hidden twice: its first logit is written last.
fn show(logits: &mut [f32], hidden: &[Hidden], which: impl Fn(&Hidden) -> bool) {
    let shown = hidden.iter().rev().filter(|it| which(it));
    shown.for_each(|it| logits[it.index] = it.logit);
}

/// Chooses a token that is not hidden; or where none is left, one that ends the answer too early.
fn choose_behind(turn: &mut Running, logits: &mut [f32], hidden: &[Hidden]) -> Option<Token> {
    let chosen = turn.sampler.choose(logits);
    if chosen.is_some() || !turn.is_too_short() {
        return chosen;
    }
    show(logits, hidden, |it| it.ends);
    turn.sampler.choose(logits)
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
