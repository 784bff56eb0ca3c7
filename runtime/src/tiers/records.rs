//! The newest record of each conversation that this process has seen. Pure.
//!
//! - A record that the engine sets is valid at once; its slot file is written behind.
//! - A forgotten conversation stays forgotten, although its slot file is removed later.
//! - Records that are on disk are dropped beyond a budget, the least recently used first, and read
//!   again when needed. Their summaries stay.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use hob_slots::format::SlotRecord;
use hob_slots::{BlockId, ConversationId, Timestamp, TtlClass};

/// Memory for records that are on disk: some two hundred conversations of 16,000 tokens.
const BUDGET_BYTES: usize = 16 << 20;

/// A record without its tokens and blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    pub class: TtlClass,
    pub created_at: Timestamp,
    pub turns: u32,
    pub tokens: usize,
    /// Only records lead to snapshots.
    snapshots: Vec<BlockId>,
}

/// Where a conversation's newest record is.
#[derive(Clone, Debug)]
pub enum Located {
    InMemory(Arc<SlotRecord>),
    OnDisk { tokens: usize },
}

#[derive(Debug)]
pub struct Records {
    budget_bytes: usize,
    entries: BTreeMap<ConversationId, Entry>,
    /// Records that may be dropped, by their last use.
    droppable: BTreeMap<u64, ConversationId>,
    /// Always the sum over `droppable`.
    bytes: usize,
    uses: u64,
}

#[derive(Debug)]
enum Entry {
    /// There is no record, in memory or on disk.
    Absent,
    InMemory {
        record: Arc<SlotRecord>,
        summary: Summary,
        disk: Disk,
    },
    /// The record is only on disk.
    OnDisk(Summary),
}

/// Whether a record in memory is on disk too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Disk {
    Pending,
    /// The write failed.
    Failed,
    Saved {
        last_use: u64,
    },
}

impl Default for Records {
    fn default() -> Self {
        Self::with_budget(BUDGET_BYTES)
    }
}

impl Records {
    fn with_budget(budget_bytes: usize) -> Self {
        let (entries, droppable) = Default::default();
        Self { budget_bytes, entries, droppable, bytes: 0, uses: 0 }
    }

    /// The conversation's record, `Some(None)` when there is none, `None` when the disk must be
    /// read. Counts as a use.
    pub fn lookup(&mut self, conversation: &ConversationId) -> Option<Option<Arc<SlotRecord>>> {
        let now = self.next_use();
        match self.entries.get_mut(conversation)? {
            Entry::Absent => Some(None),
            Entry::OnDisk(_) => None,
            Entry::InMemory { record, disk, .. } => {
                if let Disk::Saved { last_use } = disk {
                    self.droppable.remove(last_use);
                    self.droppable.insert(now, conversation.clone());
                    *last_use = now;
                }
                Some(Some(record.clone()))
            }
        }
    }

    /// Whether the conversation's record was looked up once, found or not.
    pub fn knows(&self, conversation: &ConversationId) -> bool {
        self.entries.contains_key(conversation)
    }

    pub fn summary(&self, conversation: &ConversationId) -> Option<&Summary> {
        match self.entries.get(conversation)? {
            Entry::Absent => None,
            Entry::InMemory { summary, .. } | Entry::OnDisk(summary) => Some(summary),
        }
    }

    /// Sets the conversation's newest record, which is not on disk yet. Returns the snapshots of
    /// the record before.
    pub fn set(&mut self, record: Arc<SlotRecord>) -> Vec<BlockId> {
        let conversation = record.conversation.clone();
        let before = self.take(&conversation);
        let entry = Entry::InMemory { summary: summary(&record), record, disk: Disk::Pending };
        self.entries.insert(conversation, entry);
        before.map_or(Vec::new(), |summary| summary.snapshots)
    }

    /// Puts `record` in the place of this very `pending` record, if it is the newest.
    pub fn replace(&mut self, pending: &SlotRecord, record: Arc<SlotRecord>) {
        if self.disk_of(pending).is_some() {
            self.set(record);
        }
    }

    /// This very record is on disk now, so it may be dropped.
    pub fn mark_saved(&mut self, written: &SlotRecord) {
        let now = self.next_use();
        if let Some(disk) = self.disk_of(written)
            && !matches!(disk, Disk::Saved { .. })
        {
            *disk = Disk::Saved { last_use: now };
            self.bytes += bytes(written);
            self.droppable.insert(now, written.conversation.clone());
            self.shrink_to_budget();
        }
    }

    /// This very record could not be written: it stays in memory and is not pending any more.
    pub fn mark_failed(&mut self, unwritten: &SlotRecord) {
        if let Some(disk) = self.disk_of(unwritten) {
            *disk = Disk::Failed;
        }
    }

