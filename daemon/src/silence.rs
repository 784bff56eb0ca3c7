//! Whether the engine has nothing to do, so that work of the lowest rank may begin.

use std::time::Duration;

use hob_runtime::{Engine, EngineStatus, SlotState, SlotStatus, TurnError};

/// Between two looks at an engine that is busy: whoever waits for silence is in no hurry.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Whether nothing is computed, restored or waited for.
///
/// # Errors
/// When the engine has stopped.
pub async fn is_silent(engine: &Engine) -> Result<bool, TurnError> {
    let EngineStatus { slots, prefixes, waiting, .. } = engine.status().await?;
    let silent = |slot: &SlotStatus| matches!(slot.state, SlotState::Free | SlotState::Idle);
    Ok(waiting == 0 && slots.iter().chain(&prefixes).all(silent))
}

/// Ready when the engine has nothing to do.
///
/// # Errors
/// When the engine has stopped.
pub async fn until_silent(engine: &Engine) -> Result<(), TurnError> {
    while !is_silent(engine).await? {
        tokio::time::sleep(LOOK_EVERY).await;
    }
    Ok(())
}
