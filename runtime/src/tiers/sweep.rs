//! Protects a running engine's KV from a sweep of the disk.
//!
//! - Open conversations stay, and so do those whose record is still to be written.
//! - An object that a record in memory names stays. While objects are removed, no new record can
//!   name them and no reader reads them.
//! - A sweep runs on the writer thread at the lowest priority: answers have the cores first.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use hob_slots::store::{ObjectName, Store};
use hob_slots::sweep::{LiveRefs, Sweeper, Swept};
use hob_slots::{AdjustedTime, BlockId, ConversationId, ModelHash};

use super::background::in_the_background;
use super::shared::{Counters, Shared};
use parking_lot::Mutex;

pub struct Sweep {
    pub sweeper: Arc<Mutex<Sweeper>>,
    pub now: AdjustedTime,
    /// Called on the writer thread.
    pub reply: Box<dyn FnOnce(Swept) + Send>,
}

/// A maintenance job; runs on the writer thread, or never when there is no store.
pub type MaintenanceJob = Box<dyn FnOnce(&Store, &dyn LiveRefs) + Send>;

/// The engine's references to the disk.
struct EngineRefs<'s> {
    shared: &'s Shared,
    open: &'s BTreeSet<ConversationId>,
    names: RefCell<HashMap<BlockId, ObjectName>>,
}

pub(super) fn run(shared: &Shared, open: &BTreeSet<ConversationId>, sweep: Sweep) {
    let swept = match &shared.store {
        Some(store) => {
            let Sweep { sweeper, now, .. } = &sweep;
            in_the_background(|| {
                let mut sweeper = sweeper.lock();
                sweeper.sweep(store, now, &EngineRefs::new(shared, open))
            })
        }
        None => Swept::default(),
    };
    Counters::add(&shared.counters.rejected, swept.rejected as u64);
    (sweep.reply)(swept);
}

pub(super) fn maintain(shared: &Shared, open: &BTreeSet<ConversationId>, job: MaintenanceJob) {
    if let Some(store) = &shared.store {
        job(store, &EngineRefs::new(shared, open));
    }
}

impl<'s> EngineRefs<'s> {
    fn new(shared: &'s Shared, open: &'s BTreeSet<ConversationId>) -> Self {
        Self { shared, open, names: RefCell::default() }
    }

    /// The object's file name: where the directory is sealed, a keyed hash.
    fn name(&self, store: &Store, id: BlockId) -> ObjectName {
        *self.names.borrow_mut().entry(id).or_insert_with(|| store.name(id))
    }

    /// Computes the file names of all known objects before a lock is taken.
    fn learn_names(&self, store: &Store) {
        let recorded: Vec<BlockId> = self.shared.records().referenced().collect();
        let known: Vec<BlockId> = self.shared.objects().keys().copied().collect();
        for id in recorded.into_iter().chain(known) {
            self.name(store, id);
        }
    }
}

impl LiveRefs for EngineRefs<'_> {
    fn is_open(&self, model: ModelHash, conversation: &ConversationId) -> bool {
        let is_pending = || self.shared.records().is_pending(conversation);
        model == self.shared.fingerprint && (self.open.contains(conversation) || is_pending())
    }

    fn slot_file_removed(&self, model: ModelHash, conversation: &ConversationId) {
        if model == self.shared.fingerprint {
            self.shared.records().slot_removed(conversation);
        }
    }

    fn slot_file_replaced(&self, model: ModelHash, conversation: &ConversationId) {
        if model == self.shared.fingerprint {
            self.shared.records().slot_file_replaced(conversation);
        }
    }

    fn objects_lost(&self, store: &Store, model: ModelHash, objects: &BTreeSet<ObjectName>) {
        if model != self.shared.fingerprint {
            return;
        }
        self.learn_names(store);
        let mut known = self.shared.objects();
        let pool = self.shared.pool();
        known.retain(|id, known| {
            let lost = objects.contains(&self.name(store, *id));
            known.on_disk &= !lost;
            !lost || pool.contains(id)
        });
    }

    fn with_unreferenced(
        &self,
        store: &Store,
        model: ModelHash,
        objects: BTreeSet<ObjectName>,
        remove: &mut dyn FnMut(&BTreeSet<ObjectName>),
    ) {
        if model != self.shared.fingerprint {
            return remove(&objects);
        }
        self.learn_names(store);
        let _no_reads = self.shared.removing();
        let unreferenced = {
            // While this is held, no new record can name the objects.
            let records = self.shared.records();
            let mut unreferenced = objects;
            for id in records.referenced() {
                unreferenced.remove(&self.name(store, id));
            }
            let mut known = self.shared.objects();
            let mut pool = self.shared.pool();
            known.retain(|&id, _| {
                let goes = unreferenced.contains(&self.name(store, id));
                if goes {
                    pool.remove(&id);
                }
                !goes
            });
            unreferenced
        };
        remove(&unreferenced);
    }
}
