//! Reads every byte that is kept, while others are answered, and puts away what is damaged.
//!
//! - One thread of the lowest priority reads; answers have the cores first.
//! - Dropping a verification breaks it off.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use hob_runtime::in_the_background;
use hob_slots::store::StoreReader;
use hob_slots::verify::{Cost, Fault, Reading, all_files, condemn, files_of};
use hob_slots::{ConversationId, ModelHash, StoredFile};
use tokio::task::JoinHandle;

use super::kept::failed;
use super::{Service, compute};
use crate::error::ApiError;

/// Between two words about how far it is.
const BETWEEN_WORDS: Duration = Duration::from_millis(100);

/// Files that are put away before what the engine saves gets its turn.
const STEP_FILES: usize = 32;

/// A verification under way.
pub struct Verification {
    progress: Progress,
    told: Option<u64>,
    shared: Arc<Shared>,
    /// `None` when its end was told.
    ends: Option<JoinHandle<Result<Verified, ApiError>>>,
}

/// How far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Bytes that were read.
    pub done_bytes: u64,
    /// And are to be read altogether.
    pub total_bytes: u64,
}

/// What came of it.
#[derive(Default)]
pub struct Verified {
    /// Files that were read.
    pub files: usize,
    /// Their bytes.
    pub bytes: u64,
    /// Those that cannot be used.
    pub faults: Vec<Fault>,
    /// What that costs.
    pub costs: Vec<Cost>,
    /// How many of them were put away.
    pub quarantined: usize,
}

/// What a verification tells.
pub enum Told {
    /// How far it is.
    Progress(Progress),
    /// What came of it: nothing follows.
    Done(Verified),
}

#[derive(Default)]
struct Shared {
    done_bytes: AtomicU64,
    given_up: AtomicBool,
}

impl Service {
    /// Begins to read all that is kept, or what one conversation is made of.
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
            ApiError::not_found("no KV of a conversation of this name is kept")
                .code("conversation_not_found")
        })?;
        let (count, total_bytes) = (files.len(), files.iter().map(|file| file.bytes).sum());
        let shared = Arc::new(Shared::default());
        let (beside, store) = (shared.clone(), reader.clone());
        let reading = tokio::task::spawn_blocking(move || {
            in_the_background(|| {
                Reading::of(&store, &files, 1, &|file| {
                    beside.done_bytes.fetch_add(file.bytes, Ordering::Relaxed);
                    match beside.is_given_up() {
                        true => ControlFlow::Break(()),
                        false => ControlFlow::Continue(()),
                    }
                })
            })
        });
        let (service, beside) = (self.clone(), shared.clone());
        let ends = tokio::spawn(async move {
            let reading = reading.await.map_err(|error| failed(&error))?;
            if beside.is_given_up() {
                return Ok(Verified::default()); // Nobody hears it.
            }
            let (faults, costs, quarantined) = service.conclude(reading, reader, &beside).await?;
            Ok(Verified { files: count, bytes: total_bytes, faults, costs, quarantined })
        });
        let progress = Progress { done_bytes: 0, total_bytes };
        Ok(Verification { progress, told: None, shared, ends: Some(ends) })
    }

    /// What the faults cost; and puts away what is damaged.
    async fn conclude(
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
        for some in damaged.chunks(STEP_FILES).take_while(|_| !shared.is_given_up()) {
            let some = some.to_vec();
            quarantined +=
                self.maintain(move |store, live_refs, _| condemn(store, live_refs, &some)).await?;
        }
        Ok((faults, costs, quarantined))
    }
}

impl Shared {
    fn is_given_up(&self) -> bool {
        self.given_up.load(Ordering::Relaxed)
    }
}

impl Verification {
    /// How far it is, at once and then whenever there is more, and at last what came of it. Dropping
    /// this future loses nothing.
    pub async fn next(&mut self) -> Option<Result<Told, ApiError>> {
        if self.told.is_none() {
            return Some(Ok(self.tell(0)));
        }
        loop {
            let ended = tokio::time::timeout(BETWEEN_WORDS, self.ends.as_mut()?).await;
            let done = self.shared.done_bytes.load(Ordering::Relaxed);
            match ended {
                Err(_) if self.told == Some(done) => {}
                Err(_) => return Some(Ok(self.tell(done))),
                Ok(end) => {
                    self.ends = None;
                    let end = end.map_err(|error| failed(&error)).flatten();
                    return Some(end.map(Told::Done));
                }
            }
        }
    }

    fn tell(&mut self, done_bytes: u64) -> Told {
        self.told = Some(done_bytes);
        self.progress.done_bytes = done_bytes;
        Told::Progress(self.progress)
    }
}

impl Drop for Verification {
    fn drop(&mut self) {
        self.shared.given_up.store(true, Ordering::Relaxed);
    }
}
