//! The shared tier: files of saved conversations in a place that several daemons see.
//!
//! Reading order: this file (the operations), [`place`] (a directory, or S3-compatible storage),
//! `connector` (HTTP to it), [`admission`] (fetch or compute), `health` (pauses after failures),
//! [`names`]. What the files mean is the subject of [`crate::conversations::sharing`].
//!
//! - Only this module knows object stores and their network.
//! - Every operation ends within a bound. After a failure, operations fail at once until a pause is over,
//!   which doubles up to a minute; the first failure and the end of the trouble are logged, and no more.
//! - Bytes go out sealed where the slots directory is, under the same key, and come back opened. Their
//!   meaning is not checked here.

pub mod admission;
mod connector;
mod health;
pub mod names;
mod place;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use axum::body::Bytes;
use futures_util::{StreamExt, TryStreamExt, stream};
use hob_config::SharedPlace;
use hob_slots::store::Sealing;
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt};
use parking_lot::Mutex;

use admission::{Measured, Meter};
use health::Health;
pub use place::PlaceError;

/// Files that are read or written at a time.
pub const PARALLEL: usize = 8;

/// An operation on one file must end within this, and within the time that [`MIN_BYTES_PER_SEC`] takes for
/// its bytes.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Limit of an operation that a turn waits for. It carries few bytes.
const TURN_TIMEOUT: Duration = Duration::from_secs(2);
const MIN_BYTES_PER_SEC: u64 = 1 << 20;

/// Why an operation was not done.
#[derive(Debug, thiserror::Error)]
pub enum SharedError {
    /// It failed, and the pause behind the failure has not ended.
    #[error("the shared tier failed; it is tried again within a minute")]
    Paused,
    #[error("the shared tier did not answer within {0:?}")]
    Late(Duration),
    #[error("the shared tier failed: {0}")]
    Store(#[source] object_store::Error),
    /// It is there, and damaged, of another key, or too large.
    #[error("{name} in the shared tier cannot be used: {reason}")]
    Unusable { name: String, reason: String },
}

/// Which version of a file it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stamp(String);

impl Stamp {
    fn of(e_tag: Option<&str>, facts: impl FnOnce() -> String) -> Self {
        Self(e_tag.map_or_else(facts, str::to_owned))
    }

    fn of_file(meta: &ObjectMeta) -> Self {
        let facts = || format!("{} {}", meta.last_modified.timestamp_micros(), meta.size);
        Self::of(meta.e_tag.as_deref(), facts)
    }
}

/// Figures since the start.
#[derive(Debug, Default)]
pub struct SharedCounters {
    /// Conversations whose text and KV were written.
    pub published: AtomicU64,
    pub written_bytes: AtomicU64,
    pub read_bytes: AtomicU64,
    /// Conversations whose text came from another daemon.
    pub texts: AtomicU64,
    /// How often the KV behind such a text was fetched; was computed, because that is quicker; or was computed,
    /// because it could not be fetched.
    pub fetched: AtomicU64,
    pub declined: AtomicU64,
    pub missed: AtomicU64,
    pub failures: AtomicU64,
}

/// A reading of [`SharedCounters`] and of what was measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SharedFigures {
    pub published: u64,
    pub written_bytes: u64,
    pub read_bytes: u64,
    pub texts: u64,
    pub fetched: u64,
    pub declined: u64,
    pub missed: u64,
    pub failures: u64,
    /// 0: not measured yet.
    pub bytes_per_second: u64,
    pub round_trip_micros: u64,
}

/// The place, and how it has behaved. Clones share everything.
#[derive(Clone, Debug)]
pub struct SharedTier {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    store: Arc<dyn ObjectStore>,
    root: Path,
    shown: String,
    sealing: Sealing,
    health: Mutex<Health>,
    meter: Mutex<Meter>,
    counters: SharedCounters,
}

