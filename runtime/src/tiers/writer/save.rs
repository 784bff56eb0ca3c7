//! Objects and records to disk.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use hob_slots::format::{Object, ObjectKind, SlotRecord};
use hob_slots::{BlockId, ConversationId, Timestamp, TtlClass};
use tracing::{debug, warn};

use super::Writer;
use crate::fault::{self, Place};
use crate::tiers::counters::Counters;
use crate::tiers::records::Unread;
use crate::tiers::retries::Unwritten;
use crate::tiers::shared::{Known, Shared, cleared};
use crate::tiers::successor;

impl Writer<'_> {
    /// Returns whether the object is on disk.
    pub(super) fn write_object(&self, id: BlockId, object: &Object) -> bool {
        let shared = self.shared;
        let Some(store) = &shared.store else { return false };
        fault::point(Place::Writer);
        let file_bytes = object.file_bytes();
        let written = store.put_object(shared.fingerprint, id, object);
        let on_disk = written.is_ok();
        match written {
            Ok(bytes) => shared.count_written(bytes),
            Err(error) => {
                Counters::add(&shared.counters.write_errors, 1);
                warn!(%id, %error, "object not written");
                self.retries.borrow_mut().add_object(id, object);
            }
        }
        self.left_queue(id, on_disk.then(|| Known::on_disk(file_bytes)));
        if object.kind == ObjectKind::Block {
            let bytes = object.payload.len();
            while bytes > 0 && self.steps.run(Shared::needs_spare) {
                let spare = cleared(bytes);
                self.steps.run(move |shared| shared.spares.lock().push(spare));
            }
        }
        on_disk
    }

    /// Writes the record, or what takes its place given the slot file. Returns whether it is on disk.
    pub(super) fn write_successor(
        &self,
        record: Arc<SlotRecord>,
        unread: Option<Unread>,
        dropped: Vec<BlockId>,
    ) -> bool {
        let record = match unread {
            Some(unread) => self.successor(record, unread),
            None => record,
        };
        self.at_hand.replace(Unwritten::Record(record.clone(), unread));
        self.write_record(record, unread, dropped)
    }

    /// The record to write in place of `record`, given the slot file, which may cover it, names other branches
    /// and has the class that was asked for.
    fn successor(&self, record: Arc<SlotRecord>, unread: Unread) -> Arc<SlotRecord> {
        let shared = self.shared;
        let Some(store) = &shared.store else { return record };
        let before = store.get_slot(shared.fingerprint, &record.conversation);
        let Ok(before) = before else { return record };
        let class = if unread.is_default_class { before.class } else { record.class };
        let next = SlotRecord { class, ..(*record).clone() };
        let holds = |&id: &BlockId| {
            store.has_object(shared.fingerprint, id) || self.steps.run(move |it| it.holds(&id))
        };
        let next = if before.covers(&record.adapters, &record.tokens) {
            successor::of_unread(&before, next, holds)
        } else if unread.names_branches {
            next
        } else {
            let timeline = shared.timeline(&next.adapters, &next.tokens, &next.lineage.views);
            successor::beside_unread(&before, next, &timeline, holds)
        };
        let next = Arc::new(next);
        let newest = next.clone();
        self.steps.run(move |shared| {
            shared.learn(&before);
            shared.records().replace(&record, newest);
        });
        next
    }

    fn write_record(
        &self,
        record: Arc<SlotRecord>,
        unread: Option<Unread>,
        dropped: Vec<BlockId>,
    ) -> bool {
        let shared = self.shared;
        if let Some(store) = &shared.store {
            let mut written = SlotRecord::clone(&record);
            // A branch may have been lost with a damaged file; it is computed again when needed.
            written.branches.retain(|object| store.has_object(shared.fingerprint, object.id));
            match store.put_slot(shared.fingerprint, &written) {
                Ok(bytes) => {
                    shared.count_written(bytes);
                    let tokens = record.tokens.len();
                    debug!(conversation = %record.conversation, tokens, "saved");
                    self.steps.run(move |shared| shared.records().mark_saved(&record));
                }
                Err(error) => {
                    Counters::add(&shared.counters.write_errors, 1);
                    warn!(conversation = %record.conversation, %error, "slot file not written");
                    self.not_written(record, unread);
                    return false; // The record before still names them.
                }
            }
        }
        self.drop_objects(&dropped);
        true
    }

    /// The record stays in memory, and is written again.
    pub(super) fn not_written(&self, record: Arc<SlotRecord>, unread: Option<Unread>) {
        self.retries.borrow_mut().add_record(record.clone(), unread);
        self.steps.run(move |shared| shared.records().mark_failed(&record));
    }

    /// Rewrites the conversation's slot file with a later time of use, if it has a slot file.
    pub(super) fn renew(&self, conversation: &ConversationId, at: Timestamp) {
        let shared = self.shared;
        let written = shared.store.as_ref().and_then(|store| {
            let record = store.get_slot(shared.fingerprint, conversation).ok()?;
            let is_older = record.used_at < at;
            let renewed = SlotRecord { used_at: at, ..record };
            is_older.then(|| store.put_slot(shared.fingerprint, &renewed))
        });
        match written {
            None => {} // There is no slot file, or a save has renewed it meanwhile.
            Some(Ok(bytes)) => shared.count_written(bytes),
            Some(Err(error)) => {
                Counters::add(&shared.counters.write_errors, 1);
                warn!(%conversation, %error, "the time of use was not written");
            }
        }
        self.end_renewal(conversation);
    }

    /// Rewrites the conversation's slot file with this class, if it has a slot file.
    pub(super) fn reclass(&self, conversation: &ConversationId, class: TtlClass) {
        let shared = self.shared;
        let Some(store) = &shared.store else { return };
        // A reader looks under the name of each class in turn: it would miss a file that gets another one meanwhile.
        let _no_reads = shared.removing();
        let Ok(record) = store.get_slot(shared.fingerprint, conversation) else { return };
        match store.put_slot(shared.fingerprint, &SlotRecord { class, ..record }) {
            Ok(bytes) => {
                shared.count_written(bytes);
                let conversation = conversation.clone();
                // What the file names is no longer known as that of a record.
                self.steps.run(move |shared| {
                    shared.records().slot_file_replaced(&conversation);
                    shared.slot_files_unread.store(true, Ordering::SeqCst);
                });
            }
            Err(error) => {
                Counters::add(&shared.counters.write_errors, 1);
                warn!(%conversation, %error, "the class was not written");
            }
        }
    }

    pub(super) fn end_renewal(&self, conversation: &ConversationId) {
        let conversation = conversation.clone();
        self.steps.run(move |shared| shared.renewing.lock().remove(&conversation));
    }
}
