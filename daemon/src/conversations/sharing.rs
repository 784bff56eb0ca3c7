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

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use hob_runtime::Engine;
use hob_slots::format::{BranchRef, Object, SlotRecord};
use hob_slots::{ConversationId, Timestamp};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::{MutexGuard, watch};
use tokio::time::{sleep, timeout};

use super::shareable::text_of;
use super::transcript::{
    ConversationExport, MergedHead, SharedTextHash, Transcript, TranscriptError, TurnTicket,
};
use super::unpublished::Unpublished;
use crate::blocking::compute;
use crate::clock::Clock;
use crate::error::{ApiError, ErrorKind};
use crate::shared::{PARALLEL, SharedError, SharedTier, Stamp, admission::Offer, names};
use crate::storage::{Adopted, Storage};

const FORMAT: &str = "hob shared conversation";
const VERSION: u64 = 1;

/// The longest text that is read, with its documents.
const MAX_TEXT_BYTES: u64 = 256 << 20;
const MAX_SLOT_BYTES: u64 = 64 << 20;
/// Objects that are in memory at a time, by their bytes.
const BATCH_BYTES: u64 = 64 << 20;
/// How often the objects of a conversation are fetched. Between the fetch and their record, a deletion may collect
/// them.
const MAX_FETCHES: usize = 2;
/// Between two attempts to publish.
const RETRY: Duration = Duration::from_secs(1);

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

    /// A conversation has changed: it is published soon.
    pub fn changed(&self, id: &ConversationId) {
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

    /// Reads what another daemon has added to a conversation since this one wrote or read it. Call it in
    /// front of a turn, with the prefill speed, if it is known.
    pub async fn catch_up(&self, id: &ConversationId, tokens_per_second: Option<f64>) {
        let began = Instant::now();
        let Ok(ticket) = self.inner.options.transcript.ticket(id) else { return };
        let is_new = match self.take_text(id, &ticket, MergedHead::Exported).await {
            Ok(is_new) => is_new,
            Err(error) => return self.noted(id, &error),
        };
        let lacks_kv = self.inner.without_kv.lock().remove(id);
        if is_new {
            let ms = began.elapsed().as_millis();
            tracing::info!(conversation = %id, ms, "text from the shared tier");
        } else if !lacks_kv {
            return;
        }
        if let Err(error) = self.take_kv(id, &ticket, tokens_per_second).await {
            self.tier().counters().missed.fetch_add(1, Ordering::Relaxed);
            self.noted(id, &error);
        }
    }

    /// Takes over the text, for a client that reads it or adds to it. The next turn fetches the KV.
    pub async fn catch_up_text(&self, id: &ConversationId) {
        let Ok(ticket) = self.inner.options.transcript.ticket(id) else { return };
        match self.take_text(id, &ticket, MergedHead::Exported).await {
            Ok(true) => {
                self.inner.without_kv.lock().insert(id.clone());
            }
            Ok(false) => {}
            Err(error) => self.noted(id, &error),
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

    async fn run(self) {
        let mut unpublished = self.inner.unpublished.subscribe();
        loop {
            // The sender is in `self`.
            unpublished.wait_for(Unpublished::is_waiting).await.ok();
            let mut next = None;
            self.inner.unpublished.send_modify(|it| next = it.begin());
            let Some(id) = next else { continue };
            let published = self.publish(&id).await;
            let waits = matches!(
                published,
                Err(SharingError::Tier(
                    SharedError::Paused | SharedError::Late(_) | SharedError::Store(_)
                ))
            );
            self.inner.unpublished.send_modify(|it| it.end(waits));
            match published {
                Ok(()) => {}
                Err(_) if waits => sleep(RETRY).await,
                Err(error) => tracing::warn!(conversation = %id, %error, "not published"),
            }
        }
    }

    async fn publish(&self, id: &ConversationId) -> Result<(), SharingError> {
        let Options { tier, engine, transcript, daemon, .. } = &self.inner.options;
        let _writing = self.inner.writing.lock().await;
        if transcript.is_private(id) {
            return Ok(());
        }
        let Ok(ticket) = transcript.ticket(id) else { return Ok(()) };
        engine.save(id.clone()).await;
        // What another daemon added meanwhile is not overwritten. The answer here is the newer one.
        self.take_text(id, &ticket, MergedHead::Stored).await?;
        let Some(text) = text_of(transcript, id).await? else { return Ok(()) };
        let text = json!({
            "format": FORMAT, "version": VERSION, "daemon": daemon, "conversation": text.to_json(),
        });
        let (name, text) = (names::text(tier.sealing(), id), text.to_string().into_bytes());
        let hash = SharedTextHash::of(&text);
        self.record(id, hash).await;
        let stamp = tier.put(&name, text).await?;
        self.inner.known.lock().insert(id.clone(), stamp);
        self.publish_kv(id).await?;
        tier.counters().published.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Writes the objects that the tier lacks, then the slot file; removes those that it names no longer.
    async fn publish_kv(&self, id: &ConversationId) -> Result<(), SharingError> {
        let Options { tier, engine, storage, .. } = &self.inner.options;
        let (reader, model) = (storage.reader()?, engine.fingerprint());
        let (id_there, reader_there) = (id.clone(), reader.clone());
        let found = compute(move || reader_there.get_slot(model, &id_there)).await;
        let Ok(mut record) = found else { return Ok(()) }; // Nothing of it is saved.
        record.branches.clear();
        let folder = names::kv(tier.sealing(), model, id);
        let there: BTreeSet<String> = tier.list(&folder).await?.0.into_iter().collect();
        let mut named = BTreeSet::from([names::SLOT.to_owned()]);
        for BranchRef { kind, id: object, .. } in record.placed() {
            let name = names::object(tier.sealing(), object);
            if !named.insert(name.clone()) || there.contains(&name) {
                continue;
            }
            let reader = reader.clone();
            let read =
                compute(move || reader.get_object(model, object, kind).map(|it| it.encode()));
            let Ok(bytes) = read.await else {
                return Ok(()); // A newer record may have replaced this one: it is published next.
            };
            tier.put(&format!("{folder}{name}"), bytes).await?;
        }
        tier.put(&format!("{folder}{}", names::SLOT), record.encode(model)).await?;
        for stale in there.difference(&named) {
            tier.delete(&format!("{folder}{stale}")).await?;
        }
        Ok(())
    }

    /// Merges the text of the tier; `false`: there is none, or the database contains it. `ticket`: from before the tier
    /// is asked.
    async fn take_text(
        &self,
        id: &ConversationId,
        ticket: &TurnTicket,
        head: MergedHead,
    ) -> Result<bool, SharingError> {
        let Options { tier, transcript, daemon, .. } = &self.inner.options;
        let name = names::text(tier.sealing(), id);
        let stamp = tier.stamp(&name).await?;
        let is_known = stamp.is_none() || stamp == self.inner.known.lock().get(id).cloned();
        if is_known || transcript.is_private(id) {
            return Ok(false);
        }
        let Some((bytes, stamp)) = tier.get(&name, MAX_TEXT_BYTES).await? else { return Ok(false) };
        let parse = move || {
            let text: Value = serde_json::from_slice(&bytes).unwrap_or_default();
            (SharedTextHash::of(&bytes), text)
        };
        let (hash, text) = compute(parse).await;
        let foreign = |reason: String| SharingError::Foreign { name: name.clone(), reason };
        if text["format"] != FORMAT {
            return Err(foreign("it is no conversation of Hob".to_owned()));
        }
        if text["version"] != VERSION {
            return Err(foreign("a later version of Hob wrote it".to_owned()));
        }
        let is_own = text["daemon"] == daemon.as_str();
        let is_contained = transcript.contains_shared_text(id, hash, is_own).done().await?;
        if !is_contained {
            let export = ConversationExport::from_json(&text["conversation"]);
            let export = export.map_err(|error| foreign(error.message))?;
            if export.id.as_deref() != Some(id.as_str()) {
                return Err(foreign("it is another conversation".to_owned()));
            }
            let transcript = transcript.of_turn(Some(ticket.clone()));
            transcript.merge(id.clone(), export, head, self.now()).done().await?;
            tier.counters().texts.fetch_add(1, Ordering::Relaxed);
        }
        self.record(id, hash).await;
        self.inner.known.lock().insert(id.clone(), stamp);
        Ok(!is_contained)
    }

    /// Records that the database contains a text of the tier.
    async fn record(&self, id: &ConversationId, hash: SharedTextHash) {
        let recorded = self.inner.options.transcript.record_shared_text(id, hash).done().await;
        if let Err(error) = recorded {
            tracing::warn!(conversation = %id, %error, "a text of the shared tier is not recorded");
        }
    }

    /// Fetches the KV of a conversation whose text came from the tier, or decides to compute it.
    async fn take_kv(
        &self,
        id: &ConversationId,
        ticket: &TurnTicket,
        tokens_per_second: Option<f64>,
    ) -> Result<(), SharingError> {
        let Options { tier, engine, transcript, storage, .. } = &self.inner.options;
        let (model, reader) = (engine.fingerprint(), storage.reader()?);
        let folder = names::kv(tier.sealing(), model, id);
        let Some(record) = self.saved_record(id, &folder).await? else { return Ok(()) };
        // The next prompt is then cut into the tokens of this KV, also where this daemon computes it.
        transcript.put_tokens(id, model, record.tokens.clone(), true, self.now());

        let (record, missing) = compute(move || {
            let lacks = |object: &BranchRef| !reader.has_object(model, object.id);
            let missing: Vec<BranchRef> = record.placed().filter(lacks).collect();
            (record, missing)
        })
        .await;
        let offer = Offer {
            objects: missing.len(),
            bytes: missing.iter().map(|object| object.bytes).sum(),
            tokens: missing.iter().map(|object| (object.end - object.start) as usize).sum(),
        };
        let speed = match tokens_per_second {
            Some(speed) => Some(speed),
            None => transcript.prefill_speed(model).done().await?,
        };
        let Offer { bytes, tokens, .. } = offer;
        if !offer.is_admitted(tier.measured(), speed) {
            tier.counters().declined.fetch_add(1, Ordering::Relaxed);
            tracing::info!(conversation = %id, bytes, tokens, "KV of the shared tier: computing is quicker");
            return Ok(());
        }
        let (began, patience, mut missing) = (Instant::now(), offer.patience(speed), missing);
        for _ in 0..MAX_FETCHES {
            let left = patience.saturating_sub(began.elapsed());
            match timeout(left, self.fetch(&folder, missing)).await {
                Ok(fetched) => fetched?,
                Err(_) => return Err(SharedError::Late(patience).into()),
            }
            // The conversation's cells end where the other daemon went on; the next turn restores what they had, and more.
            engine.park(id.clone()).await;
            let adopted = storage.adopt_record(record.clone()).await?;
            if ticket.check().is_err() {
                // A deletion that began before this record was written has not seen it.
                engine.forget(id.clone()).await.map_err(ApiError::from)?;
                return Ok(());
            }
            match adopted {
                Adopted::Lacks(objects) => missing = objects,
                Adopted::Written | Adopted::InUse => {
                    tier.counters().fetched.fetch_add(1, Ordering::Relaxed);
                    let ms = began.elapsed().as_millis();
                    tracing::info!(conversation = %id, bytes, tokens, ms, "KV from the shared tier");
                    return Ok(());
                }
            }
        }
        tracing::info!(conversation = %id, "KV of the shared tier was removed here meanwhile");
        Ok(())
    }

    /// The record of the conversation's KV in the tier, for the engine's model; `None`: there is none.
    async fn saved_record(
        &self,
        id: &ConversationId,
        folder: &str,
    ) -> Result<Option<SlotRecord>, SharingError> {
        let Options { tier, engine, .. } = &self.inner.options;
        let name = format!("{folder}{}", names::SLOT);
        let Some((bytes, _)) = tier.get(&name, MAX_SLOT_BYTES).await? else { return Ok(None) };
        let foreign = |reason: String| SharingError::Foreign { name: name.clone(), reason };
        let decoded = compute(move || SlotRecord::decode(&bytes)).await;
        let (model, record) = decoded.map_err(|error| foreign(error.to_string()))?;
        if model != engine.fingerprint() || record.conversation != *id {
            return Err(foreign("it is another conversation's".to_owned()));
        }
        Ok(Some(record))
    }

    /// Fetches objects, verifies them, and writes them to this daemon's disk.
    async fn fetch(&self, folder: &str, missing: Vec<BranchRef>) -> Result<(), SharingError> {
        let Options { tier, engine, storage, .. } = &self.inner.options;
        let model = engine.fingerprint();
        let mut missing = missing.into_iter().peekable();
        while missing.peek().is_some() {
            let (mut batch, mut bytes) = (Vec::new(), 0);
            while let Some(object) =
                missing.next_if(|it| batch.len() < PARALLEL || bytes + it.bytes <= BATCH_BYTES)
            {
                bytes += object.bytes;
                batch.push(object);
            }
            let file = |object: &BranchRef| {
                let name = format!("{folder}{}", names::object(tier.sealing(), object.id));
                (name, most_bytes(object.bytes))
            };
            let files = tier.get_all(batch.iter().map(file).collect()).await?;
            let objects = compute(move || {
                let objects = files.into_iter().zip(&batch).map(|(bytes, wanted)| {
                    let object = Object::decode(bytes).map_err(|error| error.to_string())?;
                    let is_wanted = object.model == model
                        && object.id() == wanted.id
                        && object.kind.in_slot_file() == wanted.kind;
                    is_wanted.then_some(object).ok_or_else(|| "it is another object".to_owned())
                });
                objects.collect::<Result<Vec<_>, String>>()
            });
            let objects = objects
                .await
                .map_err(|reason| SharingError::Foreign { name: folder.to_owned(), reason })?;
            storage.adopt_objects(objects).await?;
        }
        Ok(())
    }

    /// A failure of the place is logged where it happens.
    fn noted(&self, id: &ConversationId, error: &SharingError) {
        match error {
            SharingError::Tier(SharedError::Paused | SharedError::Store(_)) => {}
            error => {
                tracing::warn!(conversation = %id, %error, "nothing taken from the shared tier")
            }
        }
    }

    fn now(&self) -> Timestamp {
        (self.inner.options.clock)()
    }
}

/// Maximum size of an object's file with `raw` bytes: sealing adds 16 bytes a mebibyte, and 56.
fn most_bytes(raw: u64) -> u64 {
    raw + (raw >> 14) + 4096
}
