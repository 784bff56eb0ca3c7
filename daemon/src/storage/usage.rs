//! What memory and disk hold, and the map of the KV cells.
//!
//! - A figure that is not known is `None`.
//! - A watch of the cells sends a map after each change, at most ten a second.

use std::time::Duration;

use hob_models::MachineMemory;
use hob_runtime::{CacheMap, Engine, EngineStatus};
use hob_slots::StoreError;
use hob_slots::store::StoreReader;
use hob_slots::usage::total_bytes;
use serde::Serialize;
use tokio::sync::watch;
use tokio::time::Instant;

use super::quota::{QuotaError, SetQuota};
use super::{Storage, failed};
use crate::blocking::compute;
use crate::error::{ApiError, ErrorKind};

/// Between two maps of one watch.
const MAP_INTERVAL: Duration = Duration::from_millis(100);

pub struct Memory {
    pub machine: Option<MachineMemory>,
    /// Whether the weights are resident or not.
    pub weights_bytes: u64,
    pub status: EngineStatus,
    /// Size of all cells.
    pub cells_bytes: Option<u64>,
    /// Size of one cell; `None` where cells differ in size.
    pub bytes_per_token: Option<u64>,
    /// `None`: no KV on disk.
    pub disk: Option<DiskUse>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DiskUse {
    /// Size of slot files and raw objects.
    pub bytes: u64,
    pub quota_bytes: u64,
    /// The quota as it is set; `None`: the default, computed from the disk.
    pub quota_set_bytes: Option<u64>,
    /// What sets it: `default`, a file, a variable or a flag.
    pub quota_origin: String,
    /// Whether a flag or a variable sets it, so that a request cannot.
    pub quota_fixed: bool,
    /// Bytes that can still be written.
    pub free_bytes: u64,
}

/// A stream of maps.
pub struct CellWatch {
    engine: Engine,
    changes: watch::Receiver<u64>,
    closing: watch::Receiver<bool>,
    /// There is a change that was not sent.
    is_due: bool,
    /// When the next map may be sent.
    earliest: Instant,
}

impl Storage {
    /// What memory and disk hold now.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn memory(&self) -> Result<Memory, ApiError> {
        let options = self.options();
        let status = options.engine.cell_status().await?;
        let (reader, quota) = (options.reader.clone(), options.quota.as_set());
        let estimate = options.estimate;
        let disk = compute(move || reader.map(|reader| disk_use(&reader, quota)).transpose());
        let facts = options.engine.model().facts();
        Ok(Memory {
            disk: disk.await.map_err(|error| failed(&error))?,
            machine: MachineMemory::read(),
            weights_bytes: facts.size_bytes,
            cells_bytes: estimate.map(|estimate| estimate.kv_bytes),
            bytes_per_token: estimate
                .filter(|_| facts.memory.is_plain())
                .map(|estimate| estimate.kv_bytes_per_token),
            status,
        })
    }

    /// What the disk holds now, under which quota.
    ///
    /// # Errors
    /// When the store cannot be read, or this daemon stores no KV.
    pub async fn disk(&self) -> Result<DiskUse, ApiError> {
        let (reader, quota) = (self.reader()?, self.quota().as_set());
        compute(move || disk_use(&reader, quota)).await.map_err(|error| failed(&error))
    }

    /// Sets the disk quota for now and for later starts; 0 stands for the default.
    ///
    /// # Errors
    /// When a flag or a variable sets it, or the configuration file cannot be written.
    pub async fn set_quota(&self, bytes: u64) -> Result<DiskUse, ApiError> {
        let quota = self.quota().clone();
        let set = compute(move || quota.set(bytes)).await;
        set.map_err(|error| match &error {
            QuotaError::Fixed { .. } => {
                ApiError::new(ErrorKind::Conflict, error.to_string()).code("quota_is_fixed")
            }
            QuotaError::Unwritable(cause) => ApiError::internal(error.to_string())
                .code("config_unwritable")
                .unless_disk_full(cause),
        })?;
        self.disk().await
    }

    /// The map of the cells now.
    ///
    /// # Errors
    /// When the engine has stopped.
    pub async fn cells(&self) -> Result<CacheMap, ApiError> {
        Ok(self.options().engine.map().await?)
    }

    /// Watches the cells until [`Self::end_watches`].
    pub fn watch_cells(&self) -> CellWatch {
        let engine = self.options().engine.clone();
        let (changes, closing) = (engine.changes(), self.shared.closing.subscribe());
        CellWatch { engine, changes, closing, is_due: true, earliest: Instant::now() }
    }

    /// Ends every watch of the cells: the daemon shuts down.
    pub fn end_watches(&self) {
        self.shared.closing.send_replace(true);
    }
}

impl CellWatch {
    /// The first map at once, then one after each change; `None` at the end. Dropping the future
    /// loses nothing.
    pub async fn next(&mut self) -> Option<CacheMap> {
        tokio::select! {
            biased;
            _ = self.closing.wait_for(|closing| *closing) => return None,
            is_due = async {
                if !self.is_due {
                    tokio::time::sleep_until(self.earliest).await;
                    self.is_due = self.changes.changed().await.is_ok();
                }
                self.is_due
            } => is_due.then_some(())?,
        }
        let map = self.engine.map().await.ok()?;
        self.is_due = false;
        self.earliest = Instant::now() + MAP_INTERVAL;
        Some(map)
    }
}

fn disk_use(reader: &StoreReader, set: SetQuota) -> Result<DiskUse, StoreError> {
    let mut slots = Vec::new();
    for model in reader.models()? {
        slots.extend(reader.contents(model)?.slots);
    }
    let (bytes, free_bytes) = (total_bytes(&slots), reader.free_bytes()?);
    Ok(DiskUse {
        bytes,
        quota_bytes: set.quota.bytes(bytes, free_bytes),
        quota_set_bytes: set.quota.set_bytes(),
        quota_origin: set.origin,
        quota_fixed: set.is_fixed,
        free_bytes,
    })
}
