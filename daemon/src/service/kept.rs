//! What lies on disk: listed, pruned, collected, taken in.
//!
//! - Everything that changes files goes through the engine, in one order with what it saves; what is
//!   open is skipped and told.
//! - An archive is received into a file without a name inside the slots directory, bounded by the
//!   free space, and verified whole before any of it counts.

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

use axum::body::Bytes;
use hob_runtime::{EngineStatus, SlotState};
use hob_slots::archive::{Archive, ArchiveError, Imported, Wishes};
use hob_slots::maintenance::{
    self, Context, Live, MaintenanceError, Report, Request, SlotInfo,
};
use hob_slots::store::{SAVE_GRACE, Store, StoreReader};
use hob_slots::usage::{total_bytes, usage};
use hob_slots::{
    AdjustedTime, Listing, LiveRefs, ModelHash, Quarantined, Rejected, StoreError,
};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::service::{Service, compute};
use crate::error::{ApiError, ErrorKind};

/// Bytes that stay free on the disk whatever is uploaded.
pub(crate) const SPARE_BYTES: u64 = 256 << 20;

/// Pieces of an upload that may wait for the disk.
const PIECES: usize = 16;

/// Bytes of an archive that are written before what the engine saves gets its turn.
const STEP_BYTES: u64 = 32 << 20;

/// What is kept.
pub struct KeptList {
    /// Where.
    pub dir: PathBuf,
    /// The conversations.
    pub slots: Vec<SlotInfo>,
    /// Files that cannot be used.
    pub rejected: Vec<Rejected>,
    /// Bytes of slot files and raw objects.
    pub bytes: u64,
    /// Bytes that can still be written.
    pub free_bytes: u64,
}

/// An archive that is being received.
pub struct Upload {
    /// The most bytes that it may have.
    pub most_bytes: u64,
    pieces: mpsc::Sender<Bytes>,
    written: JoinHandle<std::io::Result<File>>,
}

impl Service {
    /// What is kept, of one model or of all, and where each conversation is.
    pub async fn slots(&self, model: Option<ModelHash>) -> Result<KeptList, ApiError> {
        let reader = self.reader()?;
        let live = live(self.engine().fingerprint(), self.engine().status().await?);
        let (moment, lifetimes) = (self.moment(&reader), self.inner.lifetimes);
        compute(move || {
            let mut list = Listing::default();
            for known in reader.models()? {
                if model.is_none_or(|model| model == known) {
                    let Listing { slots, rejected, .. } = reader.contents(known)?;
                    list.slots.extend(slots);
                    list.rejected.extend(rejected);
                }
            }
            let info = |usage| SlotInfo::new(usage, &moment, &lifetimes, Some(&live));
            Ok(KeptList {
                dir: reader.dir().to_owned(),
                slots: usage(&list.slots).iter().map(info).collect(),
                bytes: total_bytes(&list.slots),
                rejected: list.rejected,
                free_bytes: reader.free_bytes()?,
            })
        })
        .await
        .map_err(|error: StoreError| failed(&error))
    }

    /// Prunes, collects, removes or changes a class, on the writer thread of the engine.
    pub async fn maintain(&self, request: Request) -> Result<Report, ApiError> {
        let lifetimes = self.inner.lifetimes;
        let done = self.with_store(move |store, live_refs, now| {
            let context = Context { now: now.clone(), lifetimes, grace: SAVE_GRACE };
            maintenance::run(store, live_refs, &request, &context)
        });
        done.await?.map_err(|error| match error {
            MaintenanceError::Store(error) => failed(&error),
            MaintenanceError::Unusable { .. } => {
                ApiError::new(ErrorKind::Invalid, error.to_string()).code("slot_unusable")
            }
        })
    }

    /// Files that failed, the newest first.
    pub async fn quarantine(&self, model: Option<ModelHash>) -> Result<Vec<Quarantined>, ApiError> {
        let reader = self.reader()?;
        let listed = compute(move || {
            let mut files = Vec::new();
            for known in reader.models()? {
                if model.is_none_or(|model| model == known) {
                    files.extend(reader.quarantined(known)?);
                }
            }
            files.sort_by_key(|file| std::cmp::Reverse(file.since));
            Ok(files)
        });
        listed.await.map_err(|error: StoreError| failed(&error))
    }

    /// Removes files that failed, or tells how many would go, and how many bytes that frees.
    pub async fn empty_quarantine(
        &self,
        model: Option<ModelHash>,
        dry_run: bool,
    ) -> Result<(usize, u64), ApiError> {
        if dry_run {
            let files = self.quarantine(model).await?;
            return Ok((files.len(), files.iter().map(|file| file.bytes).sum()));
        }
        let emptied = self.with_store(move |store, _, _| {
            let (mut files, mut bytes) = (0, 0);
            for known in store.models()? {
                if model.is_none_or(|model| model == known) {
                    let (some, of_them) = store.empty_quarantine(known)?;
                    (files, bytes) = (files + some, bytes + of_them);
                }
            }
            Ok((files, bytes))
        });
        emptied.await?.map_err(|error: StoreError| failed(&error))
    }

