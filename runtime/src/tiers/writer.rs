//! Writes behind: objects first, the record that names them after, in the order of the calls. Removes
//! in the same order, so what is kept anew after it was removed is there.
//!
//! - What is about to go leaves memory first, while no record can begin to name it: whoever still
//!   has it in cells exports it again.
//! - Nothing goes that a slot file of an earlier process names.

use std::cell::OnceCell;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, Sender};

use hob_slots::format::{Object, ObjectKind, SlotRecord};
use hob_slots::store::{Store, StoreError};
use hob_slots::{BlockId, ConversationId};
use tracing::{debug, warn};

use super::sweep::{self, MaintenanceJob, Sweep};
use super::{Counters, Known, Shared};

/// What the keeper does, one after the other.
pub(super) enum Job {
    Object(BlockId, Box<Object>),
    /// And the snapshots that it does not name any more.
    Record(Arc<SlotRecord>, Vec<BlockId>),
    /// And what it named.
    Forget(ConversationId, Vec<BlockId>),
    /// Of what is not open.
    Sweep(BTreeSet<ConversationId>, Box<Sweep>),
    /// As above.
    Maintain(BTreeSet<ConversationId>, MaintenanceJob),
    Flush(Sender<()>),
}

pub(super) struct Writer<'s> {
    shared: &'s Shared,
    on_room: &'s dyn Fn(),
    named_before: OnceCell<BTreeSet<BlockId>>,
}

impl<'s> Writer<'s> {
    pub fn new(shared: &'s Shared, on_room: &'s dyn Fn()) -> Self {
        Self { shared, on_room, named_before: OnceCell::new() }
    }

    pub fn run(&self, jobs: &Receiver<Job>) {
        for job in jobs {
            match job {
                Job::Object(id, object) => self.write_object(id, &object),
                Job::Record(record, superseded) => self.write_record(&record, superseded),
                Job::Forget(conversation, named) => self.forget(&conversation, named),
                Job::Sweep(open, sweep) => sweep::run(self.shared, &open, *sweep),
                Job::Maintain(open, tending) => sweep::maintain(self.shared, &open, tending),
                Job::Flush(done) => done.send(()).unwrap_or(()), // Nobody waits any more: fine.
            }
        }
    }

    fn write_object(&self, id: BlockId, object: &Object) {
        let shared = self.shared;
        let Some(store) = &shared.store else { return };
        match store.put_object(shared.fingerprint, id, object) {
            Ok(bytes) => {
                Counters::add(&shared.counters.written_bytes, bytes);
                let file_bytes = object.file_bytes();
                shared.objects().insert(id, Known { file_bytes, on_disk: true });
            }
            Err(error) => {
                Counters::add(&shared.counters.write_errors, 1);
                warn!(%id, %error, "object not written");
            }
        }
        // Also after an error: the disk will not take it, and memory must not grow without bound.
        shared.pool().mark_saved(&id);
        if !shared.is_full() && shared.engine_waits.swap(false, Ordering::SeqCst) {
            (self.on_room)();
        }
        if object.kind == ObjectKind::Block {
            shared.make_spares(object.payload.len());
        }
    }

    fn write_record(&self, record: &SlotRecord, superseded: Vec<BlockId>) {
        let shared = self.shared;
        if let Some(store) = &shared.store {
            match store.put_slot(shared.fingerprint, record) {
                Ok(bytes) => {
                    Counters::add(&shared.counters.written_bytes, bytes);
                    shared.records().mark_saved(record);
                    let tokens = record.tokens.len();
                    debug!(conversation = %record.conversation, tokens, "saved");
                }
                Err(error) => {
                    Counters::add(&shared.counters.write_errors, 1);
                    shared.records().mark_refused(record);
                    warn!(conversation = %record.conversation, %error, "slot file not written");
                    return; // The one before still names them.
                }
            }
        }
        if !superseded.is_empty() {
            self.remove(superseded, |store, ids| match self.named_before(store) {
                Some(named) => store.remove_objects(shared.fingerprint, ids.difference(named)),
                None => Ok(Vec::new()),
            });
        }
    }

    /// Removes what the conversation alone named. What others name stays: equal beginnings have
    /// equal objects.
    fn forget(&self, conversation: &ConversationId, mut named: Vec<BlockId>) {
        let model = self.shared.fingerprint;
        let store = self.shared.store.as_ref();
        if let Some(Ok(record)) = store.map(|store| store.get_slot(model, conversation)) {
            named.extend(record.objects().map(|(id, _)| id));
        }
        self.remove(named, |store, ids| store.forget(model, conversation, ids));
    }

    /// Removes those that no record names, from memory and then from disk.
    fn remove(
        &self,
        candidates: impl IntoIterator<Item = BlockId>,
        from_disk: impl FnOnce(&Store, &BTreeSet<BlockId>) -> Result<Vec<BlockId>, StoreError>,
    ) {
        let shared = self.shared;
        let _nobody_reads = shared.removing();
        let unnamed = {
            // As long as this is held, no record can begin to name what is about to go.
            let records = shared.records();
            let unnamed = records.unnamed(candidates);
            for id in &unnamed {
                shared.pool().remove(id);
                shared.objects().remove(id);
            }
            unnamed
        };
        match shared.store.as_ref().map(|store| from_disk(store, &unnamed)) {
            Some(Ok(removed)) => debug!(objects = removed.len(), "removed"),
            Some(Err(error)) => warn!(%error, "not everything was removed"),
            None => {}
        }
    }

    /// What slot files named when somebody asked first; `None` when that cannot be told.
    fn named_before(&self, store: &Store) -> Option<&BTreeSet<BlockId>> {
        if self.named_before.get().is_none() {
            match store.needed_objects(self.shared.fingerprint) {
                Ok(named) => self.named_before.set(named).expect("it was not set"),
                Err(error) => warn!(%error, "it is not known what other conversations need"),
            }
        }
        self.named_before.get()
    }
}
