//! Publishing: writes conversations to the shared tier, one at a time.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::time::Duration;

use hob_slots::ConversationId;
use hob_slots::format::BranchRef;
use serde_json::json;
use tokio::time::sleep;

use super::unpublished::Unpublished;
use super::{FORMAT, Options, Sharing, SharingError, VERSION};
use crate::blocking::compute;
use crate::conversations::shareable::text_of;
use crate::conversations::transcript::{MergedHead, SharedTextHash};
use crate::shared::{SharedError, names};

/// Between two attempts to publish.
const RETRY: Duration = Duration::from_secs(1);

impl Sharing {
    /// Publishes what has changed, while the daemon runs.
    pub(super) async fn run(self) {
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
}
