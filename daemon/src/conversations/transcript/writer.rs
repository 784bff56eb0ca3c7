//! The thread that holds the database. It runs jobs in the order in which they were sent.
//!
//! - When the result of a write arrives, the change is on disk.
//! - Callers on an async runtime are never blocked by the disk.
//! - A write whose caller is gone runs; a read whose caller is gone is skipped.
//! - The end of an answer that cannot be written now, because the disk has no room or fails or another program writes
//!   to the database, is written again before each later job: a prompt that is made once it can be written has the
//!   whole answer.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use hob_runtime::fault;
use rusqlite::{Connection, ErrorCode};
use tokio::sync::oneshot;

use super::TranscriptError;

/// Ends of answers that wait until they can be written; further ones are lost.
const MAX_UNWRITTEN: usize = 64;

/// How long a job waits for another program that writes to the database.
pub(super) const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

type Job = Box<dyn FnOnce(&mut Database) + Send>;
type Unwritten = Box<dyn FnMut(&mut Connection) -> Result<(), TranscriptError> + Send>;

struct Database {
    connection: Connection,
    /// The oldest first.
    unwritten: VecDeque<Unwritten>,
}

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
    changes: Arc<AtomicU64>,
}

impl Writer {
    pub fn start(connection: Connection) -> Self {
        let (jobs, inbox) = mpsc::channel::<Job>();
        let mut database = Database { connection, unwritten: VecDeque::new() };
        let run = move || {
            inbox.into_iter().for_each(|job| job(&mut database));
            database.write_again();
        };
        let thread = thread::Builder::new()
            .name("transcript".into())
            .spawn(run)
            .expect("a thread can be started while the daemon starts");
        Self { jobs: Some(jobs), thread: Some(thread), changes: Arc::default() }
    }

    /// Queues a job that runs even if its caller is gone by then.
    pub fn write<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut Connection) -> Result<T, TranscriptError> + Send + 'static,
    ) -> Pending<T> {
        self.queue(Kind::Write, job)
    }

    /// [`Self::write`] of what clients show of conversations, besides their answers. It is counted once it is on disk.
    pub fn write_change<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut Connection) -> Result<T, TranscriptError> + Send + 'static,
    ) -> Pending<T> {
        let changes = self.changes.clone();
        self.write(move |connection| {
            let done = job(connection)?;
            changes.fetch_add(1, Ordering::Relaxed);
            Ok(done)
        })
    }

    /// How many writes of [`Self::write_change`] have succeeded.
    pub fn changes(&self) -> u64 {
        self.changes.load(Ordering::Relaxed)
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

    /// Queues a write that is repeated before each later job while it fails for a reason that may pass. Its caller gets
    /// the first result.
    pub fn write_until_stored(
        &self,
        mut job: impl FnMut(&mut Connection) -> Result<(), TranscriptError> + Send + 'static,
    ) -> Pending<()> {
        let (answer, result) = oneshot::channel();
        self.send(Box::new(move |database: &mut Database| {
            database.write_again();
            let done = database.run(&mut job);
            if may_succeed_later(&done) && database.unwritten.len() < MAX_UNWRITTEN {
                database.unwritten.push_back(Box::new(job));
            }
            let _ = answer.send(done); // An error: the caller is gone.
        }));
        Pending(result)
    }

    /// Runs `job` without a caller, and again while it fails for a reason that may pass. Its first failure is logged;
    /// that of a repetition is not.
    pub fn post_until_stored(
        &self,
        mut job: impl FnMut(&mut Connection) -> Result<(), TranscriptError> + Send + 'static,
    ) {
        let mut has_failed = false;
        self.write_until_stored(move |connection| {
            let result = job(connection);
            if let Err(error) = &result
                && !std::mem::replace(&mut has_failed, true)
            {
                tracing::error!(%error, "transcript write failed");
            }
            result
        });
    }

    /// Fills the disk of the database, or makes room on it.
    #[cfg(test)]
    pub async fn set_full(&self, is_full: bool) {
        let mut set = self.write(move |connection| {
            set_full(connection, is_full);
            Ok(())
        });
        set.done().await.expect("the thread runs");
    }

    fn queue<T: Send + 'static>(
        &self,
        kind: Kind,
        job: impl FnOnce(&mut Connection) -> Result<T, TranscriptError> + Send + 'static,
    ) -> Pending<T> {
        let (answer, result) = oneshot::channel();
        self.send(Box::new(move |database: &mut Database| {
            if kind == Kind::Read && answer.is_closed() {
                return;
            }
            database.write_again();
            let _ = answer.send(database.run(job)); // An error: the caller is gone.
        }));
        Pending(result)
    }

    fn send(&self, job: Job) {
        let jobs = self.jobs.as_ref().expect("only `drop` takes the sender");
        // An error: the thread has ended, and `Pending` returns `Stopped`.
        let _ = jobs.send(job);
    }
}

