//! Moves CPU-bound and blocking work off the threads that serve sockets.

use std::any::Any;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::runtime::{Builder, Handle, Runtime};

/// How many jobs of [`compute`] run at once; the others wait in order, without a thread.
///
/// Each thread keeps its stack and its part of the allocator for as long as the load lasts, so their number
/// bounds memory. Tokio's own pool starts one whenever none is idle at that moment: 200 clients had 100 threads, and
/// 34 where a semaphore let 8 jobs run, because a job that had ended was followed before its thread was idle.
const THREADS: usize = 8;

/// The runtime's threads run the jobs; nothing else drives the runtime.
static POOL: Mutex<Option<Runtime>> = Mutex::new(None);

/// Runs `job` on a thread of its own pool, within the caller's runtime. A panic of the job is a panic of the caller.
///
/// `job` must end by itself: one that waits for a client, or for another job, belongs to
/// [`tokio::task::spawn_blocking`].
pub async fn compute<T: Send + 'static>(job: impl FnOnce() -> T + Send + 'static) -> T {
    let done = compute_boxed(Box::new(move || Box::new(job()))).await;
    *done.downcast().expect("it is what the job returned")
}

type JobResult = Box<dyn Any + Send>;

/// [`compute`] for every type, so that a task of tokio's is compiled once and not for each of 60 jobs.
async fn compute_boxed(job: Box<dyn FnOnce() -> JobResult + Send>) -> JobResult {
    let caller = Handle::current();
    let job = move || {
        let _within = caller.enter();
        job()
    };
    let running = POOL.lock().get_or_insert_with(pool).spawn_blocking(job);
    match running.await {
        Ok(done) => done,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}

fn pool() -> Runtime {
    let mut pool = Builder::new_current_thread();
    pool.thread_name("hob-compute").max_blocking_threads(THREADS);
    pool.build().expect("a runtime without drivers")
}

/// Drops the jobs that wait, and waits for those that run, which may hold the engine: for `patience` at most. To be
/// called when the runtime of the callers has ended. A later job starts threads again.
pub fn end(patience: Duration) {
    let pool = POOL.lock().take();
    if let Some(pool) = pool {
        pool.shutdown_timeout(patience);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::thread::{self, ThreadId};

    use futures_util::future::join_all;

    use super::*;

    #[tokio::test]
    async fn many_jobs_share_few_threads() {
        let job = || {
            thread::sleep(Duration::from_millis(1));
            thread::current().id()
        };
        let threads: HashSet<ThreadId> =
            join_all((0..500).map(|_| compute(job))).await.into_iter().collect();
        assert!(threads.len() <= THREADS, "{}", threads.len());
    }

    #[tokio::test]
    async fn a_job_starts_tasks_in_the_callers_runtime() {
        let task = compute(|| tokio::spawn(async { 7 })).await;
        assert_eq!(task.await.unwrap(), 7);
    }
}
