//! Taking over: reads from the shared tier what another daemon has added to a conversation.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use hob_slots::ConversationId;
use hob_slots::format::{BranchRef, Object, SlotRecord};
use serde_json::Value;
use tokio::time::timeout;

use super::{FORMAT, Options, Sharing, SharingError, VERSION};
use crate::blocking::compute;
use crate::conversations::transcript::{
    ConversationExport, MergedHead, SaveIf, SharedTextHash, TurnTicket,
};
use crate::error::ApiError;
use crate::shared::{PARALLEL, SharedError, admission::Offer, names};
use crate::storage::Adopted;

/// The longest text that is read, with its documents.
const MAX_TEXT_BYTES: u64 = 256 << 20;
const MAX_SLOT_BYTES: u64 = 64 << 20;
/// Objects that are in memory at a time, by their bytes.
const BATCH_BYTES: u64 = 64 << 20;
/// How often the objects of a conversation are fetched. Between the fetch and their record, a deletion may collect
/// them.
const MAX_FETCHES: usize = 2;

/// KV of a conversation in the tier.
struct OfferedKv {
    folder: String,
    record: SlotRecord,
    /// Objects of the record that this daemon lacks.
    missing: Vec<BranchRef>,
}

impl OfferedKv {
    fn offer(&self) -> Offer {
        let missing = || self.missing.iter();
        Offer {
            objects: self.missing.len(),
            bytes: missing().map(|object| object.bytes).sum(),
            tokens: missing().map(|object| (object.end - object.start) as usize).sum(),
        }
    }
}

impl Sharing {
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

    /// Merges the text of the tier; `false`: there is none, or the database contains it. `ticket`: from before the tier
    /// is asked.
    pub(super) async fn take_text(
        &self,
        id: &ConversationId,
        ticket: &TurnTicket,
        head: MergedHead,
    ) -> Result<bool, SharingError> {
        let Options { tier, transcript, daemon, .. } = &self.inner.options;
        if transcript.is_private(id) {
            return Ok(false);
        }
        let name = names::text(tier.sealing(), id);
        let stamp = tier.stamp(&name).await?;
        if stamp.is_none() || stamp == self.inner.known.lock().get(id).cloned() {
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

    /// Fetches the KV of a conversation whose text came from the tier, or decides to compute it.
    async fn take_kv(
        &self,
        id: &ConversationId,
        ticket: &TurnTicket,
        tokens_per_second: Option<f64>,
    ) -> Result<(), SharingError> {
        let Options { tier, engine, transcript, .. } = &self.inner.options;
        let Some(kv) = self.offered_kv(id).await? else { return Ok(()) };
        let speed = match tokens_per_second {
            Some(speed) => Some(speed),
            None => transcript.prefill_speed(engine.fingerprint()).done().await?,
        };
        let offer = kv.offer();
        if offer.is_admitted(tier.measured(), speed) {
            return self.fetch_kv(id, ticket, kv, offer.patience(speed)).await;
        }
        let Offer { bytes, tokens, .. } = offer;
        tier.counters().declined.fetch_add(1, Ordering::Relaxed);
        tracing::info!(conversation = %id, bytes, tokens, "KV of the shared tier: computing is quicker");
        Ok(())
    }

    /// What the tier has of the conversation's KV, for the engine's model; `None`: nothing. Its tokens are saved.
    async fn offered_kv(&self, id: &ConversationId) -> Result<Option<OfferedKv>, SharingError> {
        let Options { tier, engine, transcript, storage, .. } = &self.inner.options;
        let (model, reader) = (engine.fingerprint(), storage.reader()?);
        let folder = names::kv(tier.sealing(), model, id);
        let Some(record) = self.saved_record(id, &folder).await? else { return Ok(None) };
        // The next prompt is then cut into the tokens of this KV, also where this daemon computes it.
        transcript.put_tokens(id, model, record.tokens.clone(), SaveIf::HasText, self.now());
        let (record, missing) = compute(move || {
            let lacks = |object: &BranchRef| !reader.has_object(model, object.id);
            let missing: Vec<BranchRef> = record.placed().filter(lacks).collect();
            (record, missing)
        })
        .await;
        Ok(Some(OfferedKv { folder, record, missing }))
    }

    /// Fetches what is missing, and writes the record to this daemon's disk; for `patience` at most.
    async fn fetch_kv(
        &self,
        id: &ConversationId,
        ticket: &TurnTicket,
        kv: OfferedKv,
        patience: Duration,
    ) -> Result<(), SharingError> {
        let Options { tier, engine, storage, .. } = &self.inner.options;
        let Offer { bytes, tokens, .. } = kv.offer();
        let OfferedKv { folder, record, mut missing } = kv;
        let began = Instant::now();
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
}

/// Maximum size of an object's file with `raw` bytes: sealing adds 16 bytes a mebibyte, and 56.
fn most_bytes(raw: u64) -> u64 {
    raw + (raw >> 14) + 4096
}
