//! Runs work below the priority of answers.

use std::panic::resume_unwind;
use std::thread;

/// The writer's niceness: running answers have the cores first.
pub(crate) const BEHIND_ANSWERS: i32 = 10;

/// The highest niceness that there is.
const LOWEST_PRIORITY: i32 = 19;

/// Runs `work` on a thread of its own at the lowest priority, and waits for it.
pub fn in_the_background<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    below(LOWEST_PRIORITY, work)
}

/// Runs `work` on a thread of its own at the writer's priority, and waits for it. A thread cannot raise its
/// priority again; its caller can go on with the work.
pub(crate) fn behind_answers<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    below(BEHIND_ANSWERS, work)
}

/// The thread has the caller's name.
fn below<T: Send>(niceness: i32, work: impl FnOnce() -> T + Send) -> T {
    let name = thread::current().name().unwrap_or_default().to_owned();
    thread::scope(|scope| {
        let working = thread::Builder::new().name(name).spawn_scoped(scope, || {
            lower_priority(niceness);
            work()
        });
        let working = working.expect("the system can start a thread");
        working.join().unwrap_or_else(|panic| resume_unwind(panic))
    })
}

/// Raises the niceness of this thread, and of the threads that it starts, by `niceness`.
pub(crate) fn lower_priority(niceness: i32) {
    // Only on Linux has a thread a priority of its own. An error: the priority stays as it is.
    #[cfg(target_os = "linux")]
    let _ = rustix::process::nice(niceness);
}
