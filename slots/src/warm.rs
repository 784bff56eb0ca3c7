//! Bytes of blocks and snapshots in host memory, under a budget.
//!
//! - Bytes that are not on disk yet never leave by themselves, even over budget.
//! - Saved bytes leave as soon as the pool is over budget, the least recently used first.
//! - Pure: no locks, no clock. The same calls always keep the same bytes.

use std::collections::{BTreeMap, HashMap};

use crate::id::BlockId;
use crate::payload::Payload;

/// What is warm.
#[derive(Debug)]
pub struct WarmPool {
    budget_bytes: u64,
    // Always the sum over `entries`, so the budget is checked without a walk.
    bytes: u64,
    unsaved_bytes: u64,
    entries: HashMap<BlockId, Entry>,
    // The saved entries, by their last use.
    leaving: BTreeMap<Use, BlockId>,
    uses: u64,
}

#[derive(Debug)]
struct Entry {
    payload: Payload,
    saved: bool,
    last_use: Use,
}

/// Uses in order: no two are equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Use(u64);

impl WarmPool {
    /// An empty pool that holds `budget_bytes`.
    pub fn new(budget_bytes: u64) -> Self {
        Self {
            budget_bytes,
            bytes: 0,
            unsaved_bytes: 0,
            entries: HashMap::new(),
            leaving: BTreeMap::new(),
            uses: 0,
        }
    }

    /// Takes bytes that are nowhere else: they stay until [`WarmPool::mark_saved`]. Bytes that are
    /// already here stay as they are, since equal names mean equal bytes.
    pub fn insert(&mut self, id: BlockId, payload: Payload) {
        self.take(id, payload, false);
    }

    /// Takes bytes that can be read from disk again.
    pub fn insert_saved(&mut self, id: BlockId, payload: Payload) {
        self.take(id, payload, true);
    }

    /// The bytes of `id` are on disk now, so they may leave.
    pub fn mark_saved(&mut self, id: &BlockId) {
        let Some(entry) = self.entries.get_mut(id) else { return };
        if !entry.saved {
            entry.saved = true;
            self.unsaved_bytes -= entry.payload.len() as u64;
            self.leaving.insert(entry.last_use, *id);
            self.shrink_to_budget();
        }
    }

    /// The bytes of `id`, if they are here. Counts as a use.
    pub fn get(&mut self, id: &BlockId) -> Option<Payload> {
        let now = self.next_use();
        let entry = self.entries.get_mut(id)?;
        if entry.saved {
            self.leaving.remove(&entry.last_use);
            self.leaving.insert(now, *id);
        }
        entry.last_use = now;
        Some(entry.payload.clone())
    }

    /// Whether `id` is here. Does not count as a use.
    pub fn contains(&self, id: &BlockId) -> bool {
        self.entries.contains_key(id)
    }

    /// Drops the bytes of `id`, saved or not.
    pub fn remove(&mut self, id: &BlockId) -> Option<Payload> {
        let entry = self.entries.remove(id)?;
        self.bytes -= entry.payload.len() as u64;
        if entry.saved {
            self.leaving.remove(&entry.last_use);
        } else {
            self.unsaved_bytes -= entry.payload.len() as u64;
        }
        Some(entry.payload)
    }

    /// Bytes held.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Bytes held that are nowhere else.
    pub fn unsaved_bytes(&self) -> u64 {
        self.unsaved_bytes
    }

    /// Bytes that saved entries may fill.
    pub fn budget(&self) -> u64 {
        self.budget_bytes
    }

