//! What the engine hands to the tiers: objects, records, and conversations to forget. Memory has all of it at
//! once; the writer's queue has what is for the disk.

use std::collections::BTreeSet;
use std::sync::Arc;

use hob_slots::format::{BranchRef, Object, ObjectKind, SlotRecord};
use hob_slots::{Block, BlockId, ConversationId, Timeline, Timestamp, TtlClass, Use};

use super::KvTiers;
use super::job::Job;
use super::records::Unread;
use super::shared::Known;
use super::successor;
use crate::position::narrow;

/// How a record is kept.
#[derive(Clone, Copy, Debug)]
pub struct RecordOptions {
    /// The record never reaches the disk.
    pub in_memory: bool,
    /// No class is known. The class of a record that was not read yet stays.
    pub is_default_class: bool,
}

/// An object that the engine has exported.
#[derive(Debug)]
pub struct Exported<'c> {
    /// Refers to the object. May be an anonymous turn.
    pub conversation: &'c ConversationId,
    pub id: BlockId,
    /// The block before it, if any.
    pub after: Option<BlockId>,
    pub object: Object,
    /// The request that made it.
    pub usage: Use,
}

impl KvTiers {
    /// Puts an object of a conversation into memory now and, unless it must stay there, onto disk
    /// behind.
    pub fn put(&self, exported: Exported<'_>, in_memory: bool) {
        let Exported { conversation, id, after, object, usage } = exported;
        let known = Known { file_bytes: object.file_bytes(), on_disk: false, in_memory };
        {
            let mut records = self.shared.records(); // The writer forgets no name meanwhile.
            if !in_memory {
                self.shared.learn_names([id]);
            }
            records.put(conversation, placed(id, &object));
        }
        self.shared.objects().insert(id, known);
        self.shared.learn_size(&object);
        if in_memory || self.shared.store.is_none() {
            self.shared.pool().insert_saved(id, after, object.payload, usage);
            self.shared.forget_evicted();
            return;
        }
        {
            let mut pool = self.shared.pool();
            pool.insert(id, after, object.payload.clone(), usage);
            pool.mark_unsaved(&id); // The bytes may have been in memory alone, where they could be evicted.
        }
        self.send(Job::Object(id, Box::new(object)));
    }

    /// A block leaves the cells of a conversation, which refers to it from now on, until a record of the
    /// conversation names it or the conversation is forgotten. Returns `false`, and does nothing, where the
    /// block is neither on disk nor on its way to it.
    pub fn refer(&self, conversation: &ConversationId, block: &Block) -> bool {
        let mut records = self.shared.records(); // Nothing is removed meanwhile.
        if !self.has_disk() || !self.shared.has(&block.id, false) {
            return false;
        }
        records.put(
            conversation,
            BranchRef {
                kind: ObjectKind::Block,
                start: narrow(block.range.start),
                end: narrow(block.range.end),
                id: block.id,
                bytes: self.file_bytes(&block.id),
            },
        );
        true
    }

    /// Keeps an object of a live conversation in memory, where there is no disk for it, until it is released
    /// as often as it was held. Returns `false` where memory has no room for it. What is known of bytes that
    /// a tier has already stays: they may be on disk, or on their way to it, for another conversation.
    pub fn hold(&self, exported: Exported<'_>) -> bool {
        let Exported { conversation, id, after, object, usage } = exported;
        let in_memory = self.has_disk(); // Without a disk nothing is on its way to it.
        let known = Known { file_bytes: object.file_bytes(), on_disk: false, in_memory };
        let placed = placed(id, &object);
        let mut records = self.shared.records(); // Nothing is removed meanwhile.
        let is_new = !self.shared.holds(&id);
        if !self.shared.pool().hold(id, after, object.payload, usage) {
            return false;
        }
        records.put(conversation, placed);
        if is_new {
            self.shared.objects().insert(id, known);
        }
        true
    }

    /// These objects may leave memory from now on, unless another conversation holds them.
    pub fn release(&self, ids: impl IntoIterator<Item = BlockId>) {
        let mut pool = self.shared.pool();
        ids.into_iter().for_each(|id| pool.release(&id));
    }

