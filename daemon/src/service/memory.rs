//! How much memory and disk is used, and what lies in the cells of the cache.
//!
//! - A figure that is not known is told as not known.
//! - Whoever watches the cells hears of them when something has changed, ten times a second at
//!   most, and nothing while nothing does.

use std::collections::BTreeMap;
use std::time::Duration;

use hob_models::{Estimate, MachineMemory};
use hob_runtime::{CacheMap, EngineStatus};
use hob_slots::prune::total_bytes;
use hob_slots::store::StoreReader;
use hob_slots::{ConversationId, Quota, StoreError};
use tokio::sync::watch;
use tokio::time::Instant;

use super::kept::failed;
use super::{Service, compute};
use crate::error::ApiError;

/// Between two maps for somebody who watches.
const BETWEEN_MAPS: Duration = Duration::from_millis(100);

/// What is known of memory and does not change.
#[derive(Clone, Copy, Debug, Default)]
pub struct Shape {
    /// What the model takes; `None` where its file is not known.
    pub estimate: Option<Estimate>,
    /// What may be kept on disk.
    pub quota: Quota,
}

/// What memory and disk hold.
pub struct Memory {
    /// The machine's, where it tells.
    pub machine: Option<MachineMemory>,
    /// Bytes of the weights, in memory or not.
    pub weights_bytes: u64,
    /// What the engine holds.
    pub status: EngineStatus,
    /// Bytes of all cells, where that is known.
    pub cells_bytes: Option<u64>,
    /// Bytes of one cell, where all are alike.
    pub bytes_per_token: Option<u64>,
    /// What is kept on disk, if anything is.
    pub disk: Option<DiskUse>,
}

/// What is kept on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskUse {
    /// Bytes of slot files and raw objects.
    pub bytes: u64,
    /// How many there may be.
    pub quota_bytes: u64,
    /// Bytes that can still be written.
    pub free_bytes: u64,
}

/// The map of the cells, with what its conversations are called.
pub struct NamedMap {
    /// The map.
    pub map: CacheMap,
    /// Titles of conversations that have one.
    pub titles: BTreeMap<ConversationId, String>,
}

/// Somebody who watches the cells.
pub struct CellWatch {
    service: Service,
    changes: watch::Receiver<u64>,
    over: watch::Receiver<bool>,
    /// Something is new, and not told yet.
    due: bool,
    /// When the next map may be told.
    earliest: Instant,
}

impl Service {
    /// What memory and disk hold now.
    pub async fn memory(&self) -> Result<Memory, ApiError> {
        let status = self.engine().status().await?;
        let (shape, kept) = (self.inner.shape, self.inner.kept.clone());
        let disk = compute(move || kept.map(|reader| disk_use(&reader, shape.quota)).transpose());
        let facts = self.engine().model().facts();
        let estimate = shape.estimate;
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

    /// What lies in the cells now.
    pub async fn cells(&self) -> Result<NamedMap, ApiError> {
        let map = self.engine().map().await?;
        let slots = map.slots.iter().filter_map(|slot| slot.conversation.clone());
        let left = map.left.iter().filter_map(|left| left.conversation.clone());
        let titles = self.inner.transcript.titles(slots.chain(left).collect()).done().await?;
        Ok(NamedMap { map, titles })
    }

    /// Tells what lies in the cells, now and whenever that changes.
    pub fn watch_cells(&self) -> CellWatch {
        let (changes, over) = (self.engine().changes(), self.inner.over.subscribe());
        CellWatch { service: self.clone(), changes, over, due: true, earliest: Instant::now() }
    }

    /// Whoever watches hears nothing more: the daemon is about to end.
    pub fn end_watching(&self) {
        self.inner.over.send_replace(true);
    }
}

impl CellWatch {
    /// The first map at once, the next one when there is something new; `None` at the end. Dropping
    /// this future loses nothing.
    pub async fn next(&mut self) -> Option<NamedMap> {
        tokio::select! {
            biased;
            _ = self.over.wait_for(|over| *over) => return None,
            due = async {
                if !self.due {
                    tokio::time::sleep_until(self.earliest).await;
                    self.due = self.changes.changed().await.is_ok();
                }
                self.due
            } => due.then_some(())?,
        }
        let map = self.service.cells().await.ok()?;
        self.due = false;
        self.earliest = Instant::now() + BETWEEN_MAPS;
        Some(map)
    }
}

fn disk_use(reader: &StoreReader, quota: Quota) -> Result<DiskUse, StoreError> {
    let mut slots = Vec::new();
    for model in reader.models()? {
        slots.extend(reader.contents(model)?.slots);
    }
    let (bytes, free_bytes) = (total_bytes(&slots), reader.free_bytes()?);
    Ok(DiskUse { bytes, quota_bytes: quota.bytes(bytes, free_bytes), free_bytes })
}