    /// Blocks and snapshots held.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether nothing is held.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    fn take(&mut self, id: BlockId, payload: Payload, saved: bool) {
        if self.get(&id).is_some() {
            if saved {
                self.mark_saved(&id);
            }
            return;
        }
        let last_use = self.next_use();
        self.bytes += payload.len() as u64;
        if saved {
            self.leaving.insert(last_use, id);
        } else {
            self.unsaved_bytes += payload.len() as u64;
        }
        self.entries.insert(id, Entry { payload, saved, last_use });
        self.shrink_to_budget();
    }

    fn shrink_to_budget(&mut self) {
        while self.bytes > self.budget_bytes {
            let Some((_, id)) = self.leaving.pop_first() else { return };
            let entry = self.entries.remove(&id).expect("what may leave is here");
            self.bytes -= entry.payload.len() as u64;
        }
    }

    fn next_use(&mut self) -> Use {
        self.uses += 1;
        Use(self.uses)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn id(n: u8) -> BlockId {
        BlockId([n; 32])
    }

    fn bytes(count: usize) -> Payload {
        vec![0; count].into()
    }

    #[test]
    fn what_is_not_on_disk_stays_even_over_budget() {
        let mut pool = WarmPool::new(100);
        pool.insert(id(1), bytes(80));
        pool.insert(id(2), bytes(80));
        assert_eq!((pool.bytes(), pool.unsaved_bytes()), (160, 160));
        assert!(pool.contains(&id(1)) && pool.contains(&id(2)));
    }

    #[test]
    fn what_was_saved_leaves_at_once_when_the_pool_is_over_budget() {
        let mut pool = WarmPool::new(100);
        pool.insert(id(1), bytes(80));
        pool.insert(id(2), bytes(80));
        pool.mark_saved(&id(2));
        assert!(pool.contains(&id(1)) && !pool.contains(&id(2)));
    }

    #[test]
    fn the_least_recently_used_leaves_first() {
        let mut pool = WarmPool::new(100);
        pool.insert_saved(id(1), bytes(40));
        pool.insert_saved(id(2), bytes(40));
        assert_eq!(pool.get(&id(1)), Some(bytes(40)));
        pool.insert_saved(id(3), bytes(40));
        assert!(pool.contains(&id(1)) && !pool.contains(&id(2)) && pool.contains(&id(3)));
    }

    #[test]
    fn unsaved_bytes_push_saved_ones_out() {
        let mut pool = WarmPool::new(100);
        pool.insert_saved(id(1), bytes(60));
        pool.insert(id(2), bytes(60));
        assert!(!pool.contains(&id(1)) && pool.contains(&id(2)));
    }

    #[test]
    fn inserting_twice_counts_once_and_what_is_on_disk_stays_on_disk() {
        let mut pool = WarmPool::new(100);
        pool.insert_saved(id(1), bytes(60));
        pool.insert(id(1), bytes(60));
        assert_eq!((pool.bytes(), pool.unsaved_bytes()), (60, 0));
        pool.insert(id(2), bytes(10));
        pool.insert_saved(id(2), bytes(10));
        assert_eq!((pool.bytes(), pool.unsaved_bytes()), (70, 0));
    }

    #[test]
    fn what_was_removed_is_given_back_and_forgotten() {
        let mut pool = WarmPool::new(100);
        pool.insert(id(1), bytes(60));
        assert_eq!(pool.remove(&id(1)), Some(bytes(60)));
        assert_eq!(pool.remove(&id(1)), None);
        assert_eq!((pool.bytes(), pool.unsaved_bytes(), pool.is_empty()), (0, 0, true));
    }

    #[derive(Clone, Debug)]
    enum Step {
        Insert(u8, usize),
        InsertSaved(u8, usize),
        MarkSaved(u8),
        Get(u8),
        Remove(u8),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let (block, size) = (|| 0_u8..12, || 0_usize..60);
        let step = prop_oneof![
            (block(), size()).prop_map(|(n, size)| Step::Insert(n, size)),
            (block(), size()).prop_map(|(n, size)| Step::InsertSaved(n, size)),
            block().prop_map(Step::MarkSaved),
            block().prop_map(Step::Get),
            block().prop_map(Step::Remove),
        ];
        prop::collection::vec(step, 0..60)
    }

    /// A list in order of use, the least recent first.
    #[derive(Default)]
    struct Naive(Vec<(u8, usize, bool)>);

    impl Naive {
        fn step(&mut self, step: &Step) {
            match *step {
                Step::Insert(n, size) => self.insert(n, size, false),
                Step::InsertSaved(n, size) => self.insert(n, size, true),
                Step::MarkSaved(n) => {
                    self.0.iter_mut().filter(|e| e.0 == n).for_each(|e| e.2 = true)
                }
                Step::Get(n) => {
                    let found = self.take(n);
                    self.0.extend(found);
                }
                Step::Remove(n) => drop(self.take(n)),
            }
            while self.bytes() > 100 {
                let Some(at) = self.0.iter().position(|entry| entry.2) else { break };
                self.0.remove(at);
            }
        }

        fn insert(&mut self, n: u8, size: usize, saved: bool) {
            let (_, size, was_saved) = self.take(n).unwrap_or((n, size, false));
            self.0.push((n, size, saved || was_saved));
        }

        fn take(&mut self, n: u8) -> Option<(u8, usize, bool)> {
            let at = self.0.iter().position(|entry| entry.0 == n)?;
            Some(self.0.remove(at))
        }

        fn bytes(&self) -> usize {
            self.0.iter().map(|entry| entry.1).sum()
        }
    }

    proptest! {
        #[test]
        fn a_pool_keeps_what_a_list_in_order_of_use_keeps(steps in steps()) {
            let (mut pool, mut naive) = (WarmPool::new(100), Naive::default());
            for step in steps {
                match step.clone() {
                    Step::Insert(n, size) => pool.insert(id(n), bytes(size)),
                    Step::InsertSaved(n, size) => pool.insert_saved(id(n), bytes(size)),
                    Step::MarkSaved(n) => pool.mark_saved(&id(n)),
                    Step::Get(n) => drop(pool.get(&id(n))),
                    Step::Remove(n) => drop(pool.remove(&id(n))),
                }
                naive.step(&step);
                let unsaved: usize = naive.0.iter().filter(|e| !e.2).map(|e| e.1).sum();
                prop_assert_eq!(pool.bytes(), naive.bytes() as u64);
                prop_assert_eq!(pool.unsaved_bytes(), unsaved as u64);
                prop_assert_eq!(pool.len(), naive.0.len());
                prop_assert!(naive.0.iter().all(|entry| pool.contains(&id(entry.0))));
                prop_assert!(pool.bytes() <= pool.budget() || pool.bytes() == pool.unsaved_bytes());
            }
        }
    }
}
