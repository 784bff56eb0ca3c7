//! The least recently used leaves first.

use super::{BlockMeta, Name, Policy, Tails};
use crate::time::Timestamp;

/// Ranks by the order of uses: no two are equal, and no clock is needed.
#[derive(Clone, Debug)]
pub struct Lru<Id> {
    tails: Tails<Id, u64, ()>,
    uses: u64,
}

impl<Id> Default for Lru<Id> {
    fn default() -> Self {
        Self { tails: Tails::default(), uses: 0 }
    }
}

impl<Id: Name> Policy<Id> for Lru<Id> {
    fn hit(&mut self, id: Id, _: &BlockMeta<Id>, _: Timestamp) {
        self.uses += 1;
        self.tails.set_rank(&id, self.uses);
    }

    fn inserted(&mut self, id: Id, meta: &BlockMeta<Id>, _: Timestamp) {
        self.uses += 1;
        self.tails.insert(id, meta.parent, self.uses, ());
    }

    fn removed(&mut self, id: Id) {
        self.tails.remove(&id);
    }

    fn victim(&mut self, _: Timestamp, may_leave: &dyn Fn(&Id) -> bool) -> Option<Id> {
        self.tails.first(may_leave)
    }
}
