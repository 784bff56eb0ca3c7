//! Runs maintenance jobs on the writer thread, and protects the engine's KV from them.
//!
//! - Jobs and saves have one order: a job finds what the engine saved before it.
//! - Open conversations stay, and so do those whose record is still to be written.
//! - An object that a record in memory names stays. While objects are removed, no new record can
//!   name them and no reader reads them.
//! - When the engine stops, the running job leaves what it can and queued ones are dropped: saves
//!   are not behind them.
//! - A sweep runs on the writer thread at the lowest priority: answers have the cores first.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};

use hob_slots::store::{ObjectName, Store, StoreError};
use hob_slots::sweep::{LiveRefs, Sweeper, Swept, collect_now};
use hob_slots::{AdjustedTime, BlockId, ConversationId, ModelHash, Timestamp};

use super::background::in_the_background;
use super::shared::{Counters, Shared};
use super::writer::Job;
use parking_lot::Mutex;

/// Queues maintenance jobs, from any thread.
#[derive(Clone)]
pub struct Maintainer {
    jobs: mpsc::Sender<Job>,
    stopping: Arc<AtomicBool>,
}

/// Runs on the writer thread.
pub(super) type MaintenanceJob = Box<dyn FnOnce(&Shared) + Send>;

impl Maintainer {
    pub(super) fn new(jobs: mpsc::Sender<Job>, stopping: Arc<AtomicBool>) -> Self {
        Self { jobs, stopping }
    }

    /// Saves go first from now on: the running job leaves what it can, queued ones are dropped.
    pub fn stop(&self) {
        self.stopping.store(true, Ordering::SeqCst);
    }

    /// Queues `job` for the writer thread, which drops it unrun when there is no store or when the
    /// engine stops first.
    pub fn run(&self, job: impl FnOnce(&Store, &dyn LiveRefs) + Send + 'static) {
        self.queue(Box::new(|shared| {
            if let Some(store) = &shared.store {
                job(store, &EngineRefs::new(shared));
            }
        }));
    }

    /// Sweeps the directory at the lowest priority. Without a store nothing is swept.
    pub fn sweep(
        &self,
        sweeper: Arc<Mutex<Sweeper>>,
        now: AdjustedTime,
        reply: impl FnOnce(Swept) + Send + 'static,
    ) {
        self.queue(Box::new(move |shared| {
            let swept = shared.store.as_ref().map(|store| {
                in_the_background(|| sweeper.lock().sweep(store, &now, &EngineRefs::new(shared)))
            });
            let swept = swept.unwrap_or_default();
            Counters::add(&shared.counters.rejected, swept.rejected as u64);
            reply(swept);
        }));
    }

    /// Writes `at` into the conversation's slot file as the time of its last use.
    pub fn renew(&self, conversation: ConversationId, at: Timestamp) {
        // An error: the writer has ended.
        self.jobs.send(Job::Renew(conversation, at)).ok();
    }

    fn queue(&self, job: MaintenanceJob) {
        self.jobs.send(Job::Maintain(job)).ok(); // An error: the writer has ended.
    }
}

/// The engine's references to the disk.
struct EngineRefs<'s> {
    shared: &'s Shared,
    names: RefCell<HashMap<BlockId, ObjectName>>,
}

/// Removes every object of `model` that neither a slot file nor the engine references.
pub(super) fn collect(shared: &Shared, store: &Store, model: ModelHash) -> Result<(), StoreError> {
    collect_now(store, &EngineRefs::new(shared), model)
}

impl<'s> EngineRefs<'s> {
    fn new(shared: &'s Shared) -> Self {
        Self { shared, names: RefCell::default() }
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
    fn is_stopping(&self) -> bool {
        self.shared.stopping.load(Ordering::SeqCst)
    }

    fn is_open(&self, model: ModelHash, conversation: &ConversationId) -> bool {
        let is_open = || self.shared.open.lock().contains(conversation);
        let is_renewing = || self.shared.renewing.lock().contains(conversation);
        let is_pending = || self.shared.records().is_pending(conversation);
        model == self.shared.fingerprint && (is_open() || is_pending() || is_renewing())
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
