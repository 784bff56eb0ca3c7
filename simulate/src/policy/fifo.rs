//! Evicts the block inserted first.

use hob_slots::Timestamp;
use hob_slots::evict::{BlockMeta, Name, Policy, Tails};

/// Ranks by insertion.
#[derive(Clone, Debug)]
pub struct Fifo<Id> {
    tails: Tails<Id, u64, ()>,
    insertions: u64,
}

impl<Id> Default for Fifo<Id> {
    fn default() -> Self {
        Self { tails: Tails::default(), insertions: 0 }
    }
}

impl<Id: Name> Policy<Id> for Fifo<Id> {
    fn hit(&mut self, _: Id, _: &BlockMeta<Id>, _: Timestamp) {}

    fn inserted(&mut self, id: Id, meta: &BlockMeta<Id>, _: Timestamp) {
        self.insertions += 1;
        self.tails.insert(id, meta.parent, self.insertions, ());
    }

    fn removed(&mut self, id: Id) {
        self.tails.remove(&id);
    }

    fn victim(&mut self, _: Timestamp, may_leave: &dyn Fn(&Id) -> bool) -> Option<Id> {
        self.tails.first(may_leave)
    }
}
