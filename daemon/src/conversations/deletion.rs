//! Deletes conversations: their text, their KV, and what the shared tier has of them.
//!
//! - A deletion begins before anything is deleted: from then on no turn of the conversation writes.
//! - The shared tier comes first, then the KV, then the text.
//! - A deletion that has begun runs to its end, also where its client disconnects: one that stopped at the text would
//!   leave it in the list.

use std::slice;

use hob_prewarm::Event;
use hob_runtime::TurnError;
use hob_slots::ConversationId;

use super::Conversations;
use super::sharing::Unshared;
use super::transcript::Deletion;
use crate::error::ApiError;
use crate::uncancelled::uncancelled;
use crate::wire::document::document_key;

impl Conversations {
    /// Deletes text and KV, and cancels a running answer; `false` if there was no text, neither here nor in the
    /// shared tier. Both are durably gone afterwards.
    ///
    /// # Errors
    /// When the database cannot be written, a file of the KV cannot be removed, the shared tier does not
    /// answer, or the engine has stopped.
    pub async fn delete(&self, id: &ConversationId) -> Result<bool, ApiError> {
        let (conversations, id) = (self.clone(), id.clone());
        uncancelled(async move { conversations.delete_everywhere(&id).await }).await
    }

    async fn delete_everywhere(&self, id: &ConversationId) -> Result<bool, ApiError> {
        let _deletion = self.transcript.begin_deletion(id);
        let unshared = self.unshare(slice::from_ref(id)).await?;
        // First the KV, which nothing would refer to without the text: if the process dies in
        // between, the conversation is still listed and can be deleted again.
        let _documents = self.delete_kv_of_documents(id).await?;
        let removed = self.delete_kv(id).await;
        if let Err(error @ (TurnError::Stopped | TurnError::Dead(_))) = removed {
            return Err(error.into());
        }
        let had_text = self.transcript.delete(id).done().await?;
        removed?;
        Ok(had_text || unshared.is_some_and(|unshared| unshared.found))
    }

    /// Deletes what the shared tier has of these conversations.
    ///
    /// # Errors
    /// When the tier does not answer.
    pub async fn unshare(&self, ids: &[ConversationId]) -> Result<Option<Unshared<'_>>, ApiError> {
        let Some(sharing) = &self.sharing else { return Ok(None) };
        let is_shared = |id: &&ConversationId| !id.is_hint() && !self.transcript.is_private(id);
        let shared: Vec<ConversationId> = ids.iter().filter(is_shared).cloned().collect();
        if shared.is_empty() { Ok(None) } else { sharing.delete(&shared).await.map(Some) }
    }

    /// Deletes the KV of the documents that are deleted with the conversation. Until the returned deletions end,
    /// no turn of a request that names one of them begins.
    pub(super) async fn delete_kv_of_documents(
        &self,
        id: &ConversationId,
    ) -> Result<Vec<Deletion>, ApiError> {
        let ids = self.transcript.documents_only_of(id).done().await?;
        let documents = self.transcript.stored_documents(ids.into_iter().collect(), true).await?;
        let mut deletions = Vec::new();
        for document in documents.values() {
            let key = document_key(&document.text);
            let deletion = self.transcript.begin_deletion(&key);
            self.delete_kv_of(&key, &deletion).await?;
            deletions.push(deletion);
        }
        Ok(deletions)
    }

    /// Deletes the KV of a document with this text, which is deleted already, and ends the turns that compute it.
    ///
    /// # Errors
    /// When a file cannot be removed, or the engine has stopped.
    pub async fn delete_kv_of_text(&self, text: &str) -> Result<(), TurnError> {
        let key = document_key(text);
        let deletion = self.transcript.begin_deletion(&key);
        self.delete_kv_of(&key, &deletion).await
    }

    /// Deletes the KV of a document's key, and that of the turns that its deletion has cancelled.
    async fn delete_kv_of(
        &self,
        key: &ConversationId,
        deletion: &Deletion,
    ) -> Result<(), TurnError> {
        let mut removed = self.delete_kv(key).await;
        for conversation in deletion.cancelled() {
            removed = self.delete_kv(conversation).await.and(removed);
        }
        removed
    }

    /// Deletes the KV of a conversation or of a document's key, and what was learned from it.
    ///
    /// # Errors
    /// When a file cannot be removed, or the engine has stopped.
    pub async fn delete_kv(&self, id: &ConversationId) -> Result<(), TurnError> {
        self.pdf_texts.clear();
        self.learned.forget_conversation(id);
        let removed = self.engine.forget_copies(id.clone()).await;
        self.events.send(Event::Forgotten { conversation: id.clone() });
        removed
    }
}
