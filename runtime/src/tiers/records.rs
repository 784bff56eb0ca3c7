//! The newest record of each conversation, as far as this process has seen it. Pure.
//!
//! - What the engine records counts at once; the disk follows behind.
//! - A conversation that was forgotten stays forgotten, whatever the disk still says of it.
//! - Records that are on disk leave when there are too many, the least recently used first, and are
//!   read again when they are asked for. A summary stays.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use hob_slots::format::SlotRecord;
use hob_slots::{BlockId, ConversationId, Timestamp, TtlClass};

/// Bytes that records on disk may take here: some two hundred conversations of 16,000 tokens.
const BUDGET_BYTES: usize = 16 << 20;

/// What stays of a record when its tokens leave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// How long it deserves its disk space.
    pub class: TtlClass,
    /// When it was first saved.
    pub created_at: Timestamp,
    /// How many turns it has had.
    pub turns: u32,
    /// How long its timeline is.
    pub tokens: usize,
    /// Whole states that it names, which nothing else leads to.
    snapshots: Vec<BlockId>,
}

/// What is known of conversations.
#[derive(Debug)]
pub struct Records {
    budget_bytes: usize,
    entries: BTreeMap<ConversationId, Entry>,
    /// Those whose record may leave, by their last use.
    leaving: BTreeMap<u64, ConversationId>,
    /// Always the sum over `leaving`.
    bytes: usize,
    uses: u64,
}

#[derive(Debug)]
enum Entry {
    /// It has no record, and the disk need not be asked.
    None,
    /// Its record is here.
    Here { record: Arc<SlotRecord>, summary: Summary, disk: Disk },
    /// Its record is on disk alone.
    OnDisk(Summary),
}

/// Whether a record that is here is on disk too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Disk {
    /// It is on its way.
    Awaited,
    /// It could not be written.
    Refused,
    /// It is; its last use.
    Has(u64),
}

impl Default for Records {
    fn default() -> Self {
        Self::with_budget(BUDGET_BYTES)
    }
}

impl Records {
    fn with_budget(budget_bytes: usize) -> Self {
        let (entries, leaving) = Default::default();
        Self { budget_bytes, entries, leaving, bytes: 0, uses: 0 }
    }

    /// The conversation's record, or that it has none; `None` when only the disk can tell. Counts as
    /// a use.
    pub fn seen(&mut self, conversation: &ConversationId) -> Option<Option<Arc<SlotRecord>>> {
        let now = self.next_use();
        match self.entries.get_mut(conversation)? {
            Entry::None => Some(None),
            Entry::OnDisk(_) => None,
            Entry::Here { record, disk, .. } => {
                if let Disk::Has(last_use) = disk {
                    self.leaving.remove(last_use);
                    self.leaving.insert(now, conversation.clone());
                    *last_use = now;
                }
                Some(Some(record.clone()))
            }
        }
    }

    /// Whether it is known what the conversation has, here or on disk.
    pub fn knows(&self, conversation: &ConversationId) -> bool {
        self.entries.contains_key(conversation)
    }

    /// What is known of the conversation's record without reading it.
    pub fn summary(&self, conversation: &ConversationId) -> Option<&Summary> {
        match self.entries.get(conversation)? {
            Entry::None => None,
            Entry::Here { summary, .. } | Entry::OnDisk(summary) => Some(summary),
        }
    }

    /// This is what the conversation is made of now, and not on disk yet. Returns the snapshots that
    /// were named before.
    pub fn set(&mut self, record: Arc<SlotRecord>) -> Vec<BlockId> {
        let conversation = record.conversation.clone();
        let before = self.take(&conversation);
        let entry = Entry::Here { summary: summary(&record), record, disk: Disk::Awaited };
        self.entries.insert(conversation, entry);
        before.map_or(Vec::new(), |summary| summary.snapshots)
    }

    /// This very record is on disk now, so it may leave.
    pub fn mark_saved(&mut self, written: &SlotRecord) {
        let now = self.next_use();
        if let Some(disk) = self.disk_of(written)
            && !matches!(disk, Disk::Has(_))
        {
            *disk = Disk::Has(now);
            self.bytes += bytes(written);
            self.leaving.insert(now, written.conversation.clone());
            self.shrink_to_budget();
        }
    }

