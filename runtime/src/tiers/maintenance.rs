//! Runs maintenance jobs on the writer thread, and protects the engine's KV from them.
//!
//! - Jobs and saves have one order: a job finds what the engine saved before it.
//! - Open conversations stay, and so do those whose record is still to be written.
//! - The draft model's tiers are protected like the model's own.
//! - An object that a conversation of this process refers to or holds stays. While objects are
//!   removed, no new record can name them and no reader reads them.
//! - When the engine stops, the running job ends early and queued jobs are dropped: saves do not wait
//!   behind them.
//! - A sweep runs on the writer thread at the lowest priority: answers have the cores first.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};

use hob_slots::store::{ObjectName, Store, StoreError};
use hob_slots::sweep::{LiveRefs, Sweeper, Swept, collect_now};
use hob_slots::{AdjustedTime, BlockId, ConversationId, Lossy, ModelHash, Object, Timestamp, Use};

use super::counters::Counters;
use super::job::{Job, MaintenanceJob};
use super::locked::{LockedSteps, MAX_IDS};
use super::shared::{Known, Shared};
use crate::backend::Unrounded;
use crate::background::in_the_background;
use parking_lot::Mutex;
use tokio::sync::watch;
use tracing::warn;

/// Queues maintenance jobs, from any thread.
#[derive(Clone)]
pub struct Maintainer {
    jobs: mpsc::Sender<Job>,
    /// Of these tiers, and of those of the draft model.
    stopping: Vec<Arc<AtomicBool>>,
    written: watch::Receiver<u64>,
}

impl Maintainer {
    pub(super) fn new(jobs: mpsc::Sender<Job>, shared: &Shared) -> Self {
        let beside = shared.beside.get().map(|beside| beside.stopping.clone());
        let stopping = std::iter::once(shared.stopping.clone()).chain(beside).collect();
        Self { jobs, stopping, written: shared.written.subscribe() }
    }

    /// Bytes that the writer has written since the start. Ends with it.
    pub fn written_bytes(&self) -> watch::Receiver<u64> {
        self.written.clone()
    }

    /// Saves go first from now on, also those of the draft model: the running job ends early, queued jobs are dropped.
    pub fn stop(&self) {
        self.stopping.iter().for_each(|stopping| stopping.store(true, Ordering::SeqCst));
    }

