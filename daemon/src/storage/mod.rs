//! KV on disk, and what memory and disk hold.
//!
//! Reading order: this file (the handle), [`maintenance`] (list, prune, collect, remove), [`archive`] (import),
//! `adopt` (KV of another daemon), [`verify`] (reads and checks every byte), [`usage`] (bytes, and the map of the
//! cells), [`quota`] (as it is set), [`sweep`] (the loop around the sweep), `saved` (which conversations are on
//! disk).
//!
//! - Every change of files runs on the engine's writer thread, in one order with its saves, and
//!   skips KV that is in use.

mod adopt;
pub mod archive;
pub mod maintenance;
pub mod quota;
mod saved;
pub mod sweep;
pub mod usage;
pub mod verify;

use std::sync::Arc;

use hob_models::Estimate;
use hob_runtime::Engine;
use hob_slots::store::{ListingCache, Store, StoreReader};
use hob_slots::{AdjustedTime, ClockTracker, Lifetimes, LiveRefs, Timestamp};
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::clock::Clock;
use crate::error::ApiError;
pub use adopt::Adopted;
use quota::DiskQuota;

/// What [`Storage`] is made of.
pub struct Options {
    pub engine: Engine,
    /// `None`: no KV on disk.
    pub reader: Option<StoreReader>,
    pub lifetimes: Lifetimes,
    pub quota: DiskQuota,
    /// The memory that the model needs; `None` if its file is unknown.
    pub estimate: Option<Estimate>,
    pub clock: Clock,
}

/// The store and the memory of the engine. Clones share everything.
#[derive(Clone)]
pub struct Storage {
    shared: Arc<Shared>,
}

struct Shared {
    options: Options,
    listing_cache: Mutex<ListingCache>,
    /// `true` ends every [`usage::CellWatch`].
    closing: watch::Sender<bool>,
}

impl Storage {
    pub fn new(options: Options) -> Self {
        let (listing_cache, closing) = (Mutex::default(), watch::Sender::new(false));
        Self { shared: Arc::new(Shared { options, listing_cache, closing }) }
    }

    /// Now, without the time that the clock jumped over.
    pub fn adjusted_now(&self) -> AdjustedTime {
        match &self.options().reader {
            Some(reader) => reader.adjusted_time(self.now()),
            None => self.now().into(),
        }
    }

    /// The jumps of the clock that are written down.
    pub fn clock_tracker(&self) -> ClockTracker {
        let reader = self.options().reader.as_ref();
        reader.map(StoreReader::clock_tracker).unwrap_or_default()
    }

    pub fn quota(&self) -> &DiskQuota {
        &self.options().quota
    }

    /// # Errors
    /// When this daemon stores no KV.
    pub fn reader(&self) -> Result<StoreReader, ApiError> {
        self.options().reader.clone().ok_or_else(|| {
            ApiError::not_found("this daemon keeps nothing on disk").code("nothing_kept")
        })
    }

    /// Runs `work` on the writer thread of the engine, in one order with its saves.
    pub(crate) async fn with_store<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Store, &dyn LiveRefs, &AdjustedTime) -> T + Send + 'static,
    ) -> Result<T, ApiError> {
        let now = self.reader()?.adjusted_time(self.now());
        let engine = &self.options().engine;
        Ok(engine.maintain(move |store, live_refs| work(store, live_refs, &now)).await?)
    }

    fn options(&self) -> &Options {
        &self.shared.options
    }

    fn now(&self) -> Timestamp {
        (self.options().clock)()
    }
}

/// The answer to a request that the store cannot serve.
pub(crate) fn failed(error: &(dyn std::error::Error + 'static)) -> ApiError {
    tracing::error!(%error, "store");
    ApiError::internal(error.to_string()).code("slots").unless_disk_full(error)
}
