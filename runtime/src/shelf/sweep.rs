//! What a sweep of the disk may not take from a running engine.
//!
//! - What is open stays, and what was recorded a moment ago: its slot file may still be on its way.
//! - An object that a record in memory names stays. While objects go, no record can begin to name
//!   them, and nobody reads them.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hob_slots::store::{ObjectName, Store};
use hob_slots::sweep::{Custody, Sweeper, Swept};
use hob_slots::{ConversationId, ModelHash, Moment};

use super::{Counters, Shared, lock};

/// A record that is younger may not be on disk yet.
const JUST_RECORDED: Duration = Duration::from_secs(30);

/// A sweep, and who waits for it.
pub struct Sweep {
    /// Decides and acts.
    pub sweeper: Arc<Mutex<Sweeper>>,
    /// When it is.
    pub moment: Moment,
    /// Called with what was done, on the keeper's thread.
    pub reply: Box<dyn FnOnce(Swept) + Send>,
}

/// Other work on the directory, which goes by the same rules.
pub struct Tending {
    /// When it is.
    pub moment: Moment,
    /// Called on the keeper's thread, unless nothing is kept on disk.
    pub work: Box<Work>,
}

/// What is done, and with whose consent.
type Work = dyn FnOnce(&Store, &dyn Custody) + Send;

/// The engine's part in a sweep.
struct Held<'s> {
    shared: &'s Shared,
    open: &'s BTreeSet<ConversationId>,
    moment: &'s Moment,
}

pub(super) fn run(shared: &Shared, open: &BTreeSet<ConversationId>, sweep: Sweep) {
    let swept = match &shared.store {
        Some(store) => {
            let held = Held { shared, open, moment: &sweep.moment };
            lock(&sweep.sweeper).sweep(store, &sweep.moment, &held)
        }
        None => Swept::default(),
    };
    Counters::add(&shared.counters.rejected, swept.rejected as u64);
    (sweep.reply)(swept);
}

pub(super) fn tend(shared: &Shared, open: &BTreeSet<ConversationId>, tending: Tending) {
    if let Some(store) = &shared.store {
        (tending.work)(store, &Held { shared, open, moment: &tending.moment });
    }
}

impl Custody for Held<'_> {
    fn is_open(&self, model: ModelHash, conversation: &ConversationId) -> bool {
        let just_recorded = || {
            let record = self.shared.records().seen(conversation).flatten();
            record.is_some_and(|record| self.moment.age(record.used_at) < JUST_RECORDED)
        };
        model == self.shared.fingerprint && (self.open.contains(conversation) || just_recorded())
    }

    fn slot_left(&self, model: ModelHash, conversation: &ConversationId) {
        if model == self.shared.fingerprint {
            self.shared.records().let_go(conversation);
        }
    }

    fn slot_changed(&self, model: ModelHash, conversation: &ConversationId) {
        if model == self.shared.fingerprint {
            self.shared.records().ask_again(conversation);
        }
    }

    fn release(
        &self,
        store: &Store,
        model: ModelHash,
        objects: BTreeSet<ObjectName>,
        remove: &mut dyn FnMut(&BTreeSet<ObjectName>),
    ) {
        if model != self.shared.fingerprint {
            return remove(&objects);
        }
        let _nobody_reads = self.shared.removing();
        let released = {
            // As long as this is held, no record can begin to name what is about to go.
            let records = self.shared.records();
            let mut released = objects;
            for id in records.named() {
                released.remove(&store.name(id));
            }
            let mut known = self.shared.objects();
            let mut pool = self.shared.pool();
            known.retain(|&id, _| {
                let goes = released.contains(&store.name(id));
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
