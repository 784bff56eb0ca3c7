//! The least recently used leaves first.

use super::{BlockMeta, Name, Policy, Tails};
use crate::time::Timestamp;

/// Ranks by the order of uses: unique, and without a clock.
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::evict::Cache;

    proptest! {
        #[test]
        fn lru_evicts_the_least_recently_used_block(uses in prop::collection::vec(0_u64..20, 0..200)) {
            let mut kept = Cache::new(Lru::default(), 8);
            let mut naive: Vec<u64> = Vec::new();
            for id in uses {
                kept.ask(id, &BlockMeta::new(None, 1), Timestamp(0), &|_| true);
                naive.retain(|&other| other != id);
                naive.push(id);
                if naive.len() > 8 {
                    naive.remove(0);
                }
                prop_assert!((0..20).all(|id| kept.contains(&id) == naive.contains(&id)));
            }
        }
    }
}
