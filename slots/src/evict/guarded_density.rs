//! Hit density, guarded by LRU: the default policy.
//!
//! - Both run as shadow caches of names and see every use. The policy with more recent hits
//!   chooses.
//! - Switching needs a margin, so two equal policies do not alternate.
//! - A block counts once a run, however often the run reports it.

use super::density::{Density, Queue};
use super::lru::Lru;
use super::{Answer, BlockMeta, Cache, History, Name, Policy};
use crate::time::Timestamp;

/// After this many budgets of uses a hit counts for 1/e.
const MEMORY_BUDGETS: f64 = 40.0;

/// The margin, as a share of the remembered uses.
const MARGIN: f64 = 0.001;

/// Two shadow caches, and the cached blocks in the order of each policy.
#[derive(Clone, Debug)]
pub struct GuardedDensity<Id> {
    lru_shadow: Cache<Id, Lru<Id>>,
    density_shadow: Cache<Id, Density<Id>>,
    lru: Lru<Id>,
    density: Queue<Id>,
    // Hits of density less hits of LRU, in bytes.
    lead_bytes: f64,
    memory_bytes: f64,
    trusts_density: bool,
    guard: Guard,
}

/// What the guard compares, since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Guard {
    /// Whether density chooses now; LRU does otherwise.
    pub trusts_density: bool,
    /// How often the choice has changed.
    pub switches: u64,
    pub runs: u64,
    /// Bytes of all uses.
    pub used_bytes: u64,
    /// The part of `used_bytes` that a memory under hit density alone would have had.
    pub density_hit_bytes: u64,
    /// The part of `used_bytes` that a memory under LRU alone would have had.
    pub lru_hit_bytes: u64,
}

impl<Id: Name> GuardedDensity<Id> {
    /// Knows nothing.
    pub fn new(budget_bytes: u64) -> Self {
        Self::with_history(budget_bytes, &History::default())
    }

    /// With what was learned before, here or elsewhere.
    pub fn with_history(budget_bytes: u64, history: &History) -> Self {
        let density = Density::with_history(budget_bytes, history);
        Self {
            lru_shadow: Cache::new(Lru::default(), budget_bytes),
            density_shadow: Cache::new(density, budget_bytes),
            lru: Lru::default(),
            density: Queue::default(),
            lead_bytes: 0.0,
            memory_bytes: (budget_bytes as f64 * MEMORY_BUDGETS).max(1.0),
            trusts_density: true,
            guard: Guard::default(),
        }
    }

    /// Whether density chooses now.
    pub fn trusts_density(&self) -> bool {
        self.trusts_density
    }

    fn compare(&mut self, id: Id, meta: &BlockMeta<Id>, now: Timestamp) {
        let learner = self.density_shadow.policy();
        if learner.learned().is_again(&id, &meta.run) {
            return learner.hit(id, meta, now); // Only its class may be new.
        }
        let any = |_: &Id| true;
        let lru = self.lru_shadow.ask(id, meta, now, &any) == Answer::Hit;
        let density = self.density_shadow.ask(id, meta, now, &any) == Answer::Hit;
        self.guard.used_bytes += meta.bytes;
        self.guard.density_hit_bytes += if density { meta.bytes } else { 0 };
        self.guard.lru_hit_bytes += if lru { meta.bytes } else { 0 };
        let bytes = meta.bytes as f64;
        self.lead_bytes *= (-bytes / self.memory_bytes).exp();
        self.lead_bytes += bytes * (f64::from(u8::from(density)) - f64::from(u8::from(lru)));
        let margin = self.memory_bytes * MARGIN;
        if self.lead_bytes.abs() > margin {
            let before = std::mem::replace(&mut self.trusts_density, self.lead_bytes > 0.0);
            self.guard.switches += u64::from(before != self.trusts_density);
        }
    }
}

impl<Id: Name> Policy<Id> for GuardedDensity<Id> {
    fn hit(&mut self, id: Id, meta: &BlockMeta<Id>, now: Timestamp) {
        self.compare(id, meta, now);
        self.lru.hit(id, meta, now);
        if let Some(class) = self.density_shadow.policy().learned().class(&id) {
            self.density.used(&id, class, now);
        }
    }

    fn inserted(&mut self, id: Id, meta: &BlockMeta<Id>, now: Timestamp) {
        self.compare(id, meta, now);
        self.lru.inserted(id, meta, now);
        let class = self.density_shadow.policy().learned().class(&id);
        self.density.inserted(id, meta.parent, class.unwrap_or_default(), now);
    }

    fn passed(&mut self, id: Id, meta: &BlockMeta<Id>, now: Timestamp) {
        self.compare(id, meta, now);
    }

    fn removed(&mut self, id: Id) {
        self.lru.removed(id);
        self.density.removed(&id);
    }

    fn declines(&self) -> bool {
        self.trusts_density
    }

    fn guard(&self) -> Option<Guard> {
        let runs = self.density_shadow.policy_ref().runs();
        Some(Guard { trusts_density: self.trusts_density, runs, ..self.guard })
    }

    fn history(&self) -> Option<History> {
        Some(self.density_shadow.policy_ref().history())
    }

    fn victim(&mut self, now: Timestamp, may_leave: &dyn Fn(&Id) -> bool) -> Option<Id> {
        if self.trusts_density {
            self.density.lowest(self.density_shadow.policy().learned(), now, may_leave)
        } else {
            self.lru.victim(now, may_leave)
        }
    }
}
