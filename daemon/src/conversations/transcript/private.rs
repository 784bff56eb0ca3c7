//! Private conversations: the same tables in a database that never leaves memory.
//!
//! - A conversation is private from its first request until it is deleted, or the daemon ends.
//! - Rows of the two databases have equal numbers: a write goes to the database in which its
//!   conversation began.

use std::collections::BTreeSet;
use std::sync::Arc;

use hob_slots::ConversationId;
use parking_lot::Mutex;
use rusqlite::Connection;

use super::writer::{Pending, Writer};
use super::{Transcript, TranscriptError, read, schema};

#[derive(Debug)]
pub(super) struct Private {
    pub writer: Arc<Writer>,
    conversations: Mutex<BTreeSet<ConversationId>>,
}

impl Private {
    pub fn new() -> Result<Self, TranscriptError> {
        let mut connection = Connection::open_in_memory()?;
        connection.pragma_update(None, "temp_store", "memory")?; // Sorting spills to no file.
        connection.pragma_update(None, "foreign_keys", true)?;
        connection.pragma_update(None, "application_id", 1)?; // `read` shows it as private.
        schema::migrate(&mut connection)?;
        Ok(Self { writer: Arc::new(Writer::start(connection)), conversations: Mutex::default() })
    }
}

impl Transcript {
    pub fn is_private(&self, conversation: &ConversationId) -> bool {
        self.private.conversations.lock().contains(conversation)
    }

    /// Makes a conversation private that does not exist yet.
    ///
    /// # Errors
    /// [`TranscriptError::OnDisk`].
    pub async fn open_private(&self, conversation: &ConversationId) -> Result<(), TranscriptError> {
        let id = conversation.clone();
        let mut on_disk = self.writer.read(move |connection| read::exists(connection, &id));
        if on_disk.done().await? {
            return Err(TranscriptError::OnDisk);
        }
        self.private.conversations.lock().insert(conversation.clone());
        Ok(())
    }

    /// Private conversations.
    pub fn private(&self) -> Vec<ConversationId> {
        self.private.conversations.lock().iter().cloned().collect()
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

    /// Reads both databases; the private one answers first.
    pub(super) fn read_both<T: Send + 'static>(
        &self,
        job: impl Fn(&mut Connection) -> Result<Vec<T>, TranscriptError> + Clone + Send + 'static,
    ) -> Pending<Vec<T>> {
        if self.private.conversations.lock().is_empty() {
            return self.writer.read(job);
        }
        let private = self.private.writer.read(job.clone());
        self.writer.read(move |connection| {
            let mut both = private.wait()?;
            both.extend(job(connection)?);
            Ok(both)
        })
    }
}
