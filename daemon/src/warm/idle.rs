//! Whether the engine is idle, and the work that waits for it.

use std::time::{Duration, Instant};

use hob_runtime::{Engine, EngineStatus, SlotState, SlotStatus, TurnError};

/// Between two status requests while the engine is busy.
const POLL_EVERY: Duration = Duration::from_secs(1);

/// A daemon often gets its first request within seconds of its start; grammars wait until after it.
const GRAMMARS_AFTER: Duration = Duration::from_secs(5);

/// Whether no turn computes, restores or waits.
///
/// # Errors
/// [`TurnError::Stopped`].
pub async fn is_idle(engine: &Engine) -> Result<bool, TurnError> {
    let EngineStatus { slots, prefixes, waiting, .. } = engine.cell_status().await?;
    let is_idle = |slot: &SlotStatus| matches!(slot.state, SlotState::Free | SlotState::Idle);
    Ok(waiting == 0 && slots.iter().chain(&prefixes).all(is_idle))
}

/// Waits until [`is_idle`].
///
/// # Errors
/// [`TurnError::Stopped`].
pub async fn until_idle(engine: &Engine) -> Result<(), TurnError> {
    while !is_idle(engine).await? {
        tokio::time::sleep(POLL_EVERY).await;
    }
    Ok(())
}

/// Builds the tables of constrained sampling while the engine is idle, so that the first structured
/// answer does not wait for them.
pub async fn prepare_grammars(engine: Engine) {
    tokio::time::sleep(GRAMMARS_AFTER).await;
    if until_idle(&engine).await.is_err() {
        return;
    }
    let began = Instant::now();
    let prepared = tokio::task::spawn_blocking(move || engine.prepare_grammars()).await;
    if prepared.is_ok() {
        // An error: the runtime shuts down.
        tracing::debug!(millis = began.elapsed().as_millis(), "grammars prepared");
    }
}
