//! The pass that keeps the directory small: expire, collect, compress, hold the quota.
//!
//! - It goes over every fingerprint's directory, also those of models that nobody runs now.
//! - What is open is never touched; what memory may be about to name again leaves only with the
//!   consent of whoever has that memory, see [`LiveRefs`].
//! - A sweep is bounded: so many removals, so many bytes compressed. [`Swept::left`] says that there
//!   is more to do.
//! - Whatever fails is reported and keeps nothing else from being done.
//! - The same directory at the same moment always gives the same sweep.

use std::collections::HashSet;
use std::time::Duration;

use crate::ageing::AdjustedTime;
use crate::id::ModelHash;
use crate::store::{ObjectName, SAVE_GRACE, Store, StoreError};
use crate::ttl::Lifetimes;

mod live_refs;
mod pass;
mod quota;
mod removal;
#[cfg(test)]
mod tests;

pub use live_refs::{LiveRefs, NoEngine};
pub use quota::{Quota, rebuild_cost};
pub(crate) use removal::remove_objects;

use pass::Pass;

/// What a sweep goes by.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rules {
    /// When each class is over.
    pub lifetimes: Lifetimes,
    /// Bytes that may be kept, over all fingerprints.
    pub quota: Quota,
    /// Objects whose conversations were silent for so long are compressed; `None`: never.
    pub compress_after: Option<Duration>,
    /// Objects younger than this may be about to be named.
    pub grace: Duration,
    /// Files that one sweep removes at most.
    pub max_removals: usize,
    /// Bytes that one sweep reads at most in order to compress them.
    pub max_compressed_bytes: u64,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            lifetimes: Lifetimes::default(),
            quota: Quota::default(),
            compress_after: Some(Duration::from_secs(60 * 60)),
            grace: SAVE_GRACE,
            max_removals: 4096,
            // A quarter of a second of one core.
            max_compressed_bytes: 64 << 20,
        }
    }
}

/// What a sweep did.
#[derive(Debug, Default)]
pub struct Swept {
    /// Conversations whose time was over.
    pub expired: usize,
    /// Conversations that left because the quota was exceeded.
    pub evicted: usize,
    /// Objects that nobody needed any more.
    pub collected: usize,
    /// Slot files that nobody will ever be able to use: they are in quarantine now.
    pub rejected: usize,
    /// Objects that were compressed.
    pub compressed: usize,
    /// Bytes that are free again.
    pub freed_bytes: u64,
    /// Bytes that are kept now, over all fingerprints.
    pub used_bytes: u64,
    /// The most there may be.
    pub quota_bytes: u64,
    /// Whether a bound was reached before everything was done.
    pub left: bool,
    /// What failed.
    pub errors: Vec<StoreError>,
}

/// Sweeps one directory, again and again.
#[derive(Debug)]
pub struct Sweeper {
    rules: Rules,
    // Objects that compressing does nothing for, or has done all it can.
    settled: HashSet<(ModelHash, ObjectName)>,
}

impl Sweeper {
    /// Goes by `rules`.
    pub fn new(rules: Rules) -> Self {
        Self { rules, settled: HashSet::new() }
    }

    /// What it goes by.
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// Sweeps once.
    pub fn sweep(&mut self, store: &Store, now: &AdjustedTime, live_refs: &dyn LiveRefs) -> Swept {
        let mut pass = Pass::new(store, now, live_refs, self.rules);
        pass.read();
        pass.expire();
        pass.collect();
        pass.compress(&mut self.settled);
        pass.hold_quota();
        pass.done()
    }
}
