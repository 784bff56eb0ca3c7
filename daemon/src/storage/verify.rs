//! Reads every byte of the saved KV while requests are answered, and moves damaged files to
//! quarantine.
//!
//! - One thread of the lowest priority reads.
//! - Dropping a verification cancels it.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use hob_runtime::in_the_background;
use hob_slots::store::StoreReader;
use hob_slots::verify::{Cost, Fault, Reading, all_files, condemn, files_of};
use hob_slots::{ConversationId, ModelHash, StoredFile};
use tokio::task::JoinHandle;

use super::{Storage, failed};
use crate::blocking::compute;
use crate::error::ApiError;

/// Between two progress reports.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);

/// Files that one step moves to quarantine; the engine's saves run in between.
const STEP_FILES: usize = 32;

/// A verification in progress.
pub struct Verification {
    progress: Progress,
    /// The bytes of the last progress report.
    reported: Option<u64>,
    shared: Arc<Shared>,
    /// `None` once the result was returned.
    result: Option<JoinHandle<Result<Verified, ApiError>>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    pub done_bytes: u64,
    pub total_bytes: u64,
}

#[derive(Default)]
pub struct Verified {
    /// Files that were read, and their bytes.
    pub files: usize,
    pub bytes: u64,
    /// Files that cannot be used.
    pub faults: Vec<Fault>,
    /// What conversations lose by them.
    pub costs: Vec<Cost>,
    /// Files that were moved to quarantine.
    pub quarantined: usize,
}

pub enum VerifyEvent {
    Progress(Progress),
    /// The last event.
    Done(Verified),
}

#[derive(Default)]
struct Shared {
    done_bytes: AtomicU64,
    is_cancelled: AtomicBool,
}

impl Storage {
    /// Begins to verify all saved KV, or that of one model or conversation.
    ///
    /// # Errors
    /// When the conversation has no saved KV, or the directory cannot be read.
    pub async fn verify(
        &self,
        model: Option<ModelHash>,
        conversation: Option<ConversationId>,
    ) -> Result<Verification, ApiError> {
        let reader = self.reader()?;
        let listing = reader.clone();
        let files = compute(move || {
            let models = listing.models()?;
            let models: Vec<_> =
                models.into_iter().filter(|known| model.is_none_or(|it| it == *known)).collect();
            match conversation {
                Some(id) => files_of(&listing, &models, &id),
                None => all_files(&listing, &models).map(Some),
            }
        });
        let files = files.await.map_err(|error| failed(&error))?.ok_or_else(|| {
            ApiError::not_found("no KV is saved for a conversation of this name")
                .code("conversation_not_found")
        })?;
        let (count, total_bytes) = (files.len(), files.iter().map(|file| file.bytes).sum());
        let shared = Arc::new(Shared::default());
        let (counters, store) = (shared.clone(), reader.clone());
        let reading = tokio::task::spawn_blocking(move || {
            in_the_background(|| {
                Reading::of(&store, &files, 1, &|file| {
                    counters.done_bytes.fetch_add(file.bytes, Ordering::Relaxed);
                    if counters.is_cancelled() {
                        ControlFlow::Break(())
                    } else {
                        ControlFlow::Continue(())
                    }
                })
            })
        });
        let (storage, counters) = (self.clone(), shared.clone());
        let result = tokio::spawn(async move {
            let reading = reading.await.map_err(|error| failed(&error))?;
            if counters.is_cancelled() {
                return Ok(Verified::default());
            }
            let (faults, costs, quarantined) =
                storage.quarantine_damaged(reading, reader, &counters).await?;
            Ok(Verified { files: count, bytes: total_bytes, faults, costs, quarantined })
        });
        let progress = Progress { done_bytes: 0, total_bytes };
        Ok(Verification { progress, reported: None, shared, result: Some(result) })
    }

    async fn quarantine_damaged(
        &self,
        mut reading: Reading,
        reader: StoreReader,
        shared: &Shared,
    ) -> Result<(Vec<Fault>, Vec<Cost>, usize), ApiError> {
        let costs = compute(move || {
            let costs = reading.costs(&reader);
            (reading.faults, costs)
        });
        let (faults, costs) = costs.await;
        let damaged = faults.iter().filter(|fault| fault.condemned);
        let damaged: Vec<StoredFile> = damaged.map(|fault| fault.file.clone()).collect();
        let mut quarantined = 0;
        for step in damaged.chunks(STEP_FILES).take_while(|_| !shared.is_cancelled()) {
            let step = step.to_vec();
            quarantined += self
                .with_store(move |store, live_refs, _| condemn(store, live_refs, &step))
                .await?;
        }
        Ok((faults, costs, quarantined))
    }
}

impl Shared {
    fn is_cancelled(&self) -> bool {
        self.is_cancelled.load(Ordering::Relaxed)
    }
}

impl Verification {
    /// Progress at once and after each change, then the result. Dropping the future loses nothing.
    pub async fn next(&mut self) -> Option<Result<VerifyEvent, ApiError>> {
        if self.reported.is_none() {
            return Some(Ok(self.report(0)));
        }
        loop {
            let ended = tokio::time::timeout(PROGRESS_INTERVAL, self.result.as_mut()?).await;
            let done = self.shared.done_bytes.load(Ordering::Relaxed);
            match ended {
                Err(_) if self.reported == Some(done) => {}
                Err(_) => return Some(Ok(self.report(done))),
                Ok(result) => {
                    self.result = None;
                    let result = result.map_err(|error| failed(&error)).flatten();
                    return Some(result.map(VerifyEvent::Done));
                }
            }
        }
    }

    fn report(&mut self, done_bytes: u64) -> VerifyEvent {
        self.reported = Some(done_bytes);
        self.progress.done_bytes = done_bytes;
        VerifyEvent::Progress(self.progress)
    }
}

impl Drop for Verification {
    fn drop(&mut self) {
        self.shared.is_cancelled.store(true, Ordering::Relaxed);
    }
}
