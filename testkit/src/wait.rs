//! Waiting with a bound.

use std::time::{Duration, Instant};

/// Generous: a machine that runs tests is busy with other things too. A prompt of 4,000 tokens that
/// shares two cores with 17 other programs took more than 60 s.
pub const PATIENCE: Duration = Duration::from_secs(180);

/// How long an answer over HTTP may take: [`PATIENCE`], or the seconds of `HOB_TEST_PATIENCE_SECS`.
pub fn patience() -> Duration {
    let secs = std::env::var("HOB_TEST_PATIENCE_SECS").ok();
    secs.map_or(PATIENCE, |secs| Duration::from_secs(secs.parse().expect("a number of seconds")))
}

const PAUSE: Duration = Duration::from_millis(25);

/// Polls `done` until it returns a value.
///
/// # Panics
/// After [`PATIENCE`], with `what` it waited for.
pub fn until<T>(what: &str, mut done: impl FnMut() -> Option<T>) -> T {
    attempt(PATIENCE, || done().ok_or(())).unwrap_or_else(|()| panic!("still not: {what}"))
}

/// Repeats `work` until it succeeds; after `patience`, returns the last failure.
pub fn attempt<T, E>(patience: Duration, mut work: impl FnMut() -> Result<T, E>) -> Result<T, E> {
    let end = Instant::now() + patience;
    loop {
        match work() {
            Err(_) if Instant::now() < end => std::thread::sleep(PAUSE),
            outcome => return outcome,
        }
    }
}
