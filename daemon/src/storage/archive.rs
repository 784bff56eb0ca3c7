//! Archives of KV: received, verified, imported.
//!
//! - An upload is written to an unnamed file in the slots directory, bounded by the free space, and
//!   verified completely before any of it is imported.
//! - An import is split into steps, so that the engine's saves run in between.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use axum::body::Bytes;
use hob_slots::archive::{Archive, ArchiveError, ImportOptions, Imported};
use hob_slots::store::{StoreError, StoreReader};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::{Storage, failed};
use crate::blocking::compute;
use crate::error::{ApiError, ErrorKind};
use crate::private_dir;

/// Uploads leave this much of the disk free.
pub(crate) const SPARE_BYTES: u64 = 256 << 20;

/// Pieces of an upload that may wait for the disk.
const MAX_QUEUED_PIECES: usize = 16;

/// Bytes that one step of an import writes.
const STEP_BYTES: u64 = 32 << 20;

/// Objects that one step writes: each is synced, and a stop waits for the step.
const STEP_OBJECTS: usize = 256;

/// An archive that is being received.
pub struct Upload {
    pub max_bytes: u64,
    pieces: mpsc::Sender<Bytes>,
    written: JoinHandle<Result<File, StoreError>>,
}

impl Storage {
    /// Begins to receive an archive.
    ///
    /// # Errors
    /// When the disk cannot be written.
    pub async fn receive(&self) -> Result<Upload, ApiError> {
        let reader = self.reader()?;
        let dir = reader.temporary_dir();
        let opened = compute(move || {
            let max_bytes = reader.free_bytes()?;
            Ok((unnamed_file(&reader)?, max_bytes.saturating_sub(SPARE_BYTES)))
        });
        let (mut file, max_bytes) = opened.await.map_err(|error: StoreError| failed(&error))?;
        let (pieces, mut queued) = mpsc::channel::<Bytes>(MAX_QUEUED_PIECES);
        let written = tokio::task::spawn_blocking(move || {
            while let Some(piece) = queued.blocking_recv() {
                file.write_all(&piece).map_err(|error| in_directory(&dir, error))?;
            }
            Ok(file)
        });
        Ok(Upload { max_bytes, pieces, written })
    }

    /// Imports a received archive.
    ///
    /// # Errors
    /// When the archive is invalid, of an unknown model, or cannot be written.
    pub async fn import(
        &self,
        upload: Upload,
        options: ImportOptions,
    ) -> Result<Imported, ApiError> {
        let file = upload.finish().await?;
        let reader = self.reader()?;
        let archive = compute(move || {
            let archive = Archive::open(file)?;
            if !options.keep_foreign {
                archive.check_model(&reader)?;
            }
            Ok(archive)
        });
        let archive = Arc::new(archive.await.map_err(|error| refused(&error))?);
        self.import_verified(archive, options).await
    }

    pub(crate) async fn import_verified(
        &self,
        archive: Arc<Archive>,
        options: ImportOptions,
    ) -> Result<Imported, ApiError> {
        let (mut next, mut written_bytes) = (Some(0), 0);
        while let Some(first) = next {
            let step = archive.clone();
            let done = self.with_store(move |store, _, _| {
                step.put_some(store, first, STEP_OBJECTS, STEP_BYTES)
            });
            let (then, bytes) = done.await?.map_err(|error| refused(&error))?;
            (next, written_bytes) = (then, written_bytes + bytes);
        }
        let now = self.now();
        let done = self.with_store(move |store, live_refs, _| {
            archive.put_slots(store, live_refs, options, now)
        });
        let mut imported = done.await?.map_err(|error| refused(&error))?;
        imported.written_bytes += written_bytes;
        Ok(imported)
    }
}

impl Upload {
    /// Queues the next piece; waits while the disk is behind.
    pub async fn push(&self, piece: Bytes) {
        // An error: writing failed, which `finish` reports.
        self.pieces.send(piece).await.ok();
    }

    pub(crate) async fn finish(self) -> Result<File, ApiError> {
        drop(self.pieces);
        let written = self.written.await.map_err(|error| failed(&error))?;
        written.map_err(|error| failed(&error))
    }
}

/// A file in the slots directory that disappears with its handle.
pub(crate) fn unnamed_file(reader: &StoreReader) -> Result<File, StoreError> {
    let dir = reader.temporary_dir();
    let created = private_dir::create(&dir).and_then(|()| tempfile::tempfile_in(&dir));
    created.map_err(|error| in_directory(&dir, error))
}

/// The error of an unnamed file, with its directory.
pub(crate) fn in_directory(dir: &Path, source: io::Error) -> StoreError {
    StoreError::Io { doing: "write a file in", path: dir.to_owned(), source }
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
