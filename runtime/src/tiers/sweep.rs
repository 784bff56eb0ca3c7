//! What a sweep of the disk may not take from a running engine.
//!
//! - What is open stays, and what was recorded while its slot file is still on its way.
//! - An object that a record in memory names stays. While objects go, no record can begin to name
//!   them, and nobody reads them.
//! - It has the lowest priority: running answers have the cores first, and so has what waits to be
//!   saved, until its turn comes.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::panic::resume_unwind;
use std::sync::{Arc, Mutex};

use hob_slots::store::{ObjectName, Store};
use hob_slots::sweep::{LiveRefs, Sweeper, Swept};
use hob_slots::{AdjustedTime, BlockId, ConversationId, ModelHash};

use super::{Counters, Shared, lock, step_back};

/// As a niceness; more than that there is not.
const LOWEST_PRIORITY: i32 = 19;

/// A sweep, and who waits for it.
pub struct Sweep {
    /// Decides and acts.
    pub sweeper: Arc<Mutex<Sweeper>>,
    /// When it is.
    pub moment: AdjustedTime,
    /// Called with what was done, on the keeper's thread.
    pub reply: Box<dyn FnOnce(Swept) + Send>,
}

/// Other work on the directory, with whose consent: called on the keeper's thread, unless nothing is
/// kept on disk.
pub type MaintenanceJob = Box<dyn FnOnce(&Store, &dyn LiveRefs) + Send>;

/// The engine's part in a sweep.
struct Held<'s> {
    shared: &'s Shared,
    open: &'s BTreeSet<ConversationId>,
    names: RefCell<HashMap<BlockId, ObjectName>>,
}

pub(super) fn run(shared: &Shared, open: &BTreeSet<ConversationId>, sweep: Sweep) {
    let swept = match &shared.store {
        Some(store) => {
            let Sweep { sweeper, moment, .. } = &sweep;
            in_the_background(|| lock(sweeper).sweep(store, moment, &Held::new(shared, open)))
        }
        None => Swept::default(),
    };
    Counters::add(&shared.counters.rejected, swept.rejected as u64);
    (sweep.reply)(swept);
}

pub(super) fn maintain(shared: &Shared, open: &BTreeSet<ConversationId>, tending: MaintenanceJob) {
    if let Some(store) = &shared.store {
        tending(store, &Held::new(shared, open));
    }
}

/// Works on a thread of its own that has the lowest priority, and waits for it.
pub fn in_the_background<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let working = scope.spawn(|| {
            step_back(LOWEST_PRIORITY);
            work()
        });
        working.join().unwrap_or_else(|panic| resume_unwind(panic))
    })
}

impl<'s> Held<'s> {
    fn new(shared: &'s Shared, open: &'s BTreeSet<ConversationId>) -> Self {
        Self { shared, open, names: RefCell::default() }
    }

    /// What the file of an object is called: where the directory is sealed, a keyed hash.
    fn name(&self, store: &Store, id: BlockId) -> ObjectName {
        *self.names.borrow_mut().entry(id).or_insert_with(|| store.name(id))
    }

    /// Finds the names of all that memory knows, while nobody waits for it.
    fn learn_names(&self, store: &Store) {
        let recorded: Vec<BlockId> = self.shared.records().named().collect();
        let known: Vec<BlockId> = self.shared.objects().keys().copied().collect();
        for id in recorded.into_iter().chain(known) {
            self.name(store, id);
        }
    }
}

impl LiveRefs for Held<'_> {
    fn is_open(&self, model: ModelHash, conversation: &ConversationId) -> bool {
        let is_awaited = || self.shared.records().is_awaited(conversation);
        model == self.shared.fingerprint && (self.open.contains(conversation) || is_awaited())
    }

    fn slot_left(&self, model: ModelHash, conversation: &ConversationId) {
        if model == self.shared.fingerprint {
            self.shared.records().drop_cancelled(conversation);
        }
    }

    fn slot_changed(&self, model: ModelHash, conversation: &ConversationId) {
        if model == self.shared.fingerprint {
            self.shared.records().ask_again(conversation);
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
        let _nobody_reads = self.shared.removing();
        let released = {
            // As long as this is held, no record can begin to name what is about to go.
            let records = self.shared.records();
            let mut released = objects;
            for id in records.named() {
                released.remove(&self.name(store, id));
            }
            let mut known = self.shared.objects();
            let mut pool = self.shared.pool();
            known.retain(|&id, _| {
                let goes = released.contains(&self.name(store, id));
                if goes {
                    pool.remove(&id);
                }
                !goes
            });
            released
        };
        remove(&released);
    }
}
