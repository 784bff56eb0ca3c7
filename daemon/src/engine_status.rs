//! Readings of the engine. Their lookups in the tiers run off the threads that serve sockets.

use hob_prewarm::PrefixName;
use hob_runtime::{Engine, EngineStatus, TurnError};
use hob_slots::ConversationId;

use crate::blocking::compute;

/// With the parked prefixes alone: the blocks of other conversations are not looked up.
///
/// # Errors
/// [`TurnError::Stopped`].
pub async fn prefix_status(engine: &Engine) -> Result<EngineStatus, TurnError> {
    let (engine, cells) = (engine.clone(), engine.cell_status().await?);
    let is_prefix = |id: &ConversationId| PrefixName::of_id(id).is_some();
    Ok(compute(move || engine.with_parked(cells, is_prefix)).await)
}

/// With all parked conversations.
///
/// # Errors
/// [`TurnError::Stopped`].
pub async fn engine_status(engine: &Engine) -> Result<EngineStatus, TurnError> {
    let (engine, cells) = (engine.clone(), engine.cell_status().await?);
    Ok(compute(move || engine.with_parked(cells, |_| true)).await)
}
