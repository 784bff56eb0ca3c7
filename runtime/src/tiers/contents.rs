//! The records of conversations by their content, see `chunks`.
//!
//! - A search finds all records that a conversation had, also replaced ones, until the conversation is forgotten.
//! - The engine's thread, which forgets, does not wait for a search: the search forgets for it, before it finds
//!   anything.
//! - A search reads slot files without the lock, so several searches read different ones. It drops the record that it
//!   has read of a conversation that the engine's thread forgot meanwhile.

use std::collections::{BTreeMap, VecDeque};

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
    /// Conversations whose slot file is being read, by the number of the reading.
    reading: BTreeMap<u64, ConversationId>,
    readings: u64,
}

impl Known {
    /// The next conversation whose slot file is to be read, and the number of the reading.
    pub fn begin_reading(&mut self) -> Option<(u64, ConversationId)> {
        let conversation = self.unread.as_mut()?.pop_front()?;
        self.readings += 1;
        self.reading.insert(self.readings, conversation.clone());
        Some((self.readings, conversation))
    }

    /// Whether the conversation was not forgotten since the reading began.
    pub fn end_reading(&mut self, number: u64) -> bool {
        self.reading.remove(&number).is_some()
    }
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
        for conversation in &forgotten {
            known.index.forget(conversation);
            known.reading.retain(|_, read| *read != *conversation);
            if let Some(unread) = &mut known.unread {
                unread.retain(|unread| unread != conversation);
            }
        }
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

    #[cfg(test)]
    pub fn is_locked(&self) -> bool {
        self.known.is_locked()
    }
}
