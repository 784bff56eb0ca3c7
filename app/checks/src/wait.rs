//! Waiting with a bound.

use std::time::{Duration, Instant};

/// Machines that run checks are busy with other things too.
pub const PATIENCE: Duration = Duration::from_secs(30);

const PAUSE: Duration = Duration::from_millis(25);

/// Waits until `done` has something to say, within reason.
pub fn until<T>(what: &str, mut done: impl FnMut() -> Option<T>) -> T {
    attempt(PATIENCE, || done().ok_or(())).unwrap_or_else(|()| panic!("still not: {what}"))
}

/// Tries until it succeeds or `patience` is at its end, and then tells the last failure.
pub fn attempt<T, E>(patience: Duration, mut done: impl FnMut() -> Result<T, E>) -> Result<T, E> {
    let end = Instant::now() + patience;
    loop {
        match done() {
            Err(_) if Instant::now() < end => std::thread::sleep(PAUSE),
            outcome => return outcome,
        }
    }
}
