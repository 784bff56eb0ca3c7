//! Moves CPU-bound work off the threads that serve sockets.

/// Runs `job` on tokio's blocking pool. A panic of the job is a panic of the caller.
pub async fn compute<T: Send + 'static>(job: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(job).await {
        Ok(done) => done,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}
