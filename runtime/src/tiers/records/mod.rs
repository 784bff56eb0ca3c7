//! The newest record of each conversation that this process has seen. Pure.
//!
//! - A record that the engine sets is valid at once; its slot file is written behind.
//! - A forgotten conversation stays forgotten, although its slot file is removed later.
//! - Records that are on disk are dropped beyond a budget, the least recently used first, and read
//!   again when needed. Their summaries stay. Records that must stay in memory count towards the
//!   same budget, and are gone when they are dropped.
//! - From the first call of [`Records::take_left`] on, the names of records that are dropped so, or replaced on
//!   disk, wait for the next call.
//! - Objects are counted by reference, so asking for one never walks the records. A conversation
//!   refers to the objects of its record, those of its earlier branches included, and to those that
//!   were put for it or have left its cells since.

mod entry;
mod references;

use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};
use std::sync::{Arc, Weak};

use hob_slots::branches::carry;
use hob_slots::format::{BranchRef, SlotRecord};
use hob_slots::{BlockId, ConversationId, Timeline};

use entry::{Disk, Entry, bytes, summary};
use references::References;

pub(super) use entry::split;
pub use entry::{Located, Summary, Unread};

#[cfg(test)]
mod tests;

/// Memory for records that are on disk: some two hundred conversations of 16,000 tokens.
const BUDGET_BYTES: usize = 16 << 20;

/// Maximum number of names that wait for [`Records::take_left`]: the last ones.
pub const MAX_LEFT: usize = 512;

#[derive(Debug)]
pub struct Records {
    budget_bytes: usize,
    entries: BTreeMap<ConversationId, Entry>,
    /// Objects put for a conversation since its record, or that have left its cells, in that order; each once.
    unrecorded: BTreeMap<ConversationId, Unrecorded>,
    references: References,
    /// Records that may be dropped, by their last use.
    droppable: BTreeMap<u64, ConversationId>,
    /// Always the sum over `droppable`.
    bytes: usize,
    uses: u64,
    /// What [`Self::take_left`] returns next; `None` before its first call.
    left: Option<VecDeque<(ConversationId, Weak<SlotRecord>)>>,
}

#[derive(Debug, Default)]
struct Unrecorded {
    objects: Vec<BranchRef>,
    /// The names in `objects`.
    names: HashSet<BlockId>,
}

impl Default for Records {
    fn default() -> Self {
        Self::with_budget(BUDGET_BYTES)
    }
}

impl Records {
    pub fn with_budget(budget_bytes: usize) -> Self {
        Self {
            budget_bytes,
            entries: BTreeMap::new(),
            unrecorded: BTreeMap::new(),
            references: References::default(),
            droppable: BTreeMap::new(),
            bytes: 0,
            uses: 0,
            left: None,
        }
    }

    /// The conversation's record, `Some(None)` when there is none, `None` when the disk must be
    /// read. Counts as a use.
    pub fn lookup(&mut self, conversation: &ConversationId) -> Option<Option<Arc<SlotRecord>>> {
        let now = self.next_use();
        match self.entries.get_mut(conversation)? {
            Entry::Absent => Some(None),
            Entry::OnDisk { .. } => None,
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
            Entry::InMemory { summary, .. } | Entry::OnDisk { summary, .. } => Some(summary),
        }
    }

    /// An object was put for the conversation or has left its cells, and its next record is to name it.
    pub fn put(&mut self, conversation: &ConversationId, object: BranchRef) {
        let unrecorded = self.unrecorded.entry(conversation.clone()).or_default();
        if unrecorded.names.insert(object.id) {
            self.references.add(object.id);
            unrecorded.objects.push(object);
        }
    }

    /// Sets the conversation's newest record, which is not on disk yet. It goes on naming what the
    /// record before and the objects put since have of other branches. `timeline`: the record's
    /// tokens. `holds`: whether a tier has a snapshot. Returns the record, and the objects that the
    /// conversation no longer refers to.
    pub fn set(
        &mut self,
        mut record: SlotRecord,
        timeline: &Timeline,
        holds: impl Fn(&BlockId) -> bool,
    ) -> (Arc<SlotRecord>, Vec<BlockId>) {
        let conversation = record.conversation.clone();
        let (own, older) = self.take(&conversation).map_or_else(Default::default, Entry::objects);
        let unrecorded = self.take_unrecorded(&conversation);
        let dropped = carry(&mut record, timeline, [own, unrecorded].concat(), older, holds);
        let record = Arc::new(record);
        self.insert(record.clone());
        (record, dropped)
    }

