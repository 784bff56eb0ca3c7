//! The one thread that holds the database. Callers send it jobs; it runs them in order.
//!
//! - A job that answers is a commit: when the answer is there, the change is on the disk.
//! - Callers on an async runtime are never blocked by the disk.
//! - What nobody waits for any more is written all the same, and not read.

use std::sync::mpsc;
use std::thread::{self, JoinHandle};

use rusqlite::Connection;
use tokio::sync::oneshot;

use super::TranscriptError;

type Job = Box<dyn FnOnce(&mut Connection) + Send>;

/// What becomes of a job that nobody waits for when its turn comes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Unawaited {
    Run,
    Skip,
}

/// The thread and the way to it. Dropping it runs what is queued, then closes the database.
#[derive(Debug)]
pub struct Writer {
    jobs: Option<mpsc::Sender<Job>>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    /// Moves the connection to a thread of its own.
    pub fn start(mut connection: Connection) -> Self {
        let (jobs, inbox) = mpsc::channel::<Job>();
        let thread = thread::Builder::new()
            .name("transcript".into())
            .spawn(move || inbox.into_iter().for_each(|job| job(&mut connection)))
            .expect("a thread can be started while the daemon starts");
        Self { jobs: Some(jobs), thread: Some(thread) }
    }

    /// Queues a job at once; the receiver hears its result.
    pub fn send<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut Connection) -> Result<T, TranscriptError> + Send + 'static,
    ) -> Pending<T> {
        self.queue(Unawaited::Run, job)
    }

    /// Queues a job that only reads: it is left out once nobody waits for it any more.
    pub fn ask<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut Connection) -> Result<T, TranscriptError> + Send + 'static,
    ) -> Pending<T> {
        self.queue(Unawaited::Skip, job)
    }

    /// Queues a job that nobody waits for; a failure is logged.
    pub fn post(
        &self,
        job: impl FnOnce(&mut Connection) -> Result<(), TranscriptError> + Send + 'static,
    ) {
        self.send(move |connection| {
            let result = job(connection);
            if let Err(error) = &result {
                tracing::error!(%error, "transcript write failed");
            }
            result
        });
    }

    fn queue<T: Send + 'static>(
        &self,
        unawaited: Unawaited,
        job: impl FnOnce(&mut Connection) -> Result<T, TranscriptError> + Send + 'static,
    ) -> Pending<T> {
        let (answer, result) = oneshot::channel();
        let jobs = self.jobs.as_ref().expect("only `drop` takes the sender");
        // A thread that is gone drops the job, and `Pending` tells.
        let _ = jobs.send(Box::new(move |connection: &mut Connection| {
            if !answer.is_closed() || unawaited == Unawaited::Run {
                let _ = answer.send(job(connection)); // Whoever waited may have gone meanwhile.
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

/// A job under way.
#[derive(Debug)]
pub struct Pending<T>(oneshot::Receiver<Result<T, TranscriptError>>);

impl<T> Pending<T> {
    /// Its result, once it is on the disk. To be asked once; may be cancelled and asked again.
    pub async fn done(&mut self) -> Result<T, TranscriptError> {
        (&mut self.0).await.unwrap_or(Err(TranscriptError::Stopped))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_nobody_waits_for_is_written_and_not_read() {
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
        drop(writer.ask(note("read for nobody")));
        drop(writer.send(note("written")));
        let mut read = writer.ask(note("read"));
        free.send(()).unwrap();
        read.done().await.unwrap();
        assert_eq!(seen.try_iter().collect::<Vec<_>>(), ["written", "read"]);
    }
}
