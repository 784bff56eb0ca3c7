//! Keeps the directory small: expires, collects, rounds, compresses, holds the quota.
//!
//! - A sweep covers the directory of every model, also of those that do not run.
//! - It never changes a conversation in use, and removes an object only if the engine does not
//!   reference it, see [`LiveRefs`].
//! - Removals and compressed bytes of a sweep are bounded. [`Swept::left`] reports unfinished work.
//! - An error is reported and does not stop the sweep.
//! - The same directory at the same time always gives the same sweep.

use std::collections::HashSet;
use std::time::Duration;

use tracing::warn;

use crate::ageing::AdjustedTime;
use crate::id::ModelHash;
use crate::lossy::Lossy;
use crate::store::{ObjectName, SAVE_GRACE, Store, StoreError};
use crate::ttl::Lifetimes;

mod collect;
mod live_refs;
#[cfg(test)]
pub(crate) mod opens_meanwhile;
mod pass;
mod quota;
mod removal;
#[cfg(test)]
mod tests;

pub use collect::collect_now;
pub use live_refs::{LiveRefs, NoEngine, replace_slot};
pub use quota::{NoRoom, Quota, rebuild_cost, worth};
pub(crate) use removal::Remover;

use pass::{Pass, Rounding};

/// The limits of a sweep.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rules {
    pub lifetimes: Lifetimes,
    /// Over all models.
    pub quota: Quota,
    /// Objects are compressed, and rounded, after their conversations were unused for this long; `None`: never.
    pub compress_after: Option<Duration>,
    /// How the KV of such conversations is rounded; `None`: it is not.
    pub lossy: Option<Lossy>,
    /// Younger unreferenced objects stay: a save may be about to reference them.
    pub grace: Duration,
    /// Files that a sweep removes at most.
    pub max_removals: usize,
    /// Bytes that a sweep reads for compression at most.
    pub max_compressed_bytes: u64,
    /// Bytes that a sweep reads for rounding at most.
    pub max_rounded_bytes: u64,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            lifetimes: Lifetimes::default(),
            quota: Quota::default(),
            compress_after: Some(Duration::from_secs(60 * 60)),
            grace: SAVE_GRACE,
            max_removals: 4096,
            // 0.25 s of one core.
            max_compressed_bytes: 64 << 20,
            lossy: None,
            max_rounded_bytes: 64 << 20,
        }
    }
}

#[cfg(test)]
impl Rules {
    /// The default quota depends on the disk of the machine.
    pub(crate) fn without_quota() -> Self {
        Self { quota: Quota::Bytes(u64::MAX), ..Self::default() }
    }
}

#[derive(Debug, Default)]
pub struct Swept {
    /// Expired conversations removed.
    pub expired: usize,
    /// Conversations removed because of the quota.
    pub evicted: usize,
    /// Unreferenced objects removed.
    pub collected: usize,
    /// Unusable slot files, moved to quarantine.
    pub rejected: usize,
    /// Slot files of a later version of Hob that stay. They keep the objects that they may reference.
    pub later: usize,
    pub compressed: usize,
    /// Conversations whose KV was rounded.
    pub rounded: usize,
    pub freed_bytes: u64,
    /// Over all models, after the sweep.
    pub used_bytes: u64,
    pub quota_bytes: u64,
    /// Why the quota is 0.
    pub no_room: Option<NoRoom>,
    /// Whether a limit was reached before the work was done.
    pub left: bool,
    pub errors: Vec<StoreError>,
}

/// Sweeps a directory repeatedly.
#[derive(Debug)]
pub struct Sweeper {
    rules: Rules,
    // Objects that are compressed or incompressible.
    settled: HashSet<(ModelHash, ObjectName)>,
    rounding: Rounding,
    /// [`Swept::later`] of the sweep before.
    later: usize,
}

impl Sweeper {
    pub fn new(rules: Rules) -> Self {
        Self { rules, settled: HashSet::new(), rounding: Rounding::default(), later: 0 }
    }

    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// The quota of the next sweep.
    pub fn set_quota(&mut self, quota: Quota) {
        self.rules.quota = quota;
    }

    pub fn sweep(&mut self, store: &Store, now: &AdjustedTime, live_refs: &dyn LiveRefs) -> Swept {
        let mut pass = Pass::new(store, now, live_refs, self.rules);
        pass.read();
        pass.expire();
        pass.collect(&self.rounding);
        pass.round(&mut self.rounding, &mut self.settled);
        pass.compress(&mut self.settled);
        pass.hold_quota();
        let swept = pass.done();
        if std::mem::replace(&mut self.later, swept.later) < swept.later {
            warn!(
                files = swept.later,
                "slot files of a later version of Hob: older KV that no other conversation needs stays until they \
                 expire, or that version runs"
            );
        }
        swept
    }
}
