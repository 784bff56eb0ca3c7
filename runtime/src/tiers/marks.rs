//! Marks on disk the conversations whose restored KV the engine uses, so that the next start knows
//! what a crash interrupted: see `hob_slots::store::UseStage`.
//!
//! - A reader writes the mark before it delivers KV. A thread of its own changes and removes marks:
//!   neither the engine nor a turn's end waits for the disk.
//! - A late change of an earlier restore does not touch the mark of a later restore.
//! - A restore that was cancelled before its mark was written leaves no mark: its turn may have ended
//!   already, and nothing would remove the mark.
//! - A deleted conversation loses its mark. A conversation whose record must stay in memory gets no mark.

use std::collections::HashMap;
use std::sync::mpsc::Receiver;

use hob_slots::store::{Store, StoreError, UseStage};
use hob_slots::{ConversationId, ModelHash};
use parking_lot::Mutex;
use tracing::warn;

/// A step of a turn with restored KV, after the restore.
pub(super) enum UseChange {
    Answering,
    Ended,
}

/// A conversation, the number of its restore, and the change.
pub(super) type NumberedChange = (ConversationId, u64, UseChange);

/// The number of the restore that each mark is of. Held while a mark is written.
#[derive(Debug, Default)]
pub(super) struct Marks(Mutex<HashMap<ConversationId, u64>>);

impl Marks {
    /// Marks the conversation's KV as in use by restore `number`, unless that was cancelled.
    pub fn restore(
        &self,
        store: &Store,
        model: ModelHash,
        conversation: &ConversationId,
        number: u64,
        is_wanted: impl Fn() -> bool,
    ) {
        let mut marks = self.0.lock();
        if !is_wanted() {
            return;
        }
        marks.insert(conversation.clone(), number);
        log_error(store.mark_use(model, conversation, UseStage::Restoring));
    }

    /// Removes the mark of a deleted conversation.
    pub fn forget(
        &self,
        store: &Store,
        model: ModelHash,
        conversation: &ConversationId,
    ) -> Result<(), StoreError> {
        self.0.lock().remove(conversation);
        store.unmark_use(model, conversation)
    }

    /// Applies changes until their sender is gone.
    pub fn change(&self, store: &Store, model: ModelHash, changes: &Receiver<NumberedChange>) {
        for (conversation, number, change) in changes {
            let mut marks = self.0.lock();
            if marks.get(&conversation) == Some(&number) {
                log_error(change_mark(store, model, &conversation, &change));
                if matches!(change, UseChange::Ended) {
                    marks.remove(&conversation);
                }
            }
        }
    }
}

fn change_mark(
    store: &Store,
    model: ModelHash,
    conversation: &ConversationId,
    change: &UseChange,
) -> Result<(), StoreError> {
    match change {
        UseChange::Answering => store.mark_use(model, conversation, UseStage::Answering),
        UseChange::Ended => store.unmark_use(model, conversation),
    }
}

/// Without a mark a crash is not counted; nothing else depends on it.
fn log_error(marked: Result<(), StoreError>) {
    if let Err(error) = marked {
        warn!(%error, "a crash during this restore would not be counted");
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    const MODEL: ModelHash = ModelHash(*b"a model!");

    fn marks_in(directory: &std::path::Path) -> usize {
        std::fs::read_dir(directory.join(MODEL.to_string()).join("crashes"))
            .map_or(0, |files| files.count())
    }

    #[test]
    fn a_restore_that_was_cancelled_leaves_no_mark_whichever_thread_is_first() {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(directory.path()).unwrap();
        let chat = ConversationId::new("chat").unwrap();
        for reader_first in [true, false] {
            let marks = Marks::default();
            let end = || {
                let (ends, inbox) = mpsc::channel();
                ends.send((chat.clone(), 1, UseChange::Ended)).unwrap();
                drop(ends);
                marks.change(&store, MODEL, &inbox);
            };
            if reader_first {
                marks.restore(&store, MODEL, &chat, 1, || true);
                assert_eq!(marks_in(directory.path()), 1);
                end();
            } else {
                end();
                marks.restore(&store, MODEL, &chat, 1, || false);
            }
            assert_eq!(marks_in(directory.path()), 0, "reader first: {reader_first}");
        }
    }
}
