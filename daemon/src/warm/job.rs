//! Warms one prefix and reports where its tokens came from. Dropping the future cancels it.
//!
//! - Keep-alive never evicts: a prefix that was evicted stays where it is until a request needs it.

use hob_prewarm::{PrefixName, TokenOrigins};
use hob_runtime::{
    Engine, EngineStatus, Purpose, Retention, TokenCounts, Turn, TurnError, TurnEvent, TurnRequest,
};
use hob_slots::ConversationId;

use super::prefixes::{Prefixes, ProfilePrefix};
use crate::error::{ApiError, ErrorKind};

#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The prefix could not be rendered.
    #[error("{0}")]
    Profile(#[from] ApiError),
    #[error("{0}")]
    Turn(#[from] TurnError),
}

impl Failure {
    /// The prefix is no longer learned: trying again cannot help.
    pub fn is_of_a_removed_prefix(&self) -> bool {
        matches!(self, Self::Profile(ApiError { kind: ErrorKind::NotFound, .. }))
    }
}

pub async fn make_hot(
    engine: Engine,
    prefixes: impl Prefixes,
    name: PrefixName,
    purpose: Purpose,
) -> Result<TokenOrigins, Failure> {
    let prefix = prefixes.prefix(&name).await?;
    let tokens = prefix.tokens.len();
    let unchanged = TokenOrigins { shared: tokens, ..TokenOrigins::default() };
    if tokens == 0 {
        return Ok(unchanged);
    }
    if purpose == Purpose::KeepAlive && !has_room(&engine.cell_status().await?, &prefix.id, tokens)
    {
        return Ok(unchanged);
    }
    Ok(report(engine.submit(request(prefix, purpose))?).await?)
}

/// Waits for the end of a turn.
pub async fn report(mut turn: Turn) -> Result<TokenOrigins, TurnError> {
    let mut from = TokenOrigins::default();
    while let Some(event) = turn.next().await {
        match event {
            TurnEvent::Started(report) => {
                // A prefix is whole and exact: nothing of it is away, or moved.
                let TokenCounts { shared, memory, disk, computed, .. } = report.tokens;
                from = TokenOrigins { shared, memory, disk, computed };
            }
            TurnEvent::Progress(_)
            | TurnEvent::Moved(_)
            | TurnEvent::Token { .. }
            | TurnEvent::Finished { .. } => {}
            TurnEvent::Failed(error) => return Err(error),
        }
    }
    Ok(from)
}

/// Whether the prefix is hot, or fits into a free sequence and free cells. Shared cells are counted
/// once per sequence, so the real room may be larger.
fn has_room(status: &EngineStatus, id: &ConversationId, tokens: usize) -> bool {
    if status.prefixes.iter().any(|slot| slot.conversation.as_ref() == Some(id)) {
        return true;
    }
    let used: usize = status.slots.iter().chain(&status.prefixes).map(|slot| slot.tokens).sum();
    let has_free_slot = status.prefixes.iter().any(|slot| slot.conversation.is_none());
    has_free_slot && used + tokens <= status.context_tokens
}

/// A turn that computes the prefix and generates nothing.
pub fn request(prefix: ProfilePrefix, purpose: Purpose) -> TurnRequest {
    let class = Some(prefix.class);
    let keep = Retention { class, segments: prefix.segments, ..Retention::default() };
    TurnRequest { keep, ..TurnRequest::prefill(prefix.id, prefix.tokens, purpose) }
}