    /// This very record could not be written: it stays here, and nothing more is awaited.
    pub fn mark_refused(&mut self, unwritten: &SlotRecord) {
        if let Some(disk) = self.disk_of(unwritten) {
            *disk = Disk::Refused;
        }
    }

    /// Whether the conversation's newest record is on its way to the disk.
    pub fn is_awaited(&self, conversation: &ConversationId) -> bool {
        let entry = self.entries.get(conversation);
        matches!(entry, Some(Entry::Here { disk: Disk::Awaited, .. }))
    }

    /// The disk says so. Returns what counts, which may be newer.
    pub fn read(&mut self, record: SlotRecord) -> Option<Arc<SlotRecord>> {
        let conversation = record.conversation.clone();
        match self.entries.get(&conversation) {
            Some(Entry::None) => return None,
            Some(Entry::Here { record, .. }) => return Some(record.clone()),
            Some(Entry::OnDisk(_)) | None => {}
        }
        let record = Arc::new(record);
        self.set(record.clone());
        self.mark_saved(&record);
        Some(record)
    }

    /// Whatever was recorded does not count any more. Returns the objects that it named, as far as
    /// they are known here.
    pub fn forget(&mut self, conversation: &ConversationId) -> Vec<BlockId> {
        let named = match self.entries.get(conversation) {
            Some(Entry::Here { record, .. }) => record.objects().map(|(id, _)| id).collect(),
            Some(Entry::OnDisk(summary)) => summary.snapshots.clone(),
            Some(Entry::None) | None => Vec::new(),
        };
        self.take(conversation);
        self.entries.insert(conversation.clone(), Entry::None);
        named
    }

    /// Its slot file has left: what was recorded does not count any more, and the disk is asked anew.
    /// A record that is on its way there counts: it was made meanwhile.
    pub fn drop_cancelled(&mut self, conversation: &ConversationId) {
        let forgotten = matches!(self.entries.get(conversation), Some(Entry::None));
        if !forgotten && !self.is_awaited(conversation) {
            self.take(conversation);
        }
    }

    /// Its slot file is another one now, also when it was forgotten before: the disk is asked anew.
    pub fn ask_again(&mut self, conversation: &ConversationId) {
        self.take(conversation);
    }

    /// What records name that may not be on disk yet, and what the others here do.
    pub fn named(&self) -> impl Iterator<Item = BlockId> {
        self.entries.values().flat_map(|entry| {
            let (record, summary) = match entry {
                Entry::None => (None, None),
                Entry::Here { record, .. } => (Some(record), None),
                Entry::OnDisk(summary) => (None, Some(summary)),
            };
            let objects = record.into_iter().flat_map(|record| record.objects());
            let snapshots = summary.into_iter().flat_map(|summary| &summary.snapshots);
            objects.map(|(id, _)| id).chain(snapshots.copied())
        })
    }

    /// Conversations that have a record, and how long their timelines are.
    pub fn conversations(&self) -> impl Iterator<Item = (&ConversationId, usize)> {
        self.entries.iter().filter_map(|(conversation, entry)| match entry {
            Entry::None => None,
            Entry::Here { summary, .. } | Entry::OnDisk(summary) => {
                Some((conversation, summary.tokens))
            }
        })
    }

    /// Those of `candidates` that no record here names. Of records that left, slot files tell.
    pub fn unnamed(&self, candidates: impl IntoIterator<Item = BlockId>) -> BTreeSet<BlockId> {
        let mut unnamed = BTreeSet::from_iter(candidates);
        for id in self.named() {
            unnamed.remove(&id);
        }
        unnamed
    }

    fn take(&mut self, conversation: &ConversationId) -> Option<Summary> {
        match self.entries.remove(conversation)? {
            Entry::None => None,
            Entry::OnDisk(summary) => Some(summary),
            Entry::Here { record, summary, disk } => {
                if let Disk::Has(last_use) = disk {
                    self.leaving.remove(&last_use);
                    self.bytes -= bytes(&record);
                }
                Some(summary)
            }
        }
    }

