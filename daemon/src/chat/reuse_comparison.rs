//! A comparison of moved KV with exact KV: a prompt is answered twice, and both answers are forgotten.
//!
//! - The exact side comes first. Its prompt, the long part, yields to every answer.
//! - By now, other conversations may have computed the prompt exactly, as hobd does with a prefix that it has learned.
//!   The side that should move KV then uses theirs.

use hob_runtime::Engine;
use hob_runtime::likeness::{Likeness, Measured};
use hob_runtime::turn::{Purpose, Retention, TurnError, TurnRequest};
use hob_slots::ConversationId;

use super::names;

/// Tokens of an answer that are compared.
const COMPARED: usize = 16;

/// What a comparison says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Comparison {
    Figures(Likeness),
    /// Nothing: no KV was moved, because exact KV of most of the prompt was there. It cost little.
    Hot,
}

/// Answers the prompt of `request` exactly and over moved KV.
///
/// # Errors
/// Those of the turns; [`TurnError::Superseded`] when an answer came between.
pub async fn compare(engine: &Engine, request: &TurnRequest) -> Result<Comparison, TurnError> {
    let id =
        || ConversationId::new(&format!("compared-{}", names::unique())).expect("a short name");
    let asked = TurnRequest {
        adapters: request.adapters.clone(),
        keep: Retention {
            in_memory: Some(true),
            segments: request.keep.segments.clone(),
            ..Retention::default()
        },
        ..TurnRequest::answer(None, request.prompt.clone(), COMPARED)
    };
    let conversation = id();
    let exact = exactly(engine, &asked, conversation.clone()).await;
    engine.forget(conversation).await?;
    let (exact, computed_tokens) = exact?;
    let conversation = id();
    let moved = TurnRequest {
        conversation: Some(conversation.clone()),
        reuse: request.reuse,
        reanchored: request.reanchored,
        sources_of: request.conversation.clone(),
        ..asked
    };
    let compared = exact.compare(engine, &moved).await;
    engine.forget(conversation).await?;
    let (likeness, _) = compared?;
    let is_hot = likeness.tokens.moved == 0 && computed_tokens < request.prompt.len() / 2;
    Ok(if is_hot { Comparison::Hot } else { Comparison::Figures(likeness) })
}

/// The exact answer, and how many tokens of its prompt were computed for it.
async fn exactly(
    engine: &Engine,
    asked: &TurnRequest,
    conversation: ConversationId,
) -> Result<(Measured, usize), TurnError> {
    let answer = TurnRequest { conversation: Some(conversation), ..asked.clone() };
    let prefill = TurnRequest { purpose: Purpose::Speculate, max_tokens: 0, ..answer.clone() };
    let prefilled = Measured::ask(engine, prefill).await?;
    Ok((Measured::ask(engine, answer).await?, prefilled.tokens.computed))
}
