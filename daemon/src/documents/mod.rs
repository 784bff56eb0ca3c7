//! The library: documents that conversations are about, each with saved KV of its own.
//!
//! Reading order: [`extract`] (a file's text), [`pdf`] (of PDFs, in a child process), [`blocks`] (its
//! prompts, cut into blocks once), [`view`] (what a document costs, and what of it is ready), this file
//! (the handle).
//!
//! - A document is its text. It is stored under the hash of the text beside the conversations, or, of
//!   a private chat, in memory.
//! - Removing one removes its text and every KV that contains it, those of its conversations
//!   included, also from the shared tier. The conversations stay, and say that it was removed.
//! - What of a document is ready is looked up in the tiers, block by block, at each call.

mod blocks;
pub mod extract;
pub mod pdf;
mod refusal;
mod view;

use std::collections::BTreeSet;

use hob_slots::ConversationId;

use crate::chat::Chat;
use crate::chat::answer::Answer;
use crate::chat::documents::unknown_document;
use crate::conversations::Conversations;
use crate::conversations::transcript::{DocumentHome, StoredDocument};
use crate::error::ApiError;
use crate::models::Models;
use crate::uncancelled::uncancelled;
use crate::wire::document::{DocumentId, document_key};

#[derive(Clone)]
pub struct Documents {
    pub chat: Chat,
    pub conversations: Conversations,
    pub models: Models,
}

impl Documents {
    /// Stores a document. One that is stored already keeps its name.
    ///
    /// # Errors
    /// When the database cannot be written.
    pub async fn add(
        &self,
        document: StoredDocument,
        home: DocumentHome,
    ) -> Result<DocumentId, ApiError> {
        let id = document.id();
        let now = (self.conversations.clock)();
        let transcript = &self.conversations.transcript;
        transcript.put_document(document, home, now).done().await?;
        Ok(id)
    }

    /// # Errors
    /// When there is no such profile, or it is broken.
    pub fn check_profile(&self, profile: Option<&str>) -> Result<(), ApiError> {
        self.chat.document_prompts(profile).map(drop)
    }

    /// Begins to compute a document and to save its KV.
    ///
    /// # Errors
    /// When it is not stored, or as for an answer.
    pub async fn read(&self, id: &DocumentId, profile: Option<&str>) -> Result<Answer, ApiError> {
        let document = self.stored(id, false).await?;
        self.chat.read_document(id, &document.text, profile).await
    }

    /// A document with its text.
    ///
    /// # Errors
    /// When it is not stored.
    pub async fn stored(
        &self,
        id: &DocumentId,
        with_private: bool,
    ) -> Result<StoredDocument, ApiError> {
        let ids = BTreeSet::from([id.clone()]);
        let transcript = &self.conversations.transcript;
        let found = transcript.stored_documents(ids, with_private).await?;
        found.into_values().next().ok_or_else(|| unknown_document(id))
    }

    /// Removes a document: its text, its KV, and the KV of the conversations about it. Running answers
    /// of these end. Both are durably gone afterwards. A removal that has begun runs to its end, also where its client
    /// disconnects.
    ///
    /// # Errors
    /// When it is not stored, the database cannot be written, a file cannot be removed, or the shared tier
    /// does not answer.
    pub async fn remove(&self, id: &DocumentId) -> Result<(), ApiError> {
        let (documents, id) = (self.clone(), id.clone());
        uncancelled(async move { documents.remove_everywhere(&id).await }).await
    }

    async fn remove_everywhere(&self, id: &DocumentId) -> Result<(), ApiError> {
        let key = document_key(&self.stored(id, true).await?.text);
        let transcript = &self.conversations.transcript;
        // From here on no turn of a request that names it begins, and none that has begun is submitted.
        let deletion = transcript.begin_deletion(&key);
        let mut about = transcript.conversations_about(id).done().await?;
        // The messages of a turn that was handed to the engine a moment ago are not stored.
        for conversation in deletion.cancelled() {
            if !about.contains(conversation) {
                about.push(conversation.clone());
            }
        }
        let mut removed = self.remove_with_kv(id, &key, &about).await;
        if removed.is_ok() {
            removed = self.remove_from_later(id, &key, &mut about).await;
        }
        // Also after an error: the conversations stay, and the shared tier may lack some of them by then.
        for conversation in about.iter().filter(|it| !it.is_hint()) {
            self.conversations.republish(conversation);
        }
        removed
    }

    /// `about`: the conversations about the document, whose KV contains it.
    async fn remove_with_kv(
        &self,
        id: &DocumentId,
        key: &ConversationId,
        about: &[ConversationId],
    ) -> Result<(), ApiError> {
        let transcript = &self.conversations.transcript;
        // No turn that began before writes the text's tokens after.
        let _deletions: Vec<_> = about.iter().map(|id| transcript.begin_deletion(id)).collect();
        let _unshared = self.conversations.unshare(about).await?;
        let mut removed = self.conversations.delete_kv(key).await;
        for conversation in about {
            removed = self.conversations.delete_kv(conversation).await.and(removed);
        }
        transcript.delete_document(id).await?;
        Ok(removed?)
    }

    /// [`Self::remove_with_kv`] for the conversations that came to name the document while it was removed, such as
    /// copies of others, and adds them to `about`. From here on no turn finds the text.
    async fn remove_from_later(
        &self,
        id: &DocumentId,
        key: &ConversationId,
        about: &mut Vec<ConversationId>,
    ) -> Result<(), ApiError> {
        let mut later = self.conversations.transcript.conversations_about(id).done().await?;
        later.retain(|conversation| !about.contains(conversation));
        if later.is_empty() {
            return Ok(());
        }
        about.extend(later.iter().cloned());
        self.remove_with_kv(id, key, &later).await
    }

    /// Removes a document that only an unsent message named. `false`: it is in the library, or a
    /// message names it, if only one that can be restored. Runs to its end as [`Self::remove`] does.
    ///
    /// # Errors
    /// As for [`Self::remove`].
    pub async fn remove_unused(&self, id: &DocumentId) -> Result<bool, ApiError> {
        let (documents, id) = (self.clone(), id.clone());
        uncancelled(async move { documents.remove_if_unused(&id).await }).await
    }

    async fn remove_if_unused(&self, id: &DocumentId) -> Result<bool, ApiError> {
        // One statement judges and deletes: a message that comes meanwhile keeps its document.
        let deleted = self.conversations.transcript.delete_unused_document(id).await?;
        let remaining = self.stored(id, true).await;
        match deleted {
            Some(text) if remaining.is_err() => {
                self.conversations.delete_kv_of_text(&text).await?;
                Ok(true)
            }
            _ => remaining.map(|_| false),
        }
    }
}
