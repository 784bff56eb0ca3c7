//! Objects and records that the writer could not write, because the disk was full or a call panicked, and tries again.
//!
//! - The writer tries again before each record and each flush, and after each maintenance job,
//!   which may have made room. A pass ends at the first object and the first record that fail: a
//!   disk that stays full costs two failed writes a job. These two come last in the next pass.
//! - An object's bytes stay in the memory tier, where they may be evicted. The writer does not try an evicted
//!   object again: the engine computes its tokens when they are needed, and exports them then.
//! - At most [`MAX_OBJECTS`] objects, about a second of a slow disk. Later ones stay in memory alone.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use hob_slots::format::{Object, SlotRecord};
use hob_slots::{BlockId, ConversationId, Payload};

use super::job::Job;
use super::records::Unread;

/// Objects that wait for another attempt.
const MAX_OBJECTS: usize = 1024;

/// What a job leaves unwritten, or undone, when it fails.
#[derive(Debug, Default)]
pub(super) enum Unwritten {
    /// Without its bytes, which are in the memory tier.
    Object(BlockId, Box<Object>),
    Record(Arc<SlotRecord>, Option<Unread>),
    /// An object that failed before. The writer does not try it a third time.
    Retried,
    /// The conversation is marked as being renewed.
    Renewal(ConversationId),
    #[default]
    Nothing,
}

impl Unwritten {
    pub fn of(job: &Job) -> Self {
        match job {
            Job::Object(id, object) => Self::Object(*id, Box::new(without_bytes(object))),
            Job::Record { record, unread, .. } => Self::Record(record.clone(), *unread),
            Job::Renew(conversation, _) => Self::Renewal(conversation.clone()),
            _ => Self::Nothing,
        }
    }
}

/// Objects and records to try again, objects first.
#[derive(Debug, Default)]
pub(super) struct Retries {
    objects: VecDeque<(BlockId, Box<Object>)>,
    records: VecDeque<(Arc<SlotRecord>, Option<Unread>)>,
}

impl Retries {
    /// Does not hold the bytes of `object`.
    pub fn add_object(&mut self, id: BlockId, object: &Object) {
        if self.objects.len() < MAX_OBJECTS {
            self.objects.push_back((id, Box::new(without_bytes(object))));
        }
    }

    pub fn add_record(&mut self, record: Arc<SlotRecord>, unread: Option<Unread>) {
        self.records.retain(|(older, _)| older.conversation != record.conversation);
        self.records.push_back((record, unread));
    }

    /// The conversation was deleted. Another one may need its objects.
    pub fn forget(&mut self, conversation: &ConversationId) {
        self.records.retain(|(record, _)| record.conversation != *conversation);
    }

    /// No conversation refers to these objects any more.
    pub fn drop_objects(&mut self, unreferenced: &BTreeSet<BlockId>) {
        self.objects.retain(|(id, _)| !unreferenced.contains(id));
    }

    pub fn next_object(&mut self) -> Option<(BlockId, Box<Object>)> {
        self.objects.pop_front()
    }

    pub fn next_record(&mut self) -> Option<(Arc<SlotRecord>, Option<Unread>)> {
        self.records.pop_front()
    }
}

fn without_bytes(object: &Object) -> Object {
    Object {
        kind: object.kind,
        model: object.model,
        parent: object.parent,
        start: object.start,
        tokens: object.tokens.clone(),
        payload: Payload::from(Vec::new()),
    }
}
