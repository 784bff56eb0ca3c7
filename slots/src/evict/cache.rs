//! A set of blocks under a budget, run by a policy. Names alone: the bytes are elsewhere.
//!
//! - Never more than the budget, after every call.
//! - No block is kept whose parent is not.

use std::collections::HashMap;

use super::{BlockMeta, Name, Policy};
use crate::time::Timestamp;

/// What is kept of a stream of uses.
#[derive(Clone, Debug)]
pub struct Cache<Id, P> {
    policy: P,
    budget_bytes: u64,
    bytes: u64,
    sizes: HashMap<Id, u64>,
}

/// What became of a use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It was kept.
    Hit,
    /// It was not, and is now.
    Inserted,
    /// It was not, and is not now: the policy prefers others, or its parent is not kept.
    Passed,
}

impl<Id: Name, P: Policy<Id>> Cache<Id, P> {
    /// An empty set.
    pub fn new(policy: P, budget_bytes: u64) -> Self {
        Self { policy, budget_bytes, bytes: 0, sizes: HashMap::new() }
    }

    /// A run uses a block. Those for which `may_leave` is false stay.
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
            // When nothing else may leave, the newcomer is what there is no room for.
            let victim = self.policy.victim(now, &may_leave).unwrap_or(id);
            self.remove(&victim);
            if victim == id {
                return Answer::Passed;
            }
        }
        Answer::Inserted
    }

    /// The policy that runs it.
    pub(super) fn policy(&mut self) -> &mut P {
        &mut self.policy
    }

    /// Whether a block is kept.
    pub fn contains(&self, id: &Id) -> bool {
        self.sizes.contains_key(id)
    }

    /// Bytes kept.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Blocks kept.
    pub fn len(&self) -> usize {
        self.sizes.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.sizes.is_empty()
    }

    fn remove(&mut self, id: &Id) {
        let bytes = self.sizes.remove(id).expect("a policy chooses what is kept");
        self.bytes -= bytes;
        self.policy.removed(*id);
    }
}
