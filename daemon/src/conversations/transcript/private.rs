//! Private conversations: the same tables in a database that never leaves memory.
//!
//! - A conversation is private from its first request until it is deleted, or the process ends: a
//!   restart within the process, with another model or other settings, leaves it. If
//!   that request fails before its text is queued, the conversation does not exist.
//! - Rows of the two databases have equal numbers: a write goes to the database in which its
//!   conversation began.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hob_slots::ConversationId;
use parking_lot::Mutex;
use rusqlite::Connection;

use super::writer::{Pending, Writer};
use super::{Transcript, TranscriptError, end_streams, read, schema};

#[derive(Debug)]
pub(super) struct Private {
    pub writer: Arc<Writer>,
    conversations: Mutex<BTreeMap<ConversationId, Arc<HasText>>>,
}

type HasText = AtomicBool;

/// The private conversations. They end with its last clone.
#[derive(Clone, Debug)]
pub struct PrivateText(Arc<Private>);

impl PrivateText {
    /// None yet.
    ///
    /// # Errors
    /// When SQLite fails.
    pub fn new() -> Result<Self, TranscriptError> {
        Ok(Self(Arc::new(Private::new()?)))
    }

    /// For a transcript that is opened: answers of the one before are over.
    pub(super) fn opened(self) -> Arc<Private> {
        self.0.writer.post(|connection| end_streams(connection)); // Before what is asked next.
        self.0
    }
}

/// A request of a private conversation, which stays private while the request runs.
#[derive(Debug)]
#[must_use]
pub struct PrivateRequest {
    private: Arc<Private>,
    conversation: ConversationId,
    has_text: Arc<HasText>,
}

impl Private {
    pub fn new() -> Result<Self, TranscriptError> {
        let mut connection = Connection::open_in_memory()?;
        connection.pragma_update(None, "temp_store", "memory")?; // Sorting spills to no file.
        connection.pragma_update(None, "foreign_keys", true)?;
        connection.pragma_update(None, "application_id", 1)?; // `read` shows it as private.
        connection.set_prepared_statement_cache_capacity(schema::STATEMENTS);
        schema::migrate(&mut connection)?;
        Ok(Self { writer: Arc::new(Writer::start(connection)), conversations: Mutex::default() })
    }

    pub fn has(&self, conversation: &ConversationId) -> bool {
        self.conversations.lock().contains_key(conversation)
    }
}

impl Transcript {
    pub fn is_private(&self, conversation: &ConversationId) -> bool {
        self.private.has(conversation)
    }

    /// A request of a private conversation; `None` for others.
    pub fn enter_private(&self, conversation: &ConversationId) -> Option<PrivateRequest> {
        let known = self.private.conversations.lock();
        let has_text = known.get(conversation)?.clone();
        Some(PrivateRequest::new(self, conversation, has_text))
    }

    /// Makes a conversation private that does not exist yet.
    ///
    /// # Errors
    /// [`TranscriptError::OnDisk`].
    pub async fn open_private(
        &self,
        conversation: &ConversationId,
    ) -> Result<PrivateRequest, TranscriptError> {
        let id = conversation.clone();
        let mut on_disk = self.writer.read(move |connection| read::exists(connection, &id));
        if on_disk.done().await? {
            return Err(TranscriptError::OnDisk);
        }
        let mut known = self.private.conversations.lock();
        let has_text = known.entry(conversation.clone()).or_default().clone();
        Ok(PrivateRequest::new(self, conversation, has_text))
    }

    pub fn private(&self) -> Vec<ConversationId> {
        self.private.conversations.lock().keys().cloned().collect()
    }

    /// A private conversation has been deleted.
    pub(super) fn close_private(&self, conversation: &ConversationId) {
        self.private.conversations.lock().remove(conversation);
    }

    /// The database of a conversation.
    pub(super) fn writer_of(&self, conversation: &ConversationId) -> &Arc<Writer> {
        self.writer_for(self.is_private(conversation))
    }

    pub(super) fn writer_for(&self, is_private: bool) -> &Arc<Writer> {
        if is_private { &self.private.writer } else { &self.writer }
    }

    /// How often what clients show of conversations was changed since the start, besides by answers.
    pub fn changes(&self) -> u64 {
        self.writer.changes() + self.private.writer.changes()
    }

    /// Reads both databases; the private one answers first.
    pub(super) fn read_both<T: Send + 'static>(
        &self,
        job: impl Fn(&mut Connection) -> Result<Vec<T>, TranscriptError> + Clone + Send + 'static,
    ) -> Pending<Vec<T>> {
        if self.private.conversations.lock().is_empty() {
            return self.writer.read(job);
        }
        self.read_both_always(job)
    }

    /// Reads both databases, where the private one may have rows without a conversation.
    pub(super) fn read_both_always<T: Send + 'static>(
        &self,
        job: impl Fn(&mut Connection) -> Result<Vec<T>, TranscriptError> + Clone + Send + 'static,
    ) -> Pending<Vec<T>> {
        let private = self.private.writer.read(job.clone());
        self.writer.read(move |connection| {
            let mut both = private.wait()?;
            both.extend(job(connection)?);
            Ok(both)
        })
    }
}

impl PrivateRequest {
    fn new(transcript: &Transcript, conversation: &ConversationId, has_text: Arc<HasText>) -> Self {
        let (private, conversation) = (transcript.private.clone(), conversation.clone());
        Self { private, conversation, has_text }
    }

    /// The request's text is queued for the database.
    pub fn has_text(&self) {
        self.has_text.store(true, Ordering::Relaxed);
    }
}

impl Drop for PrivateRequest {
    fn drop(&mut self) {
        let mut known = self.private.conversations.lock();
        // It may have been deleted and opened anew.
        let is_mine =
            known.get(&self.conversation).is_some_and(|known| Arc::ptr_eq(known, &self.has_text));
        let is_last = Arc::strong_count(&self.has_text) == 2; // The map's and this one.
        if is_mine && is_last && !self.has_text.load(Ordering::Relaxed) {
            known.remove(&self.conversation);
        }
    }
}
