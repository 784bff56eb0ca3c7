//! Conversations that several daemons answer in turn, through the shared tier.
//!
//! - *Publishing*: behind each turn, once the engine has written its KV to this daemon's disk, a loop of its
//!   own writes the text, then the KV: objects first, the slot file last. No turn waits for it. What the
//!   tier refuses is written again later.
//! - *Catching up*: in front of a turn, one look says whether the tier has a text that this database does not
//!   contain: another daemon has written the conversation since, or this one before the database was restored from a
//!   backup. If so, its messages are merged into the ones here: none is lost on either side. Its KV is fetched
//!   where that is quicker than to compute it, and verified like bytes from disk.
//! - No failure of the tier fails a turn.
//! - What arrives after the conversation was deleted here is dropped.
//! - Private conversations never leave, nor does the KV of requests that keep it in memory, nor KV without
//!   text. Of a conversation's KV, that of its newest branch is shared.
//! - There is no lock between daemons: a proxy sends a conversation to one at a time. Where two answer it
//!   at the same time, each keeps its own answer, and the tier has the text of the one that wrote last.
//!
//! This file has the handle and deletions, `publish` the loop that writes (with `unpublished`, what it has yet to),
//! `take_over` what a daemon reads.

mod publish;
mod take_over;
mod unpublished;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use hob_runtime::Engine;
use hob_slots::{ConversationId, Timestamp};
use parking_lot::Mutex;
use tokio::sync::{MutexGuard, watch};
use tokio::time::timeout;

use super::transcript::{SharedTextHash, Transcript, TranscriptError};
use crate::clock::Clock;
use crate::error::{ApiError, ErrorKind};
use crate::shared::{SharedError, SharedTier, Stamp, names};
use crate::storage::Storage;
use unpublished::Unpublished;

/// Of the texts in the tier.
const FORMAT: &str = "hob shared conversation";
const VERSION: u64 = 1;

/// Why something was neither published nor fetched.
#[derive(Debug, thiserror::Error)]
enum SharingError {
    #[error(transparent)]
    Tier(#[from] SharedError),
    #[error(transparent)]
    Text(#[from] TranscriptError),
    #[error("{0}")]
    Here(ApiError),
    #[error("{name} in the shared tier is not what its name says: {reason}")]
    Foreign { name: String, reason: String },
}

impl From<ApiError> for SharingError {
    fn from(error: ApiError) -> Self {
        Self::Here(error)
    }
}

pub struct Options {
    pub tier: SharedTier,
    /// Names this daemon among those that write there.
    pub daemon: String,
    pub engine: Engine,
    pub transcript: Transcript,
    pub storage: Storage,
    pub clock: Clock,
}

/// Clones share everything.
#[derive(Clone)]
pub struct Sharing {
    inner: Arc<Inner>,
}

struct Inner {
    options: Options,
    /// The texts that this daemon wrote or merged last.
    known: Mutex<HashMap<ConversationId, Stamp>>,
    /// Conversations whose text came for a client that read it or added to it. Their next turn fetches the KV.
    without_kv: Mutex<BTreeSet<ConversationId>>,
    unpublished: watch::Sender<Unpublished>,
    /// Held while files of the tier change.
    writing: tokio::sync::Mutex<()>,
}

/// Conversations are deleted in the tier. Nothing is published until this is dropped.
pub struct Unshared<'s> {
    /// Whether the tier had one of them.
    pub found: bool,
    _writing: MutexGuard<'s, ()>,
}

impl Sharing {
    /// Starts the loop that publishes.
    pub fn start(options: Options) -> Self {
        let (known, without_kv) = (Mutex::default(), Mutex::default());
        let (unpublished, writing) =
            (watch::Sender::new(Unpublished::default()), tokio::sync::Mutex::default());
        let inner = Inner { options, known, without_kv, unpublished, writing };
        let this = Self { inner: Arc::new(inner) };
        tokio::spawn(this.clone().run());
        this
    }

    pub fn tier(&self) -> &SharedTier {
        &self.inner.options.tier
    }

    /// A conversation has changed: it is published soon, unless it is private.
    pub fn changed(&self, id: &ConversationId) {
        if self.inner.options.transcript.is_private(id) {
            return;
        }
        self.inner.unpublished.send_if_modified(|it| it.add(id));
    }

    /// Waits until everything is published, for `patience` at most.
    pub async fn flush(&self, patience: Duration) {
        let mut unpublished = self.inner.unpublished.subscribe();
        let done = unpublished.wait_for(Unpublished::is_done);
        if timeout(patience, done).await.is_err() {
            let conversations = self.inner.unpublished.borrow().waiting();
            tracing::warn!(conversations, "not published to the shared tier before the end");
        }
    }

    /// Deletes texts and KV of conversations in the tier.
    ///
    /// # Errors
    /// When the tier cannot be changed: it may still have them.
    pub async fn delete(&self, ids: &[ConversationId]) -> Result<Unshared<'_>, ApiError> {
        let writing = self.inner.writing.lock().await;
        let mut found = false;
        for id in ids {
            found |= self.delete_all(id).await.map_err(|error| {
                let message = format!(
                    "the shared tier may still have it, so it is not deleted here either: delete it \
                     again when the tier answers ({error})"
                );
                ApiError::new(ErrorKind::Busy, message).code("shared_tier")
            })?;
        }
        Ok(Unshared { found, _writing: writing })
    }

    /// Whether the tier had anything of the conversation.
    async fn delete_all(&self, id: &ConversationId) -> Result<bool, SharedError> {
        let (tier, sealing) = (self.tier(), self.tier().sealing());
        let text = names::text(sealing, id);
        let mut found = tier.stamp(&text).await?.is_some();
        tier.delete(&text).await?;
        for model in tier.list(names::KV).await?.1 {
            let folder = names::kv_of(sealing, &model, id);
            for file in tier.list(&folder).await?.0 {
                tier.delete(&format!("{folder}{file}")).await?;
                found = true;
            }
        }
        self.inner.known.lock().remove(id);
        self.inner.without_kv.lock().remove(id);
        self.inner.unpublished.send_if_modified(|it| it.remove(id));
        Ok(found)
    }

    /// Records that the database contains a text of the tier.
    async fn record(&self, id: &ConversationId, hash: SharedTextHash) {
        let recorded = self.inner.options.transcript.record_shared_text(id, hash).done().await;
        if let Err(error) = recorded {
            tracing::warn!(conversation = %id, %error, "a text of the shared tier is not recorded");
        }
    }

    fn now(&self) -> Timestamp {
        (self.inner.options.clock)()
    }
}
