//! Removal of objects and records.
//!
//! - An object leaves memory before disk, while no new record can name it: a slot that still has the object
//!   in cells exports it again.
//! - An object stays if a slot file of an earlier process names it, or a slot file that maintenance or a new class
//!   replaced: the records do not refer to the object before that file is read. So does an object that the slot file
//!   of a conversation names whose record stays in memory by now.
//! - Slot files are read before the lock that keeps readers from objects is taken.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

use hob_slots::format::SlotRecord;
use hob_slots::store::{Miss, Store, StoreError};
use hob_slots::{BlockId, ConversationId, ModelHash};
use tracing::{debug, warn};

use super::Writer;
use crate::tiers::locked::MAX_IDS;
use crate::tiers::maintenance;

/// Objects removed at a time: no restore reads objects meanwhile.
const MAX_REMOVED: usize = 16;

impl Writer<'_> {
    /// Removes those of the objects that no conversation refers to: from memory, then from disk. What is in memory
    /// alone costs no look at the disk.
    pub(super) fn drop_objects(&self, dropped: &[BlockId]) {
        for candidates in dropped.chunks(MAX_REMOVED) {
            if !self.knows_named() && self.may_be_on_disk(candidates) {
                self.read_named();
            }
            let _no_reads = self.shared.removing();
            let unreferenced = self.drop_from_memory(candidates.iter().copied());
            if !unreferenced.is_empty() {
                self.drop_from_disk(&unreferenced);
            }
        }
    }

    /// Removes a conversation's files under every model (but those of tiers beside these), and the objects that no conversation
    /// refers to any more: those of all its branches.
    pub(super) fn forget(
        &self,
        conversation: &ConversationId,
        named: &[BlockId],
    ) -> Result<(), String> {
        let shared = self.shared;
        self.retries.borrow_mut().forget(conversation);
        // Also where the disk cannot be listed, or has no directory of the model.
        self.drop_from_memory(named.iter().copied());
        let Some(store) = &shared.store else {
            let conversation = conversation.clone();
            self.steps.run(move |shared| shared.records().forgotten(&conversation));
            return Ok(());
        };
        let removed = store.models().and_then(|models| {
            let models = models.into_iter().filter(|&model| shared.is_ours(model));
            let removed: Vec<_> =
                models.map(|model| self.forget_under(store, model, conversation, named)).collect();
            removed.into_iter().collect()
        });
        {
            // A reader that found the slot file before has ended: none brings the record back.
            let _no_reads = shared.removing();
            let conversation = conversation.clone();
            self.steps.run(move |shared| shared.records().forgotten(&conversation));
        }
        removed.map_err(|error: StoreError| {
            warn!(%conversation, %error, "saved KV not removed");
            error.to_string()
        })
    }

    /// `named`: objects of the running model that the conversation referred to.
    fn forget_under(
        &self,
        store: &Store,
        model: ModelHash,
        conversation: &ConversationId,
        named: &[BlockId],
    ) -> Result<(), StoreError> {
        let is_ours = model == self.shared.fingerprint;
        if is_ours {
            self.shared.marks.forget(store, model, conversation)?;
        } else {
            store.unmark_use(model, conversation)?;
        }
        let record = store.get_slot(model, conversation);
        if !is_ours
            && matches!(record, Err(Miss::Absent))
            && store.rejected(model, conversation).is_none()
        {
            return Ok(());
        }
        let on_disk = record.iter().flat_map(SlotRecord::objects).map(|(id, _)| id);
        let mut referenced: BTreeSet<BlockId> = on_disk.collect();
        if is_ours {
            referenced.extend(named);
            self.drop_from_memory(referenced.iter().copied());
            store.remove_slot(model, conversation)?;
            store.forget_quarantined(model, conversation, &referenced)?;
        } else {
            store.forget(model, conversation, &referenced)?;
        }
        maintenance::collect(self.shared, self.steps, store, model, &referenced)
    }

    /// Drops the candidates that no conversation refers to or holds from the memory tier. Returns
    /// those of them that may be on disk.
    fn drop_from_memory(&self, candidates: impl IntoIterator<Item = BlockId>) -> BTreeSet<BlockId> {
        let candidates: Vec<BlockId> = candidates.into_iter().collect();
        let mut all = BTreeSet::new();
        for ids in candidates.chunks(MAX_IDS).map(<[_]>::to_vec) {
            let (unreferenced, _freed) = self.steps.run(move |shared| {
                // While this is held, no new record can name the objects.
                let records = shared.records();
                let mut unreferenced = records.unreferenced(ids);
                unreferenced.retain(|id| !shared.pool().is_held(id));
                let mut freed = Vec::new();
                unreferenced.retain(|id| {
                    freed.extend(shared.pool().remove(id));
                    shared.objects().remove(id).is_none_or(|known| !known.in_memory)
                });
                (unreferenced, freed)
            });
            all.extend(unreferenced);
        }
        self.retries.borrow_mut().drop_objects(&all);
        all
    }

    /// Removes objects that no slot file names, while no reader reads. Where the names are not known, the objects are
    /// left to the sweep.
    fn drop_from_disk(&self, unreferenced: &BTreeSet<BlockId>) {
        let shared = self.shared;
        let Some(store) = shared.store.as_ref().filter(|_| self.knows_named()) else { return };
        let named = self.named.borrow();
        let unnamed = named.iter().flat_map(|named| unreferenced.difference(named));
        match store.remove_objects(shared.fingerprint, unnamed) {
            Ok(removed) => {
                debug!(objects = removed.len(), "removed");
                self.steps.run(move |shared| {
                    let records = shared.records(); // None is put again meanwhile.
                    shared.forget_names(&records.unreferenced(removed));
                });
            }
            Err(error) => warn!(%error, "objects not removed"),
        }
    }

    /// Whether a candidate that no conversation refers to may be on disk.
    fn may_be_on_disk(&self, candidates: &[BlockId]) -> bool {
        let ids = candidates.to_vec();
        self.steps.run(move |shared| {
            let unreferenced = shared.records().unreferenced(ids);
            let objects = shared.objects();
            unreferenced.iter().any(|id| objects.get(id).is_none_or(|known| !known.in_memory))
        })
    }

    /// Whether what [`Self::read_named`] has read is all that counts. Maintenance of the model's tiers, on another
    /// thread, may replace a slot file of the draft model's at any time.
    fn knows_named(&self) -> bool {
        let unread = &self.shared.slot_files_unread;
        !unread.load(Ordering::SeqCst) && self.named.borrow().is_some()
    }

    /// Reads what slot files name. Not under the lock that readers wait for: there may be thousands of files.
    fn read_named(&self) {
        let Some(store) = &self.shared.store else { return };
        self.named.replace(None);
        // Before the files are read: one that is replaced meanwhile is read at the next call.
        self.shared.slot_files_unread.store(false, Ordering::SeqCst);
        let read = store.needed_objects(self.shared.fingerprint);
        let read = read.inspect_err(
            |error| warn!(%error, "slot files cannot be read: superseded objects stay"),
        );
        self.named.replace(read.ok());
    }
}
