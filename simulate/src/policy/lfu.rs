//! Evicts the least frequently used block; of equals the least recently used.

use hob_slots::Timestamp;
use hob_slots::evict::{BlockMeta, Name, Policy, Tails};

/// Ranks by uses since insertion, then by last use. Evicted blocks are forgotten.
#[derive(Clone, Debug)]
pub struct Lfu<Id> {
    tails: Tails<Id, (u64, u64), ()>,
    uses: u64,
}

impl<Id> Default for Lfu<Id> {
    fn default() -> Self {
        Self { tails: Tails::default(), uses: 0 }
    }
}

impl<Id: Name> Policy<Id> for Lfu<Id> {
    fn hit(&mut self, id: Id, _: &BlockMeta<Id>, _: Timestamp) {
        self.uses += 1;
        if let Some((hits, _)) = self.tails.rank(&id) {
            self.tails.set_rank(&id, (hits + 1, self.uses));
        }
    }

    fn inserted(&mut self, id: Id, meta: &BlockMeta<Id>, _: Timestamp) {
        self.uses += 1;
        self.tails.insert(id, meta.parent, (0, self.uses), ());
    }

    fn removed(&mut self, id: Id) {
        self.tails.remove(&id);
    }

    fn victim(&mut self, _: Timestamp, may_leave: &dyn Fn(&Id) -> bool) -> Option<Id> {
        self.tails.first(may_leave)
    }
}
