//! Adaptive replacement (Megiddo and Modha, 2003) over tails.
//!
//! - Two lists by last use: blocks used once, and blocks used again. Each remembers the names of
//!   its evicted blocks; a block that returns grows its list.
//! - When no block of one list may be evicted, the other list gives one.

use hob_slots::Timestamp;
use hob_slots::evict::{BlockMeta, Name, Policy, Tails};

use super::ghosts::Ghosts;

/// Ranks by list, then by last use.
#[derive(Clone, Debug)]
pub struct Arc<Id> {
    budget_bytes: u64,
    // The target size of the list of blocks used once.
    once_target_bytes: u64,
    once: List<Id>,
    again: List<Id>,
    // Notes are bytes. Ranks with `false` are in `once`.
    tails: Tails<Id, (bool, u64), u64>,
    uses: u64,
}

#[derive(Clone, Debug)]
struct List<Id> {
    bytes: u64,
    left: Ghosts<Id>,
}

impl<Id> Default for List<Id> {
    fn default() -> Self {
        Self { bytes: 0, left: Ghosts::default() }
    }
}

impl<Id: Name> Arc<Id> {
    pub fn new(budget_bytes: u64) -> Self {
        Self {
            budget_bytes,
            once_target_bytes: 0,
            once: List::default(),
            again: List::default(),
            tails: Tails::default(),
            uses: 0,
        }
    }

    fn list(&mut self, again: bool) -> &mut List<Id> {
        if again { &mut self.again } else { &mut self.once }
    }

    fn trim_ghosts(&mut self) {
        self.once.left.trim(self.budget_bytes.saturating_sub(self.once.bytes));
        let kept = self.once.bytes + self.again.bytes + self.once.left.bytes();
        self.again.left.trim((self.budget_bytes * 2).saturating_sub(kept));
    }
}

impl<Id: Name> Policy<Id> for Arc<Id> {
    fn hit(&mut self, id: Id, _: &BlockMeta<Id>, _: Timestamp) {
        self.uses += 1;
        let (Some((again, _)), Some(&bytes)) = (self.tails.rank(&id), self.tails.note(&id)) else {
            return;
        };
        self.list(again).bytes -= bytes;
        self.again.bytes += bytes;
        self.tails.set_rank(&id, (true, self.uses));
    }

    fn inserted(&mut self, id: Id, meta: &BlockMeta<Id>, _: Timestamp) {
        self.uses += 1;
        let (once, again) = (self.once.left.bytes().max(1), self.again.left.bytes().max(1));
        let bytes = meta.bytes;
        let back_from_once = self.once.left.take(&id);
        let back_from_again = self.again.left.take(&id);
        if back_from_once {
            let more = bytes * (again / once).max(1);
            self.once_target_bytes = self.budget_bytes.min(self.once_target_bytes + more);
        } else if back_from_again {
            let less = bytes * (once / again).max(1);
            self.once_target_bytes = self.once_target_bytes.saturating_sub(less);
        }
        let used_again = back_from_once || back_from_again;
        self.list(used_again).bytes += bytes;
        self.tails.insert(id, meta.parent, (used_again, self.uses), bytes);
        self.trim_ghosts();
    }

    fn removed(&mut self, id: Id) {
        let Some((again, _)) = self.tails.rank(&id) else { return };
        let bytes = self.tails.remove(&id).expect("what has a rank is here");
        let list = self.list(again);
        list.bytes -= bytes;
        list.left.push(id, bytes);
        self.trim_ghosts();
    }

    fn victim(&mut self, _: Timestamp, may_leave: &dyn Fn(&Id) -> bool) -> Option<Id> {
        let of = |again: bool| {
            let leaves = self.tails.leaves_from((again, 0));
            leaves.take_while(|(rank, _)| rank.0 == again).map(|(_, id)| id).find(may_leave)
        };
        let from_again = self.once.bytes <= self.once_target_bytes;
        of(from_again).or_else(|| of(!from_again))
    }
}