    /// Whether the conversation's newest record is still to be written.
    pub fn is_pending(&self, conversation: &ConversationId) -> bool {
        let entry = self.entries.get(conversation);
        matches!(entry, Some(Entry::InMemory { disk: Disk::Pending, .. }))
    }

    /// Adds a record read from disk. Returns the newest one, which may be another.
    pub fn read(&mut self, record: SlotRecord) -> Option<Arc<SlotRecord>> {
        let conversation = record.conversation.clone();
        match self.entries.get(&conversation) {
            Some(Entry::Absent) => return None,
            Some(Entry::InMemory { record, .. }) => return Some(record.clone()),
            Some(Entry::OnDisk(_)) | None => {}
        }
        let record = Arc::new(record);
        self.set(record.clone());
        self.mark_saved(&record);
        Some(record)
    }

    /// Drops the conversation's record. Returns the objects that it named, as far as they are known
    /// here.
    pub fn forget(&mut self, conversation: &ConversationId) -> Vec<BlockId> {
        let named = match self.entries.get(conversation) {
            Some(Entry::InMemory { record, .. }) => record.objects().map(|(id, _)| id).collect(),
            Some(Entry::OnDisk(summary)) => summary.snapshots.clone(),
            Some(Entry::Absent) | None => Vec::new(),
        };
        self.take(conversation);
        self.entries.insert(conversation.clone(), Entry::Absent);
        named
    }

    /// The conversation's slot file was removed: the next lookup reads the disk. A pending record
    /// stays valid: it is newer than the file.
    pub fn slot_removed(&mut self, conversation: &ConversationId) {
        let forgotten = matches!(self.entries.get(conversation), Some(Entry::Absent));
        if !forgotten && !self.is_pending(conversation) {
            self.take(conversation);
        }
    }

    /// The conversation's slot file was replaced: the next lookup reads the disk, also when the
    /// conversation was forgotten before.
    pub fn slot_file_replaced(&mut self, conversation: &ConversationId) {
        self.take(conversation);
    }

    /// All objects of records in memory, and the snapshots of all others.
    pub fn referenced(&self) -> impl Iterator<Item = BlockId> {
        self.entries.values().flat_map(|entry| {
            let (record, summary) = match entry {
                Entry::Absent => (None, None),
                Entry::InMemory { record, .. } => (Some(record), None),
                Entry::OnDisk(summary) => (None, Some(summary)),
            };
            let objects = record.into_iter().flat_map(|record| record.objects());
            let snapshots = summary.into_iter().flat_map(|summary| &summary.snapshots);
            objects.map(|(id, _)| id).chain(snapshots.copied())
        })
    }

    /// Conversations that have a record, and where it is.
    pub fn located(&self) -> impl Iterator<Item = (&ConversationId, Located)> {
        self.entries.iter().filter_map(|(conversation, entry)| match entry {
            Entry::Absent => None,
            Entry::InMemory { record, .. } => {
                Some((conversation, Located::InMemory(record.clone())))
            }
            Entry::OnDisk(summary) => {
                Some((conversation, Located::OnDisk { tokens: summary.tokens }))
            }
        })
    }

    /// The `candidates` that no record here names. Blocks of dropped records are only in slot
    /// files.
    pub fn unreferenced(&self, candidates: impl IntoIterator<Item = BlockId>) -> BTreeSet<BlockId> {
        let mut unreferenced = BTreeSet::from_iter(candidates);
        for id in self.referenced() {
            unreferenced.remove(&id);
        }
        unreferenced
    }

    fn take(&mut self, conversation: &ConversationId) -> Option<Summary> {
        match self.entries.remove(conversation)? {
            Entry::Absent => None,
            Entry::OnDisk(summary) => Some(summary),
            Entry::InMemory { record, summary, disk } => {
                if let Disk::Saved { last_use } = disk {
                    self.droppable.remove(&last_use);
                    self.bytes -= bytes(&record);
                }
                Some(summary)
            }
        }
    }

    /// The state of this very record, if it is the newest.
    fn disk_of(&mut self, record: &SlotRecord) -> Option<&mut Disk> {
        match self.entries.get_mut(&record.conversation)? {
            Entry::InMemory { record: newest, disk, .. } => {
                std::ptr::eq(&raw const **newest, record).then_some(disk)
            }
            Entry::Absent | Entry::OnDisk(_) => None,
        }
    }

    fn shrink_to_budget(&mut self) {
        // The latest one stays: it is about to be used.
        while self.bytes > self.budget_bytes && self.droppable.len() > 1 {
            let (_, conversation) = self.droppable.first_key_value().expect("there are two");
            let conversation = conversation.clone();
            let summary = self.take(&conversation).expect("droppable records are in memory");
            self.entries.insert(conversation, Entry::OnDisk(summary));
        }
    }