impl Database {
    fn run<T>(
        &mut self,
        job: impl FnOnce(&mut Connection) -> Result<T, TranscriptError>,
    ) -> Result<T, TranscriptError> {
        let connection = &mut self.connection;
        fill_disk(connection);
        job(connection).map_err(|error| error.in_database(connection))
    }

    /// Writes the ends of answers that could not be written. Ends at the first one that still cannot. Waits for no
    /// other program: the job behind it does.
    fn write_again(&mut self) {
        if self.unwritten.is_empty() {
            return;
        }
        self.wait_for_others(Duration::ZERO);
        while let Some(mut job) = self.unwritten.pop_front() {
            let done = self.run(&mut job);
            if may_succeed_later(&done) {
                self.unwritten.push_front(job);
                break;
            }
            if let Err(error) = done {
                tracing::error!(%error, "the end of an answer is lost");
            }
        }
        self.wait_for_others(BUSY_TIMEOUT);
    }

    fn wait_for_others(&self, time: Duration) {
        self.connection.busy_timeout(time).expect("SQLite takes a limit");
    }
}

/// Whether a write has failed for a reason that may pass: the disk has no room, fails or is mounted read-only, or another
/// program writes to the database.
fn may_succeed_later(done: &Result<(), TranscriptError>) -> bool {
    match done {
        Err(TranscriptError::DiskFull { .. }) => true,
        Err(TranscriptError::Sql(error)) => matches!(
            error.sqlite_error_code(),
            Some(
                ErrorCode::DatabaseBusy
                    | ErrorCode::DatabaseLocked
                    | ErrorCode::ReadOnly
                    | ErrorCode::SystemIoFailure
            )
        ),
        _ => false,
    }
}

/// Where a test fills the disk, SQLite finds no room for a further page of the database.
fn fill_disk(connection: &Connection) {
    let is_on_disk = connection.path().is_some_and(|path| !path.is_empty());
    if let Some(is_full) = fault::is_disk_full().filter(|_| is_on_disk) {
        set_full(connection, is_full);
    }
}

/// With `is_full`, SQLite finds no room for a further page of the database from here on.
fn set_full(connection: &Connection, is_full: bool) {
    // A limit below the pages that there are means their number.
    let max_pages = if is_full { 1 } else { u32::MAX - 1 };
    connection.pragma_update(None, "max_page_count", max_pages).expect("SQLite takes a limit");
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
    use crate::error::ApiError;

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

    #[tokio::test]
    async fn the_end_of_an_answer_is_written_once_another_program_has_ended_its_transaction() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("texts.sqlite");
        let connection = Connection::open(&path).unwrap();
        connection.pragma_update(None, "journal_mode", "wal").unwrap();
        connection.execute_batch("CREATE TABLE texts (text TEXT)").unwrap();
        connection.busy_timeout(Duration::ZERO).unwrap();
        let writer = Writer::start(connection);
        let count = || {
            writer.read(|connection| {
                let sql = "SELECT count(*) FROM texts";
                Ok(connection.query_row(sql, [], |row| row.get::<_, i64>(0))?)
            })
        };
        let other = Connection::open(&path).unwrap();
        other.execute_batch("BEGIN IMMEDIATE").unwrap();
        let mut end = writer.write_until_stored(|connection| {
            connection.execute("INSERT INTO texts VALUES ('end')", [])?;
            Ok(())
        });
        end.done().await.unwrap_err();
        assert_eq!(count().done().await.unwrap(), 0);
        other.execute_batch("ROLLBACK").unwrap();
        assert_eq!(count().done().await.unwrap(), 1);
        assert_eq!(count().done().await.unwrap(), 1, "it is written once");
    }

    #[tokio::test]
    async fn a_write_without_room_names_the_directory_and_leaves_nothing_and_later_ones_succeed() {
        let directory = tempfile::tempdir().unwrap();
        let connection = Connection::open(directory.path().join("texts.sqlite")).unwrap();
        connection.execute_batch("CREATE TABLE texts (text TEXT)").unwrap();
        let writer = Writer::start(connection);
        let insert = || {
            writer.write(|connection| {
                let transaction = connection.transaction()?;
                transaction.execute("INSERT INTO texts VALUES ('short')", [])?;
                transaction.execute("INSERT INTO texts VALUES (?1)", ["long".repeat(10_000)])?;
                transaction.commit()?;
                Ok(())
            })
        };
        let count = || {
            writer.read(|connection| {
                let sql = "SELECT count(*) FROM texts";
                Ok(connection.query_row(sql, [], |row| row.get::<_, i64>(0))?)
            })
        };
        writer.set_full(true).await;
        let error = ApiError::from(insert().done().await.unwrap_err());
        assert_eq!((error.kind.status(), error.code), (507, Some("disk_full")));
        let named = directory.path().to_str().unwrap();
        assert!(error.message.contains(named), "{error} does not name {named}");
        assert_eq!(count().done().await.unwrap(), 0);

        writer.set_full(false).await;
        insert().done().await.unwrap();
        assert_eq!(count().done().await.unwrap(), 2);
    }
}
