//! Blocks and snapshots in host memory, under a budget.
//!
//! - Unsaved bytes are never evicted, even over budget.
//! - Saved bytes are evicted as soon as the pool is over budget, chosen by an
//!   [`evict`](crate::evict) policy. The blocks before an unsaved one stay with it.
//! - Pure: no locks, no clock. The same calls always leave the same bytes.

use std::collections::HashMap;

use crate::evict::guarded_density::GuardedDensity;
use crate::evict::{BlockMeta, Policy, Run};
use crate::id::BlockId;
use crate::payload::Payload;
use crate::time::Timestamp;

#[derive(Debug)]
pub struct WarmPool {
    budget_bytes: u64,
    // Always the sum over `entries`, so checking the budget needs no walk.
    bytes: u64,
    unsaved_bytes: u64,
    entries: HashMap<BlockId, Entry>,
    policy: Box<dyn Policy<BlockId>>,
    // The last time in a call.
    now: Timestamp,
}

#[derive(Debug)]
struct Entry {
    payload: Payload,
    saved: bool,
    parent: Option<BlockId>,
}

/// A use of a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Use {
    /// The request, if known.
    pub run: Run,
    pub now: Timestamp,
}

impl WarmPool {
    /// With the default policy.
    pub fn new(budget_bytes: u64) -> Self {
        Self::with_policy(budget_bytes, Box::new(GuardedDensity::new(budget_bytes)))
    }

    pub fn with_policy(budget_bytes: u64, policy: Box<dyn Policy<BlockId>>) -> Self {
        Self {
            budget_bytes,
            bytes: 0,
            unsaved_bytes: 0,
            entries: HashMap::new(),
            policy,
            now: Timestamp::default(),
        }
    }

    /// Inserts bytes that exist nowhere else; they stay until [`WarmPool::mark_saved`]. Bytes
    /// already in the pool stay: equal names mean equal bytes. `parent`: the block before, if any.
    pub fn insert(&mut self, id: BlockId, parent: Option<BlockId>, payload: Payload, used: Use) {
        self.take(id, Entry { payload, saved: false, parent }, used);
    }

    /// Inserts bytes that are on disk. The policy may decline them.
    pub fn insert_saved(
        &mut self,
        id: BlockId,
        parent: Option<BlockId>,
        payload: Payload,
        used: Use,
    ) {
        self.take(id, Entry { payload, saved: true, parent }, used);
    }

    /// Marks bytes as saved, so they may be evicted.
    pub fn mark_saved(&mut self, id: &BlockId) {
        let Some(entry) = self.entries.get_mut(id) else { return };
        if !entry.saved {
            entry.saved = true;
            self.unsaved_bytes -= entry.payload.len() as u64;
            self.shrink_to_budget(None);
        }
    }

    /// Counts as a use.
    pub fn get(&mut self, id: &BlockId, used: Use) -> Option<Payload> {
        self.now = used.now;
        let entry = self.entries.get(id)?;
        self.policy.hit(*id, &entry.meta(used), used.now);
        Some(entry.payload.clone())
    }

    /// Not a use.
    pub fn contains(&self, id: &BlockId) -> bool {
        self.entries.contains_key(id)
    }

    /// Whether an entry may stay once it is saved: one longer than the budget cannot.
    pub fn may_stay(&self, id: &BlockId) -> bool {
        let bytes = |entry: &Entry| entry.payload.len() as u64;
        self.entries.get(id).is_some_and(|entry| bytes(entry) <= self.budget_bytes)
    }

    /// Removes bytes, saved or not.
    pub fn remove(&mut self, id: &BlockId) -> Option<Payload> {
        let entry = self.entries.remove(id)?;
        self.policy.removed(*id);
        self.bytes -= entry.payload.len() as u64;
        if !entry.saved {
            self.unsaved_bytes -= entry.payload.len() as u64;
        }
        Some(entry.payload)
    }

    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Unsaved bytes.
    pub fn unsaved_bytes(&self) -> u64 {
        self.unsaved_bytes
    }

    /// The budget left for saved bytes.
    pub fn budget(&self) -> u64 {
        self.budget_bytes
    }

    /// Blocks and snapshots in the pool.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    fn take(&mut self, id: BlockId, entry: Entry, used: Use) {
        if self.get(&id, used).is_some() {
            if entry.saved {
                self.mark_saved(&id);
            }
            return;
        }
        let bytes = entry.payload.len() as u64;
        self.bytes += bytes;
        self.unsaved_bytes += if entry.saved { 0 } else { bytes };
        self.policy.inserted(id, &entry.meta(used), used.now);
        self.entries.insert(id, entry);
        self.shrink_to_budget(Some(id));
    }

    /// Without declining, the newcomer is evicted only when nothing else can be.
    fn shrink_to_budget(&mut self, newcomer: Option<BlockId>) {
        // Only unsaved entries are left.
        while self.bytes > self.budget_bytes && self.bytes > self.unsaved_bytes {
            let entries = &self.entries;
            let saved = |id: &BlockId| entries[id].saved;
            let spared = newcomer.filter(|_| !self.policy.declines());
            let others = |id: &BlockId| saved(id) && Some(*id) != spared;
            let victim = self.policy.victim(self.now, &others);
            let victim = victim.or_else(|| self.policy.victim(self.now, &saved));
            let Some(victim) = victim else { return };
            self.remove(&victim);
        }
    }
}

impl Entry {
    fn meta(&self, used: Use) -> BlockMeta<BlockId> {
        BlockMeta { run: used.run, ..BlockMeta::new(self.parent, self.payload.len() as u64) }
    }
}

#[cfg(test)]
mod tests;
