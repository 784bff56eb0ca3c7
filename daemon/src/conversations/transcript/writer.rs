//! The thread that holds the database. It runs jobs in the order in which they were sent.
//!
//! - When the result of a write arrives, the change is on disk.
//! - Callers on an async runtime are never blocked by the disk.
//! - A write whose caller is gone runs; a read whose caller is gone is skipped.

use std::sync::mpsc;
use std::thread::{self, JoinHandle};

use rusqlite::Connection;
use tokio::sync::oneshot;

use super::TranscriptError;

type Job = Box<dyn FnOnce(&mut Connection) + Send>;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Read,
    Write,
}

/// The handle of the thread. Dropping it runs the queued jobs, then closes the database.
#[derive(Debug)]
pub struct Writer {
    jobs: Option<mpsc::Sender<Job>>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    pub fn start(mut connection: Connection) -> Self {
        let (jobs, inbox) = mpsc::channel::<Job>();
        let thread = thread::Builder::new()
            .name("transcript".into())
            .spawn(move || inbox.into_iter().for_each(|job| job(&mut connection)))
            .expect("a thread can be started while the daemon starts");
        Self { jobs: Some(jobs), thread: Some(thread) }
    }

    /// Queues a job that runs even if its caller is gone by then.
    pub fn write<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut Connection) -> Result<T, TranscriptError> + Send + 'static,
    ) -> Pending<T> {
        self.queue(Kind::Write, job)
    }

    /// Queues a job that is skipped if its caller is gone by then.
    pub fn read<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut Connection) -> Result<T, TranscriptError> + Send + 'static,
    ) -> Pending<T> {
        self.queue(Kind::Read, job)
    }

    /// Queues a write without a caller; a failure is logged.
    pub fn post(
        &self,
        job: impl FnOnce(&mut Connection) -> Result<(), TranscriptError> + Send + 'static,
    ) {
        self.write(move |connection| {
            let result = job(connection);
            if let Err(error) = &result {
                tracing::error!(%error, "transcript write failed");
            }
            result
        });
    }

    fn queue<T: Send + 'static>(
        &self,
        kind: Kind,
        job: impl FnOnce(&mut Connection) -> Result<T, TranscriptError> + Send + 'static,
    ) -> Pending<T> {
        let (answer, result) = oneshot::channel();
        let jobs = self.jobs.as_ref().expect("only `drop` takes the sender");
        // An error: the thread has ended, and `Pending` returns `Stopped`.
        let _ = jobs.send(Box::new(move |connection: &mut Connection| {
            if kind == Kind::Write || !answer.is_closed() {
                let _ = answer.send(job(connection)); // An error: the caller is gone.
            }
        }));
        Pending(result)
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The result of a job that may still run.
#[derive(Debug)]
pub struct Pending<T>(oneshot::Receiver<Result<T, TranscriptError>>);

impl<T> Pending<T> {
    /// Waits for the result on a thread that may block.
    pub(super) fn wait(self) -> Result<T, TranscriptError> {
        self.0.blocking_recv().unwrap_or(Err(TranscriptError::Stopped))
    }

    /// Waits for the result, which arrives once. Cancel safe.
    pub async fn done(&mut self) -> Result<T, TranscriptError> {
        (&mut self.0).await.unwrap_or(Err(TranscriptError::Stopped))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_write_without_a_caller_runs_and_a_read_is_skipped() {
        let writer = Writer::start(Connection::open_in_memory().unwrap());
        let (free, held) = mpsc::channel::<()>();
        let (done, seen) = mpsc::channel();
        writer.post(move |_| {
            held.recv().unwrap();
            Ok(())
        });
        let note = |what: &'static str| {
            let done = done.clone();
            move |_: &mut Connection| {
                done.send(what).unwrap();
                Ok(())
            }
        };
        drop(writer.read(note("abandoned read")));
        drop(writer.write(note("written")));
        let mut read = writer.read(note("read"));
        free.send(()).unwrap();
        read.done().await.unwrap();
        assert_eq!(seen.try_iter().collect::<Vec<_>>(), ["written", "read"]);
    }
}