    /// Where this very record is, if it is the newest.
    fn disk_of(&mut self, record: &SlotRecord) -> Option<&mut Disk> {
        match self.entries.get_mut(&record.conversation)? {
            Entry::Here { record: newest, disk, .. } => {
                std::ptr::eq(&raw const **newest, record).then_some(disk)
            }
            Entry::None | Entry::OnDisk(_) => None,
        }
    }

    fn shrink_to_budget(&mut self) {
        // The last one stays: somebody is about to use it.
        while self.bytes > self.budget_bytes && self.leaving.len() > 1 {
            let (_, conversation) = self.leaving.first_key_value().expect("there are two");
            let conversation = conversation.clone();
            let summary = self.take(&conversation).expect("what may leave is here");
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
        records.seen(&conversation(name)).flatten().map(|record| record.tokens.len())
    }

    #[test]
    fn what_was_recorded_counts_more_than_what_is_read() {
        let mut records = Records::default();
        assert!(records.seen(&conversation("chat")).is_none());
        assert_eq!(records.read(SlotRecord::clone(&record("chat", 1))).unwrap().tokens.len(), 1);
        records.set(record("chat", 2));
        assert_eq!(records.read(SlotRecord::clone(&record("chat", 1))).unwrap().tokens.len(), 2);
    }

    #[test]
    fn what_was_forgotten_stays_forgotten_until_it_is_recorded_again() {
        let mut records = Records::default();
        records.set(record("chat", 1));
        records.forget(&conversation("chat"));
        assert_eq!(records.read(SlotRecord::clone(&record("chat", 1))), None);
        assert_eq!(records.seen(&conversation("chat")), Some(None));
        records.set(record("chat", 2));
        assert_eq!(tokens(&mut records, "chat"), Some(2));
    }

    #[test]
    fn when_its_slot_file_leaves_a_record_goes_unless_it_is_on_its_way_to_the_disk() {
        let mut records = Records::default();
        let (first, second) = (record("chat", 1), record("chat", 2));
        records.set(first.clone());
        assert!(records.is_awaited(&conversation("chat")));
        records.mark_saved(&first);
        records.set(second.clone());
        records.mark_saved(&first); // An older one says nothing of the newest.
        records.drop_cancelled(&conversation("chat"));
        assert_eq!(tokens(&mut records, "chat"), Some(2));
        records.mark_refused(&second);
        assert!(!records.is_awaited(&conversation("chat")));
        assert_eq!(tokens(&mut records, "chat"), Some(2), "memory has it all the same");
        records.drop_cancelled(&conversation("chat"));
        assert_eq!(records.seen(&conversation("chat")), None);
    }

    #[test]
    fn the_least_recently_used_record_leaves_and_its_summary_stays() {
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

        assert_eq!(records.seen(&conversation("other")), None, "the disk must be asked");
        assert!(records.knows(&conversation("other")));
        assert_eq!(records.summary(&conversation("other")).unwrap().turns, 7);
        assert_eq!(records.conversations().count(), 3);
        assert_eq!(tokens(&mut records, "one"), Some(10));
        let read = records.read(SlotRecord::clone(&record("other", 10)));
        assert_eq!(read.unwrap().tokens.len(), 10);
    }

    #[test]
    fn what_is_not_on_disk_stays_whatever_it_takes() {
        let mut records = Records::with_budget(100);
        let names = ["a", "b", "c", "d"];
        let all = names.map(|name| record(name, 1000));
        all.iter().for_each(|record| drop(records.set(record.clone())));
        assert!(names.iter().all(|name| tokens(&mut records, name) == Some(1000)));

        // An older record that was written says nothing of the newest.
        records.mark_saved(&record("a", 1000));
        all.iter().skip(1).for_each(|record| records.mark_saved(record));
        assert_eq!(
            names.map(|name| tokens(&mut records, name)).map(|n| n.is_some()),
            [true, false, false, true]
        );
    }
}