    /// Queues `job` for the writer thread, which drops it unrun when there is no store or when the
    /// engine stops first.
    pub fn run(&self, job: impl FnOnce(&Store, &dyn LiveRefs) + Send + 'static) {
        self.queue(Box::new(|shared, steps| {
            if let Some(store) = &shared.store {
                job(store, &EngineRefs { shared, steps, may_stop: true });
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
        self.queue(Box::new(move |shared, steps| {
            let swept = shared.store.as_ref().map(|store| {
                in_the_background(|| {
                    sweeper.lock().sweep(store, &now, &EngineRefs { shared, steps, may_stop: true })
                })
            });
            let swept = swept.unwrap_or_default();
            Counters::add(&shared.counters.rejected, swept.rejected as u64);
            reply(swept);
        }));
    }

    /// See `StoreReader::saved_among`. Without a store, none of them has a slot file.
    pub fn saved_among(
        &self,
        conversations: Vec<ConversationId>,
        reply: impl FnOnce((BTreeSet<ConversationId>, Result<(), StoreError>)) + Send + 'static,
    ) {
        self.queue(Box::new(move |shared, _| {
            let saved = shared.store.as_ref().map(|store| store.saved_among(&conversations));
            reply(saved.unwrap_or_else(|| (BTreeSet::new(), Ok(()))));
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

/// The engine's references to the disk. Every lock is taken in a step of normal priority.
struct EngineRefs<'s> {
    shared: &'s Shared,
    steps: &'s LockedSteps,
    /// Whether the work may be left when the engine stops.
    may_stop: bool,
}

/// Removes every object of `model` that neither a slot file nor the engine references. `deleted`: those that a deleted
/// conversation referenced.
pub(super) fn collect(
    shared: &Shared,
    steps: &LockedSteps,
    store: &Store,
    model: ModelHash,
    deleted: &BTreeSet<BlockId>,
) -> Result<(), StoreError> {
    collect_now(store, &EngineRefs { shared, steps, may_stop: false }, model, deleted)
}

/// Tiers that the engine refers to, on the other thread.
#[derive(Clone)]
enum Whose {
    Model,
    DraftModel(Arc<Shared>),
}

impl Whose {
    /// `own`: the tiers of the model.
    fn shared<'s>(&'s self, own: &'s Shared) -> &'s Shared {
        match self {
            Self::Model => own,
            Self::DraftModel(shared) => shared,
        }
    }
}

impl EngineRefs<'_> {
    /// The tiers of `model`; `None`: the engine does not use it.
    fn of(&self, model: ModelHash) -> Option<Whose> {
        if model == self.shared.fingerprint {
            return Some(Whose::Model);
        }
        let beside = self.shared.beside.get()?;
        (beside.fingerprint == model).then(|| Whose::DraftModel(beside.clone()))
    }
}

impl LiveRefs for EngineRefs<'_> {
    fn is_stopping(&self) -> bool {
        self.may_stop && self.shared.stopping.load(Ordering::SeqCst)
    }

    fn is_open(&self, model: ModelHash, conversation: &ConversationId) -> bool {
        let conversation = conversation.clone();
        self.of(model).is_some_and(|whose| {
            self.steps.run(move |own| {
                let shared = whose.shared(own);
                let is_open = shared.open.lock().contains(&conversation);
                let is_renewing = || shared.renewing.lock().contains(&conversation);
                is_open || is_renewing() || shared.records().is_pending(&conversation)
            })
        })
    }

    fn slot_file_removed(&self, model: ModelHash, conversation: &ConversationId) {
        if let Some(whose) = self.of(model) {
            let conversation = conversation.clone();
            self.steps.run(move |own| whose.shared(own).records().slot_removed(&conversation));
        }
    }

    fn slot_file_replaced(&self, model: ModelHash, conversation: &ConversationId) {
        if let Some(whose) = self.of(model) {
            let conversation = conversation.clone();
            self.steps.run(move |own| {
                let shared = whose.shared(own);
                shared.records().slot_file_replaced(&conversation);
                shared.slot_files_unread.store(true, Ordering::SeqCst);
            });
        }
    }

    fn while_none_reads(&self, model: ModelHash, change: &mut dyn FnMut()) {
        let Some(whose) = self.of(model) else { return change() };
        let _no_reads = whose.shared(self.shared).removing();
        change();
    }

    fn objects_lost(&self, _store: &Store, model: ModelHash, objects: &BTreeSet<ObjectName>) {
        let Some(whose) = self.of(model) else { return };
        let names: Vec<ObjectName> = objects.iter().copied().collect();
        for names in names.chunks(MAX_IDS).map(<[_]>::to_vec) {
            let whose = whose.clone();
            self.steps.run(move |own| {
                let shared = whose.shared(own);
                for id in names.iter().filter_map(|name| shared.id_of(name)) {
                    let mut known = shared.objects();
                    // An object in memory is not on its way to the disk: its slot exports it again.
                    if let Some(object) = known.get_mut(&id) {
                        (object.on_disk, object.in_memory) = (false, true);
                    }
                    if !shared.pool().contains(&id) {
                        known.remove(&id);
                    }
                }
            });
        }
    }

    fn can_round(&self, model: ModelHash) -> bool {
        model == self.shared.fingerprint && self.shared.model.facts().memory.is_plain()
    }

    fn rounded(&self, payload: &[u8], lossy: Lossy) -> Option<Vec<u8>> {
        let rounded = self.shared.model.round_state(payload, lossy);
        if rounded == Err(Unrounded::Layout) {
            let counter = &self.shared.counters.unknown_layouts;
            if counter.fetch_add(1, Ordering::Relaxed) == 0 {
                warn!("KV has a layout that is not known: it is not rounded");
            }
        }
        rounded.ok()
    }

    fn block_renamed(
        &self,
        model: ModelHash,
        old: BlockId,
        after: Option<BlockId>,
        object: &Object,
        now: Timestamp,
    ) {
        let Some(whose) = self.of(model) else { return };
        let (id, known) = (object.id(), Known::on_disk(object.file_bytes()));
        let payload = object.payload.clone();
        self.steps.run(move |own| {
            let shared = whose.shared(own);
            shared.learn_names([id]);
            let mut objects = shared.objects();
            let mut pool = shared.pool();
            // The old object leaves memory when it leaves the disk.
            if pool.contains(&old) {
                pool.insert_saved(id, after, payload, Use { now, ..Use::default() });
                objects.insert(id, known);
            }
        });
    }

    fn with_unreferenced(
        &self,
        _store: &Store,
        model: ModelHash,
        objects: BTreeSet<ObjectName>,
        remove: &mut dyn FnMut(&BTreeSet<ObjectName>),
    ) {
        let Some(whose) = self.of(model) else { return remove(&objects) };
        let names: Vec<ObjectName> = objects.into_iter().collect();
        for names in names.chunks(MAX_IDS).map(<[_]>::to_vec) {
            let _no_reads = whose.shared(self.shared).removing();
            let step = whose.clone();
            let (unreferenced, _freed) = self.steps.run(move |own| {
                let shared = step.shared(own);
                // While this is held, no new record can name the objects.
                let records = shared.records();
                let (mut unreferenced, mut freed) = (BTreeSet::new(), Vec::new());
                for name in names {
                    let id = shared.id_of(&name);
                    let is_used = |id| records.refers_to(&id) || shared.pool().is_held(&id);
                    if id.is_some_and(is_used) {
                        continue;
                    }
                    if let Some(id) = id {
                        shared.objects().remove(&id);
                        freed.extend(shared.pool().remove(&id));
                        shared.forget_name(&name);
                    }
                    unreferenced.insert(name);
                }
                (unreferenced, freed)
            });
            remove(&unreferenced);
        }
    }
}