    fn next_use(&mut self) -> u64 {
        self.uses += 1;
        self.uses
    }
}

fn summary(record: &SlotRecord) -> Summary {
    Summary {
        class: record.class,
        created_at: record.created_at,
        turns: record.turns,
        tokens: record.tokens.len(),
        snapshots: record.snapshots.iter().map(|snapshot| snapshot.id).collect(),
    }
}

fn bytes(record: &SlotRecord) -> usize {
    4 * record.tokens.len() + 48 * (record.blocks.len() + record.snapshots.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use hob_slots::Token;

    fn record(name: &str, tokens: usize) -> Arc<SlotRecord> {
        Arc::new(SlotRecord {
            conversation: conversation(name),
            class: TtlClass::Long,
            created_at: Timestamp(0),
            used_at: Timestamp(0),
            turns: 7,
            tokens: vec![Token(1); tokens],
            blocks: Vec::new(),
            snapshots: Vec::new(),
            segments: Vec::new(),
        })
    }

    fn conversation(name: &str) -> ConversationId {
        ConversationId::new(name).unwrap()
    }

    fn tokens(records: &mut Records, name: &str) -> Option<usize> {
        records.lookup(&conversation(name)).flatten().map(|record| record.tokens.len())
    }

    #[test]
    fn a_record_that_was_set_outranks_one_read_from_disk() {
        let mut records = Records::default();
        assert!(records.lookup(&conversation("chat")).is_none());
        assert_eq!(records.read(SlotRecord::clone(&record("chat", 1))).unwrap().tokens.len(), 1);
        records.set(record("chat", 2));
        assert_eq!(records.read(SlotRecord::clone(&record("chat", 1))).unwrap().tokens.len(), 2);
    }

    #[test]
    fn a_forgotten_conversation_stays_forgotten_until_it_is_recorded_again() {
        let mut records = Records::default();
        records.set(record("chat", 1));
        records.forget(&conversation("chat"));
        assert_eq!(records.read(SlotRecord::clone(&record("chat", 1))), None);
        assert_eq!(records.lookup(&conversation("chat")), Some(None));
        records.set(record("chat", 2));
        assert_eq!(tokens(&mut records, "chat"), Some(2));
    }

    #[test]
    fn a_removed_slot_file_drops_its_record_unless_a_newer_one_is_pending() {
        let mut records = Records::default();
        let (first, second) = (record("chat", 1), record("chat", 2));
        records.set(first.clone());
        assert!(records.is_pending(&conversation("chat")));
        records.mark_saved(&first);
        records.set(second.clone());
        records.mark_saved(&first); // An older record changes nothing.
        records.slot_removed(&conversation("chat"));
        assert_eq!(tokens(&mut records, "chat"), Some(2));
        records.mark_failed(&second);
        assert!(!records.is_pending(&conversation("chat")));
        assert_eq!(tokens(&mut records, "chat"), Some(2), "memory still has it");
        records.slot_removed(&conversation("chat"));
        assert_eq!(records.lookup(&conversation("chat")), None);
    }

    #[test]
    fn the_least_recently_used_record_is_dropped_and_its_summary_stays() {
        let mut records = Records::with_budget(100);
        for name in ["one", "other"] {
            let record = record(name, 10);
            records.set(record.clone());
            records.mark_saved(&record);
        }
        assert_eq!(tokens(&mut records, "one"), Some(10)); // Used again.
        let third = record("third", 10);
        records.set(third.clone());
        records.mark_saved(&third);

        assert_eq!(records.lookup(&conversation("other")), None, "the disk must be read");
        assert!(records.knows(&conversation("other")));
        assert_eq!(records.summary(&conversation("other")).unwrap().turns, 7);
        assert_eq!(records.located().count(), 3);
        assert_eq!(tokens(&mut records, "one"), Some(10));
        let read = records.read(SlotRecord::clone(&record("other", 10)));
        assert_eq!(read.unwrap().tokens.len(), 10);
    }

    #[test]
    fn records_that_are_not_on_disk_stay_beyond_the_budget() {
        let mut records = Records::with_budget(100);
        let names = ["a", "b", "c", "d"];
        let all = names.map(|name| record(name, 1000));
        all.iter().for_each(|record| drop(records.set(record.clone())));
        assert!(names.iter().all(|name| tokens(&mut records, name) == Some(1000)));

        // An older record that was written changes nothing.
        records.mark_saved(&record("a", 1000));
        all.iter().skip(1).for_each(|record| records.mark_saved(record));
        assert_eq!(
            names.map(|name| tokens(&mut records, name)).map(|n| n.is_some()),
            [true, false, false, true]
        );
    }
}
