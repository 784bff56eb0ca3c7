//! A set of block names under a budget, run by a policy. The bytes are elsewhere.
//!
//! - Never over budget after a call.
//! - Every cached block has its parent in the cache.

use std::collections::HashMap;

use super::{BlockMeta, Name, Policy};
use crate::time::Timestamp;

#[derive(Clone, Debug)]
pub struct Cache<Id, P> {
    policy: P,
    budget_bytes: u64,
    bytes: u64,
    sizes: HashMap<Id, u64>,
}

/// The outcome of a use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The block was cached.
    Hit,
    /// The block is cached from now on.
    Inserted,
    /// The block is not cached: the policy declined it, or its parent is not cached.
    Passed,
}

impl<Id: Name, P: Policy<Id>> Cache<Id, P> {
    pub fn new(policy: P, budget_bytes: u64) -> Self {
        Self { policy, budget_bytes, bytes: 0, sizes: HashMap::new() }
    }

    /// A run uses a block. Blocks for which `may_leave` is false stay.
    pub fn ask(
        &mut self,
        id: Id,
        meta: &BlockMeta<Id>,
        now: Timestamp,
        may_leave: &dyn Fn(&Id) -> bool,
    ) -> Answer {
        if self.sizes.contains_key(&id) {
            self.policy.hit(id, meta, now);
            return Answer::Hit;
        }
        if meta.parent.is_some_and(|parent| !self.sizes.contains_key(&parent)) {
            self.policy.passed(id, meta, now);
            return Answer::Passed;
        }
        self.policy.inserted(id, meta, now);
        self.sizes.insert(id, meta.bytes);
        self.bytes += meta.bytes;
        while self.bytes > self.budget_bytes {
            let declines = self.policy.declines();
            let may_leave = |other: &Id| may_leave(other) && (declines || *other != id);
            // When nothing else may be evicted, the new block is.
            let victim = self.policy.victim(now, &may_leave).unwrap_or(id);
            self.remove(&victim);
            if victim == id {
                return Answer::Passed;
            }
        }
        Answer::Inserted
    }

    pub(super) fn policy(&mut self) -> &mut P {
        &mut self.policy
    }

    pub fn policy_ref(&self) -> &P {
        &self.policy
    }

    pub fn contains(&self, id: &Id) -> bool {
        self.sizes.contains_key(id)
    }

    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    pub fn len(&self) -> usize {
        self.sizes.len()
    }

    pub fn is_empty(&self) -> bool {
        self.sizes.is_empty()
    }

    fn remove(&mut self, id: &Id) {
        let bytes = self.sizes.remove(id).expect("a policy chooses a cached block");
        self.bytes -= bytes;
        self.policy.removed(*id);
    }
}