impl SharedTier {
    /// # Errors
    /// When the directory cannot be made, or credentials are missing. Storage that cannot be reached is no
    /// error: it may come later.
    pub fn open(
        place: &SharedPlace,
        endpoint: Option<&str>,
        sealing: Sealing,
    ) -> Result<Self, PlaceError> {
        let (store, root) = place::open(place, endpoint)?;
        let (health, meter) = (Mutex::default(), Mutex::default());
        let (shown, counters) = (place.to_string(), SharedCounters::default());
        let inner = Inner { store, root, shown, sealing, health, meter, counters };
        Ok(Self { inner: Arc::new(inner) })
    }

    pub fn sealing(&self) -> &Sealing {
        &self.inner.sealing
    }

    pub fn counters(&self) -> &SharedCounters {
        &self.inner.counters
    }

    pub fn figures(&self) -> SharedFigures {
        let counters = &self.inner.counters;
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let measured = self.measured();
        SharedFigures {
            published: read(&counters.published),
            written_bytes: read(&counters.written_bytes),
            read_bytes: read(&counters.read_bytes),
            texts: read(&counters.texts),
            fetched: read(&counters.fetched),
            declined: read(&counters.declined),
            missed: read(&counters.missed),
            failures: read(&counters.failures),
            bytes_per_second: measured.bytes_per_second.unwrap_or(0.0) as u64,
            round_trip_micros: u64::try_from(measured.round_trip.as_micros()).unwrap_or(u64::MAX),
        }
    }

    /// The figures for the status, with the place.
    pub fn to_api(&self) -> hob_api::status::SharedTier {
        let figures = self.figures();
        hob_api::status::SharedTier {
            place: self.inner.shown.clone(),
            published: figures.published,
            texts: figures.texts,
            fetched: figures.fetched,
            computed: figures.declined,
            missed: figures.missed,
            failures: figures.failures,
            bytes_per_second: Some(figures.bytes_per_second).filter(|speed| *speed > 0),
            round_trip_ms: figures.round_trip_micros as f64 / 1e3,
        }
    }

    /// Its round trips and its bytes a second, as far as they were measured.
    pub fn measured(&self) -> Measured {
        self.inner.meter.lock().measured()
    }

    /// The version of a file; `None`: there is no such file. For a turn that waits.
    ///
    /// # Errors
    /// As [`SharedError`] says.
    pub async fn stamp(&self, name: &str) -> Result<Option<Stamp>, SharedError> {
        let began = Instant::now();
        let path = self.path(name);
        let found = self.attempt(TURN_TIMEOUT, self.inner.store.head(&path)).await?;
        self.inner.meter.lock().round_trip(began.elapsed());
        Ok(found.map(|meta| Stamp::of_file(&meta)))
    }

    /// A file of `max_bytes` at most, opened, with its version; `None`: there is none.
    ///
    /// # Errors
    /// As [`SharedError`] says.
    pub async fn get(
        &self,
        name: &str,
        max_bytes: u64,
    ) -> Result<Option<(Vec<u8>, Stamp)>, SharedError> {
        let path = self.path(name);
        let unusable = |reason: String| SharedError::Unusable { name: name.to_owned(), reason };
        let Some(found) = self.attempt(TURN_TIMEOUT, self.inner.store.get(&path)).await? else {
            return Ok(None);
        };
        if found.meta.size > max_bytes {
            return Err(unusable(format!("it has {} bytes", found.meta.size)));
        }
        let stamp = Stamp::of_file(&found.meta);
        let bytes = self.attempt(limit(found.meta.size), found.bytes()).await?;
        let Some(bytes) = bytes else { return Ok(None) };
        count(&self.inner.counters.read_bytes, bytes.len());
        let opened = self.inner.sealing.open(name, bytes.into());
        opened.map(|bytes| Some((bytes, stamp))).map_err(|miss| unusable(miss.to_string()))
    }

