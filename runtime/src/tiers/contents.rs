//! The records of conversations by their content, see `chunks`.
//!
//! - A search finds all records that a conversation had, also replaced ones, until the conversation is forgotten.
//! - The engine's thread, which forgets, does not wait for a search that reads the disk: the search forgets
//!   for it, before it finds anything.

use std::collections::VecDeque;

use hob_slots::content::ContentIndex;
use hob_slots::{BlockId, ConversationId};
use parking_lot::{Mutex, MutexGuard};

#[derive(Debug, Default)]
pub(super) struct Contents {
    known: Mutex<Known>,
    /// Conversations to be forgotten by the next holder of the lock of `known`.
    forgotten: Mutex<Vec<ConversationId>>,
}

#[derive(Debug, Default)]
pub(super) struct Known {
    pub index: ContentIndex,
    /// Conversations whose records on disk are to be read, the one used last at the end; `None`: not listed yet.
    pub unread: Option<VecDeque<ConversationId>>,
}

impl Contents {
    /// Lock order: before the locks of records and objects.
    pub fn known(&self) -> MutexGuard<'_, Known> {
        let mut known = self.known.lock();
        self.catch_up(&mut known);
        known
    }

    /// Drops the conversations that were forgotten since the last call.
    pub fn catch_up(&self, known: &mut Known) {
        let forgotten = std::mem::take(&mut *self.forgotten.lock());
        forgotten.iter().for_each(|conversation| known.index.forget(conversation));
    }

    /// Finds nothing of the conversation any more.
    pub fn forget(&self, conversation: &ConversationId) {
        self.forgotten.lock().push(conversation.clone());
        if let Some(mut known) = self.known.try_lock() {
            self.catch_up(&mut known);
        }
    }

    /// A block of a record is missing.
    pub fn lose(&self, block: &BlockId) {
        self.known().index.drop_records_with(block);
    }
}