    /// Puts `record` in the place of this very `pending` record, if it is the newest.
    pub fn replace(&mut self, pending: &SlotRecord, record: Arc<SlotRecord>) {
        if self.disk_of(pending).is_some() {
            self.take(&record.conversation);
            self.insert(record);
        }
    }

    /// This very record was made without the slot file before it.
    pub fn mark_unread(&mut self, record: &SlotRecord, unread: Unread) {
        if let Some(Entry::InMemory { summary, .. }) = self.entries.get_mut(&record.conversation) {
            summary.unread = Some(unread);
        }
    }

    /// This very record must not reach the disk; it may be dropped.
    pub fn keep_in_memory(&mut self, record: &Arc<SlotRecord>) {
        if let Some(Entry::InMemory { summary, .. }) = self.entries.get_mut(&record.conversation) {
            summary.in_memory = true;
        }
        self.mark_saved(record);
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
            if let Some(Entry::InMemory { summary, .. }) =
                self.entries.get_mut(&written.conversation)
            {
                summary.unread = None;
            }
            self.shrink_to_budget();
        }
    }

    /// This very record could not be written: it stays in memory and is not pending any more.
    pub fn mark_failed(&mut self, unwritten: &SlotRecord) {
        if let Some(disk @ Disk::Pending) = self.disk_of(unwritten) {
            *disk = Disk::Failed;
        }
    }

    /// This very record is written again. `false`: it did not fail, or there is a newer one.
    pub fn mark_pending(&mut self, unwritten: &SlotRecord) -> bool {
        let disk = self.disk_of(unwritten);
        let failed = disk.filter(|disk| matches!(disk, Disk::Failed));
        failed.map(|disk| *disk = Disk::Pending).is_some()
    }

    /// Whether the conversation's newest record is still to be written.
    pub fn is_pending(&self, conversation: &ConversationId) -> bool {
        let entry = self.entries.get(conversation);
        matches!(entry, Some(Entry::InMemory { disk: Disk::Pending, .. }))
    }

    /// Adds a record read from disk. Returns the newest one, which may be another.
    pub fn read(&mut self, record: SlotRecord) -> Option<Arc<SlotRecord>> {
        match self.entries.get(&record.conversation) {
            Some(Entry::Absent) => return None,
            Some(Entry::InMemory { record, .. }) => return Some(record.clone()),
            Some(Entry::OnDisk { .. }) | None => {}
        }
        let record = Arc::new(record);
        self.take(&record.conversation);
        self.insert(record.clone());
        self.mark_saved(&record);
        Some(record)
    }

    /// Drops the conversation's record. Returns the objects that it referred to, as far as they are
    /// known here.
    pub fn forget(&mut self, conversation: &ConversationId) -> Vec<BlockId> {
        let (own, older) = self.take(conversation).map_or_else(Default::default, Entry::objects);
        let unrecorded = self.take_unrecorded(conversation);
        self.entries.insert(conversation.clone(), Entry::Absent);
        [own, unrecorded, older].concat().into_iter().map(|object| object.id).collect()
    }

    /// Drops the references of a turn that is never recorded. Returns the objects that the turn referred to.
    pub fn forget_unrecorded(&mut self, turn: &ConversationId) -> Vec<BlockId> {
        self.take_unrecorded(turn).into_iter().map(|object| object.id).collect()
    }

    /// The files of a forgotten conversation are gone: the next lookup reads the disk.
    pub fn forgotten(&mut self, conversation: &ConversationId) {
        if matches!(self.entries.get(conversation), Some(Entry::Absent)) {
            self.entries.remove(conversation);
        }
    }

    /// The conversation's slot file was removed: the next lookup reads the disk. A pending record
    /// stays valid: the record is newer than the file.
    pub fn slot_removed(&mut self, conversation: &ConversationId) {
        let forgotten = matches!(self.entries.get(conversation), Some(Entry::Absent));
        if !forgotten && !self.is_pending(conversation) {
            self.take(conversation);
        }
    }

    /// The conversation's slot file was replaced: the next lookup reads the disk. A pending record stays
    /// valid, and its objects stay referred to: that record replaces the file. A forgotten conversation stays
    /// forgotten: its deletion removes the file.
    pub fn slot_file_replaced(&mut self, conversation: &ConversationId) {
        self.slot_removed(conversation);
        self.leave(conversation, Weak::new());
    }

    /// The conversations whose record was dropped or replaced on disk since the last call, the latest at the end;
    /// none at the first call. A record that was dropped is with them as long as others hold it.
    pub fn take_left(&mut self) -> VecDeque<(ConversationId, Weak<SlotRecord>)> {
        self.left.replace(VecDeque::new()).unwrap_or_default()
    }

    /// Whether a conversation of this process refers to the object.
    pub fn refers_to(&self, object: &BlockId) -> bool {
        self.references.contains(object)
    }

    /// Conversations that have a record, and where it is.
    pub fn located(&self) -> impl Iterator<Item = (&ConversationId, Located)> {
        self.entries.iter().filter_map(|(conversation, entry)| match entry {
            Entry::Absent => None,
            Entry::InMemory { record, .. } => {
                Some((conversation, Located::InMemory(record.clone())))
            }
            Entry::OnDisk { summary, .. } => {
                Some((conversation, Located::OnDisk { tokens: summary.tokens }))
            }
        })
    }

    /// The records in memory, and whether each must not reach the disk.
    pub fn in_memory(&self) -> impl Iterator<Item = (Arc<SlotRecord>, bool)> {
        self.entries.values().filter_map(|entry| match entry {
            Entry::InMemory { record, summary, .. } => Some((record.clone(), summary.in_memory)),
            Entry::Absent | Entry::OnDisk { .. } => None,
        })
    }

    /// The `candidates` that no conversation of this process refers to.
    pub fn unreferenced(&self, candidates: impl IntoIterator<Item = BlockId>) -> BTreeSet<BlockId> {
        candidates.into_iter().filter(|object| !self.refers_to(object)).collect()
    }

    /// Inserts a record that is not on disk yet, in place of none.
    fn insert(&mut self, record: Arc<SlotRecord>) {
        for (object, _) in record.objects() {
            self.references.add(object);
        }
        let conversation = record.conversation.clone();
        let entry = Entry::InMemory { summary: summary(&record), record, disk: Disk::Pending };
        self.entries.insert(conversation, entry);
    }

    fn take(&mut self, conversation: &ConversationId) -> Option<Entry> {
        let entry = self.entries.remove(conversation)?;
        if let Entry::InMemory { record, disk: Disk::Saved { last_use }, .. } = &entry {
            self.droppable.remove(last_use);
            self.bytes -= bytes(record);
        }
        match &entry {
            Entry::Absent => return None,
            Entry::InMemory { record, .. } => {
                self.references.release(record.objects().map(|(id, _)| id));
            }
            Entry::OnDisk { own, older, .. } => {
                self.references.release(own.iter().chain(older).map(|object| object.id));
            }
        }
        Some(entry)
    }

    fn take_unrecorded(&mut self, conversation: &ConversationId) -> Vec<BranchRef> {
        let Unrecorded { objects, .. } = self.unrecorded.remove(conversation).unwrap_or_default();
        self.references.release(objects.iter().map(|object| object.id));
        objects
    }

    /// The state of this very record, if it is the newest.
    fn disk_of(&mut self, record: &SlotRecord) -> Option<&mut Disk> {
        match self.entries.get_mut(&record.conversation)? {
            Entry::InMemory { record: newest, disk, .. } => {
                std::ptr::eq(&raw const **newest, record).then_some(disk)
            }
            Entry::Absent | Entry::OnDisk { .. } => None,
        }
    }

    fn shrink_to_budget(&mut self) {
        // The latest record stays: it is about to be used.
        while self.bytes > self.budget_bytes && self.droppable.len() > 1 {
            let (_, conversation) = self.droppable.first_key_value().expect("there are two");
            let conversation = conversation.clone();
            if matches!(self.summary(&conversation), Some(summary) if summary.in_memory) {
                self.take(&conversation);
                continue;
            }
            let Some(Entry::InMemory { summary, record, .. }) = self.entries.remove(&conversation)
            else {
                unreachable!("droppable records are in memory");
            };
            self.droppable.pop_first();
            self.bytes -= bytes(&record);
            let (own, older) = split(&record); // Their references stay counted.
            self.leave(&conversation, Arc::downgrade(&record));
            self.entries.insert(conversation, Entry::OnDisk { summary, own, older });
        }
    }

    /// The conversation's record is on disk alone from now on.
    fn leave(&mut self, conversation: &ConversationId, record: Weak<SlotRecord>) {
        let Some(left) = &mut self.left else { return };
        left.push_back((conversation.clone(), record));
        if left.len() > MAX_LEFT {
            left.pop_front();
        }
    }

    fn next_use(&mut self) -> u64 {
        self.uses += 1;
        self.uses
    }
}