    /// Begins to receive an archive.
    pub async fn receive(&self) -> Result<Upload, ApiError> {
        let reader = self.reader()?;
        let opened = compute(move || {
            let dir = reader.temporary_dir();
            private_dir(&dir)?;
            let most_bytes = reader.free_bytes().map_err(std::io::Error::other)?;
            Ok((tempfile::tempfile_in(&dir)?, most_bytes.saturating_sub(SPARE_BYTES)))
        });
        let (mut file, most_bytes) =
            opened.await.map_err(|error: std::io::Error| failed(&error))?;
        let (pieces, mut inbox) = mpsc::channel::<Bytes>(PIECES);
        let written = tokio::task::spawn_blocking(move || {
            while let Some(piece) = inbox.blocking_recv() {
                file.write_all(&piece)?;
            }
            Ok(file)
        });
        Ok(Upload { most_bytes, pieces, written })
    }

    /// Takes in an archive that was received whole.
    pub async fn import(&self, upload: Upload, wishes: Wishes) -> Result<Imported, ApiError> {
        let file = upload.finish().await?;
        let reader = self.reader()?;
        let bundle = compute(move || {
            let bundle = Archive::open(file)?;
            if !wishes.keep_foreign {
                bundle.check_model(&reader)?;
            }
            Ok(bundle)
        });
        let bundle = Arc::new(bundle.await.map_err(|error| refused(&error))?);
        self.take_in(bundle, wishes).await
    }

    /// Takes in what was verified, in steps.
    pub(crate) async fn take_in(
        &self,
        bundle: Arc<Archive>,
        wishes: Wishes,
    ) -> Result<Imported, ApiError> {
        let (mut next, mut written_bytes) = (Some(0), 0);
        while let Some(first) = next {
            let step = bundle.clone();
            let done = self.with_store(move |store, _, _| step.put_some(store, first, STEP_BYTES));
            let (then, bytes) = done.await?.map_err(|error| refused(&error))?;
            (next, written_bytes) = (then, written_bytes + bytes);
        }
        let now = self.now();
        let done = self
            .with_store(move |store, live_refs, _| bundle.put_slots(store, live_refs, wishes, now));
        let mut imported = done.await?.map_err(|error| refused(&error))?;
        imported.written_bytes += written_bytes;
        Ok(imported)
    }

    /// Runs `work` on the writer thread of the engine, in one order with its saves.
    pub(crate) async fn with_store<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Store, &dyn LiveRefs, &AdjustedTime) -> T + Send + 'static,
    ) -> Result<T, ApiError> {
        let moment = self.moment(&self.reader()?);
        Ok(self.engine().maintain(move |store, live_refs| work(store, live_refs, &moment)).await?)
    }

    pub(crate) fn reader(&self) -> Result<StoreReader, ApiError> {
        self.inner.kept.clone().ok_or_else(|| {
            ApiError::not_found("this daemon keeps nothing on disk").code("nothing_kept")
        })
    }

    fn moment(&self, reader: &StoreReader) -> AdjustedTime {
        reader.moment(self.now())
    }
}

impl Upload {
    /// Takes the next piece. Waits while the disk is behind.
    pub async fn push(&self, piece: Bytes) {
        // An error: writing failed, which `finish` tells.
        self.pieces.send(piece).await.ok();
    }

    pub(crate) async fn finish(self) -> Result<File, ApiError> {
        drop(self.pieces);
        let written = self.written.await.map_err(|error| failed(&error))?;
        written.map_err(|error| failed(&error))
    }
}

fn live(fingerprint: ModelHash, status: EngineStatus) -> Live {
    let speaks = |state| !matches!(state, SlotState::Free | SlotState::Idle);
    let slots = status.slots.iter().chain(&status.prefixes);
    Live {
        fingerprint,
        open: slots
            .clone()
            .filter(|slot| speaks(slot.state))
            .filter_map(|slot| slot.conversation.clone())
            .collect(),
        hot: slots.filter_map(|slot| slot.conversation.clone()).collect(),
        parked: status.parked.into_iter().map(|(id, _)| id).collect(),
    }
}

pub(crate) fn failed(error: &dyn std::error::Error) -> ApiError {
    tracing::error!(%error, "kept KV");
    ApiError::internal(error.to_string()).code("slots")
}

pub(crate) fn refused(error: &ArchiveError) -> ApiError {
    match error {
        ArchiveError::Store(_) | ArchiveError::Io(_) => failed(error),
        ArchiveError::Foreign { .. } => {
            ApiError::new(ErrorKind::Invalid, error.to_string()).code("foreign_model")
        }
        _ => ApiError::new(ErrorKind::Invalid, error.to_string()).code("invalid_archive"),
    }
}

pub(crate) fn private_dir(dir: &std::path::Path) -> std::io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(dir)
}
