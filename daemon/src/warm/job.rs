//! Makes one prefix hot, and tells where its tokens came from. Dropping it cancels it.
//!
//! - Keeping alive pushes nobody out: what has given way to others stays where it is, and its next
//!   use brings it back.

use hob_prewarm::{ProfileName, Sources};
use hob_runtime::{
    Engine, EngineStatus, Purpose, Retention, TokenCounts, Turn, TurnError, TurnEvent, TurnRequest,
};
use hob_slots::ConversationId;

use super::Prefixes;
use crate::error::ApiError;
use crate::service::Prefix;

/// Why a prefix is not warm.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The profile tells no prefix.
    #[error("{0}")]
    Profile(#[from] ApiError),
    /// The engine does not make it hot.
    #[error("{0}")]
    Turn(#[from] TurnError),
}

pub async fn make_hot(
    engine: Engine,
    prefixes: impl Prefixes,
    profile: ProfileName,
    purpose: Purpose,
) -> Result<Sources, Failure> {
    let prefix = prefixes.prefix(&profile).await?;
    let tokens = prefix.tokens.len();
    let nothing_happens = Sources { shared: tokens, ..Sources::default() };
    if tokens == 0 {
        return Ok(nothing_happens);
    }
    if purpose == Purpose::KeepAlive && !has_room(&engine.status().await?, &prefix.id, tokens) {
        return Ok(nothing_happens);
    }
    Ok(report(engine.submit(request(prefix, purpose))?).await?)
}

/// Where the tokens of a turn came from, once it is over.
pub async fn report(mut turn: Turn) -> Result<Sources, TurnError> {
    let mut from = Sources::default();
    while let Some(event) = turn.next().await {
        match event {
            TurnEvent::Started(report) => {
                let TokenCounts { shared, memory, disk, computed } = report.tokens;
                from = Sources { shared, memory, disk, computed };
            }
            TurnEvent::Token { .. } | TurnEvent::Finished { .. } => {}
            TurnEvent::Failed(error) => return Err(error),
        }
    }
    Ok(from)
}

/// Whether a prefix is hot, or can become so in a slot and in cells that nobody has. Cells that are
/// shared are counted more than once, so there may be more room than this knows of.
fn has_room(status: &EngineStatus, id: &ConversationId, tokens: usize) -> bool {
    if status.prefixes.iter().any(|slot| slot.conversation.as_ref() == Some(id)) {
        return true;
    }
    let taken: usize = status.slots.iter().chain(&status.prefixes).map(|slot| slot.tokens).sum();
    let free_slot = status.prefixes.iter().any(|slot| slot.conversation.is_none());
    free_slot && taken + tokens <= status.context_tokens
}

/// Asks for a prompt, and for nothing after it.
pub fn request(prefix: Prefix, purpose: Purpose) -> TurnRequest {
    let keep = Retention { class: Some(prefix.class), segments: prefix.segments };
    TurnRequest { keep, ..TurnRequest::prefill(prefix.id, prefix.tokens, purpose) }
}
