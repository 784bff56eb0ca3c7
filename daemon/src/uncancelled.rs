//! Changes that run to their end once they have begun.

/// Runs `change` to its end, also where its caller is dropped: a client that disconnects drops its request. A panic of
/// the change is a panic of the caller.
pub async fn uncancelled<T: Send + 'static>(change: impl Future<Output = T> + Send + 'static) -> T {
    match tokio::spawn(change).await {
        Ok(done) => done,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}
