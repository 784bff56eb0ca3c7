//! Blocks and snapshots in host memory, under a budget.
//!
//! - Unsaved bytes are never evicted, even over budget.
//! - Held bytes are not evicted either: they belong to live conversations without a disk. Holders are
//!   counted: several conversations may hold the same block.
//! - Saved bytes are evicted as soon as the pool is over budget, chosen by an
//!   [`evict`](crate::evict) policy. The blocks before an unsaved one stay with it.
//! - Pure: no locks, no clock. The same calls always leave the same bytes.
//! - The simulator runs the same pool on names, without bytes: [`Content`].

use std::collections::HashMap;

use crate::evict::guarded_density::GuardedDensity;
use crate::evict::{BlockMeta, Guard, History, Name, Policy, Run};
use crate::id::BlockId;
use crate::payload::Payload;
use crate::time::Timestamp;

/// The pool of the runtime.
pub type WarmPool = Pool<BlockId, Payload>;

/// What a pool holds of a block.
pub trait Content: Clone {
    /// The bytes that it costs of the budget.
    fn bytes(&self) -> u64;
}

impl Content for Payload {
    fn bytes(&self) -> u64 {
        self.len() as u64
    }
}

#[derive(Debug)]
pub struct Pool<Id, C> {
    budget_bytes: u64,
    // Always the sum over `entries`, so checking the budget needs no walk.
    bytes: u64,
    unsaved_bytes: u64,
    held_bytes: u64,
    entries: HashMap<Id, Entry<Id, C>>,
    policy: Box<dyn Policy<Id>>,
    // The last time in a call.
    now: Timestamp,
    figures: Figures,
}

/// What a pool did since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Entries that left for others.
    pub evictions: u64,
    pub evicted_bytes: u64,
    /// New entries that the policy declined.
    pub declined: u64,
    /// `None` without a guard.
    pub guard: Option<Guard>,
}

#[derive(Debug)]
struct Entry<Id, C> {
    content: C,
    saved: bool,
    holders: u32,
    parent: Option<Id>,
}

/// A use of a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Use {
    /// The request, if known.
    pub run: Run,
    pub now: Timestamp,
}

impl<Id: Name, C: Content> Pool<Id, C> {
    /// With the default policy and its prior.
    pub fn new(budget_bytes: u64) -> Self {
        Self::with_history(budget_bytes, &History::prior())
    }

    /// With the default policy, and what it learned before.
    pub fn with_history(budget_bytes: u64, history: &History) -> Self {
        let policy = GuardedDensity::with_history(budget_bytes, history);
        Self::with_policy(budget_bytes, Box::new(policy))
    }

    pub fn with_policy(budget_bytes: u64, policy: Box<dyn Policy<Id>>) -> Self {
        Self {
            budget_bytes,
            bytes: 0,
            unsaved_bytes: 0,
            held_bytes: 0,
            entries: HashMap::new(),
            policy,
            now: Timestamp::default(),
            figures: Figures::default(),
        }
    }

    /// Inserts bytes that exist nowhere else; they stay until [`Pool::mark_saved`]. Bytes
    /// already in the pool stay: equal names mean equal bytes. `parent`: the block before, if any.
    pub fn insert(&mut self, id: Id, parent: Option<Id>, content: C, used: Use) {
        self.take(id, Entry { content, saved: false, holders: 0, parent }, used);
    }

    /// Inserts bytes that are on disk, or that there is no disk for. The policy may decline them. A
    /// block whose parent is not in the pool is declined: there is nothing to restore before it.
    pub fn insert_saved(&mut self, id: Id, parent: Option<Id>, content: C, used: Use) {
        self.take(id, Entry { content, saved: true, holders: 0, parent }, used);
    }

    /// Inserts bytes that there is no disk for, and that stay until as many calls of [`Pool::release`] as of
    /// this; those that are in the pool already stay. Returns `false`, and does nothing, where held bytes
    /// would exceed the budget.
    pub fn hold(&mut self, id: Id, parent: Option<Id>, content: C, used: Use) -> bool {
        let bytes = content.bytes();
        if !self.is_held(&id) && self.held_bytes + bytes > self.budget_bytes {
            return false;
        }
        self.now = used.now;
        if !self.entries.contains_key(&id) {
            let entry = Entry { content, saved: true, holders: 0, parent };
            self.bytes += bytes;
            self.policy.inserted(id, &entry.meta(used), used.now);
            self.entries.insert(id, entry);
        }
        let entry = self.entries.get_mut(&id).expect("it is there now");
        if entry.holders == 0 {
            self.held_bytes += bytes;
        }
        entry.holders += 1;
        self.shrink_to_budget(None, id);
        true
    }

    /// One of the holders needs the bytes no longer. Without another one they may be evicted from now on.
    pub fn release(&mut self, id: &Id) {
        let Some(entry) = self.entries.get_mut(id).filter(|entry| entry.holders > 0) else {
            return;
        };
        entry.holders -= 1;
        if entry.holders == 0 {
            self.held_bytes -= entry.content.bytes();
            self.shrink_to_budget(None, *id);
        }
    }

