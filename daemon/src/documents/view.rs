//! What a document costs, and what of it is ready.

use std::collections::BTreeMap;

use hob_api::Document;
use hob_slots::blocks_of;

use super::Documents;
use crate::blocking::compute;
use crate::conversations::transcript::DocumentEntry;
use crate::error::ApiError;
use crate::wire::document::{DocumentId, document_key};

impl Documents {
    /// The documents of the library, the latest first. `profile`: behind whose prefix they are looked
    /// up.
    ///
    /// # Errors
    /// When the database cannot be read, or the engine has stopped.
    pub async fn list(&self, profile: Option<&str>) -> Result<Vec<Document>, ApiError> {
        let entries = self.conversations.transcript.documents().done().await?;
        let mut list = Vec::new();
        for entry in entries.into_iter().filter(|entry| entry.in_library) {
            list.push(self.describe(entry, profile).await?);
        }
        Ok(list)
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
        match entries.into_iter().find(|entry| entry.id == *id) {
            Some(entry) => Ok(Some(self.describe(entry, profile).await?)),
            None => Ok(None),
        }
    }

    async fn describe(
        &self,
        entry: DocumentEntry,
        profile: Option<&str>,
    ) -> Result<Document, ApiError> {
        let stored = self.stored(&entry.id, true).await?;
        let key = document_key(&stored.text);
        let (chat, id) = (self.chat.clone(), entry.id.clone());
        let texts = BTreeMap::from([(id.clone(), stored.into())]);
        let profile = profile.map(str::to_owned);
        let storage = self.conversations.storage.clone();
        let (tokens, memory_tokens, disk_tokens, saved) = compute(move || {
            let prompt = chat.document_tokens(&id, &texts, profile.as_deref())?;
            let engine = chat.engine();
            let is_border = |token| engine.model().vocabulary().is_eog(token);
            let blocks = blocks_of(engine.fingerprint(), &prompt, is_border);
            let (memory, disk) = engine.saved_tokens(&blocks, &key);
            // The last block of the prompt goes on with the words that follow.
            let whole = blocks.iter().rev().map(|block| block.range.end);
            let shared = whole.clone().find(|&end| is_border(prompt[end - 1]));
            let tokens = shared.unwrap_or_else(|| whole.max().unwrap_or(0));
            let saved = storage.saved_until(&key);
            Ok::<_, ApiError>((tokens, memory.min(tokens), disk.min(tokens), saved))
        })
        .await?;
        let ready_tokens = (memory_tokens + disk_tokens).min(tokens);
        let unread = tokens - ready_tokens;
        let speed = self.chat.prefill_speed().await?;
        let seconds = |tokens: usize| speed.map(|speed| tokens as f64 / speed);
        Ok(Document {
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
        })
    }
}

fn rounded(seconds: f64) -> f64 {
    (seconds * 10.0).round() / 10.0
}
