//! Moves CPU-bound and blocking work off the threads that serve sockets.

use hob_prewarm::PrefixName;
use hob_runtime::{Engine, EngineStatus, TurnError};
use hob_slots::ConversationId;

/// Runs `job` on tokio's blocking pool. A panic of the job is a panic of the caller.
pub async fn compute<T: Send + 'static>(job: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(job).await {
        Ok(done) => done,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}

/// A reading of the engine, with the parked prefixes alone: the blocks of other conversations are
/// not looked up.
///
/// # Errors
/// [`TurnError::Stopped`].
pub async fn prefix_status(engine: &Engine) -> Result<EngineStatus, TurnError> {
    let (engine, cells) = (engine.clone(), engine.cell_status().await?);
    let is_prefix = |id: &ConversationId| PrefixName::of_id(id).is_some();
    Ok(compute(move || engine.with_parked(cells, is_prefix)).await)
}

/// A reading of the engine, with all parked conversations.
///
/// # Errors
/// [`TurnError::Stopped`].
pub async fn engine_status(engine: &Engine) -> Result<EngineStatus, TurnError> {
    let (engine, cells) = (engine.clone(), engine.cell_status().await?);
    Ok(compute(move || engine.with_parked(cells, |_| true)).await)
}
