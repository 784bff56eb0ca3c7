//! Runs work below the priority of answers.

use std::panic::resume_unwind;

/// The writer's niceness: running answers have the cores first.
pub(super) const BEHIND_ANSWERS: i32 = 10;

/// The highest niceness that there is.
const LOWEST_PRIORITY: i32 = 19;

/// Runs `work` on a thread of its own at the lowest priority, and waits for it.
pub fn in_the_background<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let working = scope.spawn(|| {
            lower_priority(LOWEST_PRIORITY);
            work()
        });
        working.join().unwrap_or_else(|panic| resume_unwind(panic))
    })
}

/// Raises the niceness of this thread, and of the threads that it starts, by `niceness`.
pub(super) fn lower_priority(niceness: i32) {
    // Only on Linux has a thread a priority of its own. An error: the priority stays as it is.
    #[cfg(target_os = "linux")]
    let _ = rustix::process::nice(niceness);
}
