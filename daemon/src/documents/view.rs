//! What a document costs, and what of it is ready.

use hob_api::Document;
use hob_slots::{Timestamp, TtlClass};

use super::Documents;
use crate::blocking::compute;
use crate::conversations::transcript::{DocumentBlocks, DocumentEntry};
use crate::error::ApiError;
use crate::wire::document::DocumentId;

impl Documents {
    /// The documents of the library, the latest first. `profile`: behind whose prefix they are looked
    /// up.
    ///
    /// # Errors
    /// When the database cannot be read, or the engine has stopped.
    pub async fn list(&self, profile: Option<&str>) -> Result<Vec<Document>, ApiError> {
        let entries = self.conversations.transcript.documents().done().await?;
        self.describe(entries.into_iter().filter(|entry| entry.in_library).collect(), profile).await
    }

    /// One document, in the library or not; `None` if it is not stored.
    ///
    /// # Errors
    /// When the database cannot be read, or the engine has stopped.
    pub async fn get(
        &self,
        id: &DocumentId,
        profile: Option<&str>,
    ) -> Result<Option<Document>, ApiError> {
        let entries = self.conversations.transcript.documents().done().await?;
        let entry = entries.into_iter().find(|entry| entry.id == *id);
        Ok(self.describe(entry.into_iter().collect(), profile).await?.pop())
    }

    /// Describes the entries that are stored still.
    async fn describe(
        &self,
        entries: Vec<DocumentEntry>,
        profile: Option<&str>,
    ) -> Result<Vec<Document>, ApiError> {
        // The tokens of the placeholder model are no engine's.
        if self.chat.upstream().is_some() {
            let uncounted = |entry| self.view(entry, DocumentKv::default(), None);
            return Ok(entries.into_iter().map(uncounted).collect());
        }
        let ids = entries.iter().map(|entry| entry.id.clone()).collect();
        let mut blocks = self.blocks(ids, profile).await?;
        let cut = entries.into_iter().filter_map(|entry| Some((blocks.remove(&entry.id)?, entry)));
        let cut: Vec<_> = cut.collect();
        let (engine, storage) = (self.chat.engine().clone(), self.conversations.storage.clone());
        let looked_up = compute(move || {
            let look_up = |(blocks, entry): (DocumentBlocks, DocumentEntry)| {
                let DocumentBlocks { key, tokens, blocks } = blocks;
                let (memory, disk) = engine.saved_tokens(&blocks, &key);
                let saved = storage.saved_until(&key);
                let (memory, disk) = (memory.min(tokens), disk.min(tokens));
                (entry, DocumentKv { tokens, memory, disk, saved })
            };
            cut.into_iter().map(look_up).collect::<Vec<_>>()
        })
        .await;
        let speed = self.chat.prefill_speed().await?;
        Ok(looked_up.into_iter().map(|(entry, kv)| self.view(entry, kv, speed)).collect())
    }

    fn view(&self, entry: DocumentEntry, kv: DocumentKv, speed: Option<f64>) -> Document {
        let DocumentKv { tokens, memory: memory_tokens, disk: disk_tokens, saved } = kv;
        let ready_tokens = (memory_tokens + disk_tokens).min(tokens);
        let unread = tokens - ready_tokens;
        let seconds = |tokens: usize| speed.map(|speed| tokens as f64 / speed);
        Document {
            id: entry.id.to_string(),
            object: "document".into(),
            name: entry.name,
            kind: entry.kind,
            bytes: entry.bytes,
            tokens,
            ready_tokens,
            memory_tokens,
            disk_tokens,
            read_seconds: seconds(tokens).map(rounded),
            seconds_left: seconds(unread).map(rounded),
            ttl: saved.map(|(class, _)| class.to_string().into()),
            expires_at: saved.and_then(|(_, end)| end).map(|end| end.0 / 1000),
            kv_bytes: self.models.kv_bytes(ready_tokens),
            context_tokens: self.chat.engine().conversation_tokens(),
            in_library: entry.in_library,
            conversations: entry.conversations,
            created_at: entry.created_at / 1000,
            used_at: entry.used_at / 1000,
        }
    }
}

/// Tokens of a document, and where their KV is; none where an engine at another address counts them.
#[derive(Default)]
struct DocumentKv {
    tokens: usize,
    memory: usize,
    disk: usize,
    /// The class of its slot file, and when that expires.
    saved: Option<(TtlClass, Option<Timestamp>)>,
}

fn rounded(seconds: f64) -> f64 {
    (seconds * 10.0).round() / 10.0
}
