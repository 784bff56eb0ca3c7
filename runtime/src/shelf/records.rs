//! The newest record of each conversation, as far as this process has seen it. Pure.
//!
//! - What the engine records counts at once; the disk follows behind.
//! - A conversation that was forgotten stays forgotten, whatever the disk still says of it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use hob_slots::format::SlotRecord;
use hob_slots::{BlockId, ConversationId};

/// `None`: it has no record, and the disk need not be asked.
#[derive(Debug, Default)]
pub struct Records(BTreeMap<ConversationId, Option<Arc<SlotRecord>>>);

impl Records {
    /// The conversation's record, or that it has none; `None` when only the disk can tell.
    pub fn seen(&self, conversation: &ConversationId) -> Option<Option<Arc<SlotRecord>>> {
        self.0.get(conversation).cloned()
    }

    /// This is what the conversation is made of now. Returns what it was made of before.
    pub fn set(&mut self, record: Arc<SlotRecord>) -> Option<Arc<SlotRecord>> {
        self.0.insert(record.conversation.clone(), Some(record)).flatten()
    }

    /// The disk says so. Returns what counts, which may be newer.
    pub fn read(&mut self, record: SlotRecord) -> Option<Arc<SlotRecord>> {
        let seen = self.0.entry(record.conversation.clone());
        seen.or_insert_with(|| Some(Arc::new(record))).clone()
    }

    /// Whatever was recorded does not count any more. Returns it.
    pub fn forget(&mut self, conversation: &ConversationId) -> Option<Arc<SlotRecord>> {
        self.0.insert(conversation.clone(), None).flatten()
    }

    /// Its slot file has left: what was recorded does not count any more, and the disk is asked anew.
    pub fn let_go(&mut self, conversation: &ConversationId) {
        if self.0.get(conversation).is_some_and(Option::is_some) {
            self.0.remove(conversation);
        }
    }

    /// What the records name.
    pub fn named(&self) -> impl Iterator<Item = BlockId> {
        self.iter().flat_map(SlotRecord::objects).map(|(id, _)| id)
    }

    /// All records.
    pub fn iter(&self) -> impl Iterator<Item = &SlotRecord> {
        self.0.values().flatten().map(|record| &**record)
    }

    /// Those of `candidates` that no record names.
    pub fn unnamed(&self, candidates: impl IntoIterator<Item = BlockId>) -> BTreeSet<BlockId> {
        let mut unnamed = BTreeSet::from_iter(candidates);
        for (id, _) in self.iter().flat_map(SlotRecord::objects) {
            unnamed.remove(&id);
        }
        unnamed
    }
}

#[cfg(test)]
mod tests {
    use hob_slots::{Timestamp, Token, TtlClass};

    use super::*;

    fn record(tokens: usize) -> SlotRecord {
        SlotRecord {
            conversation: chat(),
            class: TtlClass::Long,
            created_at: Timestamp(0),
            used_at: Timestamp(0),
            turns: 0,
            tokens: vec![Token(1); tokens],
            blocks: Vec::new(),
            snapshots: Vec::new(),
            segments: Vec::new(),
        }
    }

    fn chat() -> ConversationId {
        ConversationId::new("chat").unwrap()
    }

    #[test]
    fn what_was_recorded_counts_more_than_what_is_read() {
        let mut records = Records::default();
        assert_eq!(records.seen(&chat()), None);
        assert_eq!(records.read(record(1)).unwrap().tokens.len(), 1);
        records.set(Arc::new(record(2)));
        assert_eq!(records.read(record(1)).unwrap().tokens.len(), 2);
    }

    #[test]
    fn what_was_forgotten_stays_forgotten_until_it_is_recorded_again() {
        let mut records = Records::default();
        records.set(Arc::new(record(1)));
        assert_eq!(records.forget(&chat()).unwrap().tokens.len(), 1);
        assert_eq!(records.read(record(1)), None);
        assert_eq!(records.seen(&chat()), Some(None));
        records.set(Arc::new(record(2)));
        assert_eq!(records.seen(&chat()).flatten().unwrap().tokens.len(), 2);
    }
}