    /// Marks bytes as saved, so they may be evicted.
    pub fn mark_saved(&mut self, id: &Id) {
        let Some(entry) = self.entries.get_mut(id) else { return };
        if !entry.saved {
            entry.saved = true;
            self.unsaved_bytes -= entry.content.bytes();
            self.shrink_to_budget(None, *id);
        }
    }

    /// Bytes that no disk was for go to disk now: they stay until [`Pool::mark_saved`].
    pub fn mark_unsaved(&mut self, id: &Id) {
        let Some(entry) = self.entries.get_mut(id) else { return };
        if std::mem::take(&mut entry.saved) {
            self.unsaved_bytes += entry.content.bytes();
        }
    }

    /// Not a use.
    pub fn get(&self, id: &Id) -> Option<C> {
        self.entries.get(id).map(|entry| entry.content.clone())
    }

    /// A request uses a block, wherever it is. `bytes`: of a block that is not in the pool.
    pub fn used(&mut self, id: Id, parent: Option<Id>, bytes: u64, used: Use) {
        self.now = used.now;
        if let Some(entry) = self.entries.get(&id) {
            self.policy.hit(id, &entry.meta(used), used.now);
        } else {
            let meta = BlockMeta { run: used.run, ..BlockMeta::new(parent, bytes) };
            self.policy.passed(id, &meta, used.now);
        }
    }

    pub fn figures(&self) -> Figures {
        Figures { guard: self.policy.guard(), ..self.figures }
    }

    /// What the policy has learned; `None` for one that learns nothing.
    pub fn history(&self) -> Option<History> {
        self.policy.history()
    }

    /// Not a use.
    pub fn contains(&self, id: &Id) -> bool {
        self.entries.contains_key(id)
    }

    /// Whether bytes may not be evicted before a [`Pool::release`].
    pub fn is_held(&self, id: &Id) -> bool {
        self.entries.get(id).is_some_and(|entry| entry.holders > 0)
    }

    /// Whether an entry may stay once it is saved: one longer than the budget cannot.
    pub fn may_stay(&self, id: &Id) -> bool {
        let bytes = |entry: &Entry<Id, C>| entry.content.bytes();
        self.entries.get(id).is_some_and(|entry| bytes(entry) <= self.budget_bytes)
    }

    /// Removes bytes, saved or not.
    pub fn remove(&mut self, id: &Id) -> Option<C> {
        let entry = self.entries.remove(id)?;
        self.policy.removed(*id);
        self.bytes -= entry.content.bytes();
        if !entry.saved {
            self.unsaved_bytes -= entry.content.bytes();
        }
        if entry.holders > 0 {
            self.held_bytes -= entry.content.bytes();
        }
        Some(entry.content)
    }

    pub fn bytes(&self) -> u64 {
        self.bytes
    }

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

    fn take(&mut self, id: Id, entry: Entry<Id, C>, used: Use) {
        self.now = used.now;
        if let Some(here) = self.entries.get(&id) {
            self.policy.hit(id, &here.meta(used), used.now);
            if entry.saved {
                self.mark_saved(&id);
            }
            return;
        }
        let follows = entry.parent.is_none_or(|parent| self.entries.contains_key(&parent));
        if entry.saved && !follows {
            self.figures.declined += 1;
            return self.policy.passed(id, &entry.meta(used), used.now);
        }
        let bytes = entry.content.bytes();
        self.bytes += bytes;
        self.unsaved_bytes += if entry.saved { 0 } else { bytes };
        self.policy.inserted(id, &entry.meta(used), used.now);
        self.entries.insert(id, entry);
        self.shrink_to_budget(Some(id), id);
    }

    /// Without declining, the newcomer is evicted only when nothing else can be.
    /// `fresh`: the entry that is saved from now on.
    fn shrink_to_budget(&mut self, newcomer: Option<Id>, fresh: Id) {
        // Otherwise only unsaved entries are left.
        while self.bytes > self.budget_bytes && self.bytes > self.unsaved_bytes {
            let entries = &self.entries;
            let saved = |id: &Id| entries[id].saved && entries[id].holders == 0;
            let spared = newcomer.filter(|_| !self.policy.declines());
            let others = |id: &Id| saved(id) && Some(*id) != spared;
            let victim = self.policy.victim(self.now, &others);
            let victim = victim.or_else(|| self.policy.victim(self.now, &saved));
            let Some(victim) = victim else { return };
            let content = self.remove(&victim).expect("a policy chooses an entry");
            if victim == fresh {
                self.figures.declined += 1;
            } else {
                self.figures.evictions += 1;
                self.figures.evicted_bytes += content.bytes();
            }
        }
    }
}

impl<Id: Name, C: Content> Entry<Id, C> {
    fn meta(&self, used: Use) -> BlockMeta<Id> {
        BlockMeta { run: used.run, ..BlockMeta::new(self.parent, self.content.bytes()) }
    }
}

#[cfg(test)]
mod tests;