    /// Reads files at once and measures the place by them, where they are large enough. Stops with the
    /// first error.
    ///
    /// # Errors
    /// As [`SharedError`] says; a file that is missing is unusable.
    pub async fn get_all(&self, files: Vec<(String, u64)>) -> Result<Vec<Vec<u8>>, SharedError> {
        let began = Instant::now();
        let read = files.into_iter().map(|(name, max_bytes)| async move {
            let found = self.get(&name, max_bytes).await?;
            let missing = || SharedError::Unusable { name, reason: "it is missing".to_owned() };
            Ok(found.ok_or_else(missing)?.0)
        });
        let files: Vec<Vec<u8>> = stream::iter(read).buffered(PARALLEL).try_collect().await?;
        let bytes = files.iter().map(|file| file.len() as u64).sum();
        self.inner.meter.lock().transfer(bytes, began.elapsed());
        Ok(files)
    }

    /// Writes a file, sealed; an old one is replaced as a whole.
    ///
    /// # Errors
    /// As [`SharedError`] says.
    pub async fn put(&self, name: &str, clear: Vec<u8>) -> Result<Stamp, SharedError> {
        let sealed = Bytes::from(self.inner.sealing.seal(name, clear));
        let (bytes, path) = (sealed.len(), self.path(name));
        let time = limit(bytes as u64);
        let put = self.attempt(time, self.inner.store.put(&path, sealed.into())).await?;
        count(&self.inner.counters.written_bytes, bytes);
        match put.and_then(|put| put.e_tag) {
            Some(tag) => Ok(Stamp(tag)),
            // A store without tags has a time and a length.
            None => Ok(self.stamp(name).await?.unwrap_or(Stamp(String::new()))),
        }
    }

    /// The names of the files directly in a folder, and those of the folders in it.
    ///
    /// # Errors
    /// As [`SharedError`] says.
    pub async fn list(&self, folder: &str) -> Result<(Vec<String>, Vec<String>), SharedError> {
        let path = self.path(folder);
        let list = self.inner.store.list_with_delimiter(Some(&path));
        let Some(list) = self.attempt(TIMEOUT, list).await? else { return Ok(Default::default()) };
        let name = |path: &Path| path.filename().unwrap_or_default().to_owned();
        let files = list.objects.iter().map(|file| name(&file.location)).collect();
        Ok((files, list.common_prefixes.iter().map(name).collect()))
    }

    /// Deletes a file, if there is one.
    ///
    /// # Errors
    /// As [`SharedError`] says.
    pub async fn delete(&self, name: &str) -> Result<(), SharedError> {
        let path = self.path(name);
        self.attempt(TIMEOUT, self.inner.store.delete(&path)).await.map(drop)
    }

    fn path(&self, name: &str) -> Path {
        let parts = name.split('/').filter(|part| !part.is_empty());
        parts.fold(self.inner.root.clone(), |path, part| path.join(part))
    }

    /// Runs an operation unless the place is paused, and notes how it went. `None`: there is no such file.
    async fn attempt<T>(
        &self,
        time: Duration,
        operation: impl Future<Output = object_store::Result<T>>,
    ) -> Result<Option<T>, SharedError> {
        let health = &self.inner.health;
        if health.lock().is_paused(Instant::now()) {
            return Err(SharedError::Paused);
        }
        let error = match tokio::time::timeout(time, operation).await {
            Ok(Err(object_store::Error::NotFound { .. })) => {
                self.answers();
                return Ok(None);
            }
            Ok(Ok(done)) => {
                self.answers();
                return Ok(Some(done));
            }
            Ok(Err(error)) => SharedError::Store(error),
            Err(_) => SharedError::Late(time),
        };
        self.inner.counters.failures.fetch_add(1, Ordering::Relaxed);
        if health.lock().failed(Instant::now()) {
            tracing::warn!(place = %self.inner.shown, %error, "the shared tier fails; turns go on without it");
        }
        Err(error)
    }

    fn answers(&self) {
        if self.inner.health.lock().succeeded() {
            tracing::info!(place = %self.inner.shown, "the shared tier answers again");
        }
    }
}

fn limit(bytes: u64) -> Duration {
    TIMEOUT + Duration::from_secs(bytes / MIN_BYTES_PER_SEC)
}

fn count(counter: &AtomicU64, more: usize) {
    counter.fetch_add(more as u64, Ordering::Relaxed);
}
