//! Changes that run to their end once they have begun.

use std::future::pending;
use std::panic::resume_unwind;

/// Runs `change` to its end, also where its caller is dropped: a client that disconnects drops its request. A panic of
/// the change is a panic of the caller. A runtime that ends drops the change; a caller that outlives it waits until the
/// runtime drops it too.
pub async fn uncancelled<T: Send + 'static>(change: impl Future<Output = T> + Send + 'static) -> T {
    match tokio::spawn(change).await {
        Ok(done) => done,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => resume_unwind(panic),
            Err(_) => pending().await,
        },
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Waker};

    use tokio::runtime::Builder;

    use super::*;

    #[test]
    fn a_caller_waits_when_the_runtime_drops_the_change() {
        let runtime = Builder::new_current_thread().build().unwrap();
        let mut context = Context::from_waker(Waker::noop());
        let mut caller = pin!(uncancelled(pending::<()>()));
        let within = runtime.enter();
        assert!(caller.as_mut().poll(&mut context).is_pending());
        drop(within);
        drop(runtime);
        assert!(caller.as_mut().poll(&mut context).is_pending());
    }
}
