//! Moves CPU-bound and blocking work off the threads that serve sockets.

use std::any::Any;

use hob_prewarm::PrefixName;
use hob_runtime::{Engine, EngineStatus, TurnError};
use hob_slots::ConversationId;
use tokio::sync::Semaphore;

/// How many jobs of [`compute`] run at once; the others wait in order, without a thread.
///
/// Each thread keeps its stack and its part of the allocator for as long as the load lasts: 200
/// clients had 100 threads, and resident memory that grew by 4 % in five minutes.
const MAX_JOBS: usize = 8;

static JOBS: Semaphore = Semaphore::const_new(MAX_JOBS);

/// Runs `job` on tokio's blocking pool. A panic of the job is a panic of the caller.
///
/// `job` must end by itself: one that waits for a client, or for another job, belongs to
/// [`tokio::task::spawn_blocking`].
pub async fn compute<T: Send + 'static>(job: impl FnOnce() -> T + Send + 'static) -> T {
    let done = compute_boxed(Box::new(move || Box::new(job()))).await;
    *done.downcast().expect("it is what the job returned")
}

type Done = Box<dyn Any + Send>;

/// The same for every type, so that a task of tokio's is compiled once and not for each of 60 jobs.
async fn compute_boxed(job: Box<dyn FnOnce() -> Done + Send>) -> Done {
    let permit = JOBS.acquire().await.expect("nothing closes the semaphore");
    let job = move || {
        // A caller that goes away leaves its job running, so the permit goes with the job.
        let _permit = permit;
        job()
    };
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