    /// Records the objects and tokens of a conversation, whose `timeline` begins with these tokens.
    /// Where the tokens are a strict prefix of those that are recorded, the recorded tokens and
    /// objects stay. The record goes on naming the objects of earlier branches.
    ///
    /// # Errors
    /// The objects that no tier holds, because another conversation that named them was forgotten.
    /// Nothing was recorded.
    pub fn record(
        &self,
        record: SlotRecord,
        timeline: &Timeline,
        options: RecordOptions,
    ) -> Result<(), BTreeSet<BlockId>> {
        let RecordOptions { in_memory, is_default_class } = options;
        let mut records = self.shared.records();
        let summary = records.summary(&record.conversation);
        let leaves_memory = !in_memory && summary.is_some_and(|before| before.in_memory);
        let slot_file_stays = in_memory && summary.is_some_and(|before| !before.in_memory);
        let (is_known, unread) = (summary.is_some(), summary.and_then(|before| before.unread));
        let before = records.lookup(&record.conversation);
        let names_branches =
            unread.map_or(is_known && before.is_none(), |before| before.names_branches);
        let before = before.filter(|_| !leaves_memory);
        // The writer reads the slot file that this process has not read, or has dropped.
        let is_before_read = before.is_some() && unread.is_none();
        let has = |id: &BlockId| self.shared.has(id, in_memory);
        let known_class = before.iter().flatten().map(|known| known.class).next();
        let class = known_class.filter(|_| is_default_class).unwrap_or(record.class);
        let record = SlotRecord { class, ..record };
        let covering =
            before.flatten().filter(|before| before.covers(&record.adapters, &record.tokens));
        let (record, dropped) = match covering {
            Some(before) => {
                let record = successor::of_covering(&before, record, has);
                let SlotRecord { adapters, tokens, lineage, .. } = &record;
                let timeline = self.shared.timeline(adapters, tokens, &lineage.views);
                records.set(record, &timeline, has)
            }
            None => {
                let named = record.objects().map(|(id, _)| id);
                let missing: BTreeSet<BlockId> = named.filter(|id| !has(id)).collect();
                if !missing.is_empty() {
                    return Err(missing);
                }
                records.set(record, timeline, has)
            }
        };
        if in_memory {
            records.keep_in_memory(&record);
            self.send(Job::Drop { objects: dropped, slot_file_stays });
        } else {
            let unread = Unread { is_default_class, names_branches };
            let unread = (!is_before_read).then_some(unread);
            unread.into_iter().for_each(|unread| records.mark_unread(&record, unread));
            self.send(Job::Record { record, dropped, unread });
        }
        Ok(())
    }

    /// Records the conversation once more, with this class and all else as it was recorded last: also what this process
    /// has not seen of that. Where the record is on disk alone, the writer thread changes the slot file. Returns `false`
    /// where there is no record.
    pub fn reclass(&self, conversation: &ConversationId, class: TtlClass) -> bool {
        let mut records = self.shared.records();
        let Some(known) = records.lookup(conversation) else {
            self.send(Job::Reclass(conversation.clone(), class));
            return self.has_disk();
        };
        let Some(before) = known else { return false };
        let summary = records.summary(conversation);
        let in_memory = summary.is_some_and(|summary| summary.in_memory);
        let unread = summary.and_then(|summary| summary.unread);
        let record = Arc::new(SlotRecord { class, ..(*before).clone() });
        records.replace(&before, record.clone());
        if in_memory {
            records.keep_in_memory(&record);
            return true;
        }
        let unread = unread.map(|unread| Unread { is_default_class: false, ..unread });
        unread.into_iter().for_each(|unread| records.mark_unread(&record, unread));
        self.send(Job::Record { record, dropped: Vec::new(), unread });
        true
    }

    /// Forgets a conversation in memory now and on disk behind: its record, and the objects of all
    /// its branches that no other conversation refers to. Calls `done` on the writer thread once
    /// the files of all models are durably gone, or with the reason why one is left.
    pub fn forget(
        &self,
        conversation: &ConversationId,
        done: impl FnOnce(Result<(), String>) + Send + 'static,
    ) {
        self.shared.passages.forget(conversation);
        let named = self.shared.records().forget(conversation);
        self.shared.contents.forget(conversation);
        self.send(Job::Forget(conversation.clone(), named, Box::new(done)));
    }

    /// Forgets an anonymous turn, which has no record: the objects that no conversation refers to are dropped.
    pub fn forget_anonymous(&self, turn: &ConversationId) {
        self.shared.passages.forget(turn);
        let named = self.shared.records().forget_unrecorded(turn);
        if !named.is_empty() {
            self.send(Job::Drop { objects: named, slot_file_stays: false });
        }
    }

    /// Writes `at` into the conversation's slot file as the time of its last use. Maintenance
    /// leaves the conversation alone until then.
    pub fn renew(&self, conversation: ConversationId, at: Timestamp) {
        self.shared.renewing.lock().insert(conversation.clone());
        self.send(Job::Renew(conversation, at));
    }
}

/// The object's place in its timeline.
pub(super) fn placed(id: BlockId, object: &Object) -> BranchRef {
    let Object { kind, start, .. } = *object;
    let (start, end) = match kind {
        ObjectKind::Block | ObjectKind::Lossy => (start, start + object.tokens.len() as u32),
        ObjectKind::Snapshot | ObjectKind::Partial => (0, start),
    };
    BranchRef { kind: kind.in_slot_file(), start, end, id, bytes: object.file_bytes() }
}
