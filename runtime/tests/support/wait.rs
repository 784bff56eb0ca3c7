//! Waits for what a test cannot be told.

use std::time::{Duration, Instant};

/// As long as tests of hobd wait: the machine may compute other things.
pub const PATIENCE: Duration = Duration::from_secs(180);

/// Waits until `is_so`.
///
/// # Panics
/// After [`PATIENCE`], with `what` it waited for.
pub fn until(what: &str, is_so: impl Fn() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < end, "still not: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}
