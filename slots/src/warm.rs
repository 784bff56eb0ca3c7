//! Bytes of blocks and snapshots in host memory, under a budget.
//!
//! - Bytes that are not on disk yet never leave by themselves, even over budget.
//! - Saved bytes leave as soon as the pool is over budget; a policy chooses which, see
//!   [`evict`](crate::evict). What an unsaved block follows on stays with it.
//! - Pure: no locks, no clock. The same calls always keep the same bytes.

use std::collections::HashMap;

use crate::evict::{BlockMeta, Policy, PolicyKind, Run};
use crate::id::BlockId;
use crate::payload::Payload;
use crate::time::Timestamp;

/// What is warm.
#[derive(Debug)]
pub struct WarmPool {
    budget_bytes: u64,
    // Always the sum over `entries`, so the budget is checked without a walk.
    bytes: u64,
    unsaved_bytes: u64,
    entries: HashMap<BlockId, Entry>,
    policy: Box<dyn Policy<BlockId>>,
    // The latest that it was told.
    now: Timestamp,
}

#[derive(Debug)]
struct Entry {
    payload: Payload,
    saved: bool,
    parent: Option<BlockId>,
}

/// Who uses a block, and when.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Use {
    /// The request, as far as it is known.
    pub run: Run,
    /// The time.
    pub now: Timestamp,
}

impl WarmPool {
    /// An empty pool that holds `budget_bytes`, under the default policy.
    pub fn new(budget_bytes: u64) -> Self {
        Self::with_policy(budget_bytes, PolicyKind::DEFAULT.build(budget_bytes))
    }

    /// An empty pool that holds `budget_bytes`.
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

    /// Takes bytes that are nowhere else: they stay until [`WarmPool::mark_saved`]. Bytes that are
    /// already here stay as they are, since equal names mean equal bytes. `parent` is the block
    /// before, if there is one.
    pub fn insert(&mut self, id: BlockId, parent: Option<BlockId>, payload: Payload, used: Use) {
        self.take(id, Entry { payload, saved: false, parent }, used);
    }

    /// Takes bytes that can be read from disk again. The policy may decline them.
    pub fn insert_saved(
        &mut self,
        id: BlockId,
        parent: Option<BlockId>,
        payload: Payload,
        used: Use,
    ) {
        self.take(id, Entry { payload, saved: true, parent }, used);
    }

    /// The bytes of `id` are on disk now, so they may leave.
    pub fn mark_saved(&mut self, id: &BlockId) {
        let Some(entry) = self.entries.get_mut(id) else { return };
        if !entry.saved {
            entry.saved = true;
            self.unsaved_bytes -= entry.payload.len() as u64;
            self.shrink_to_budget(None);
        }
    }

    /// The bytes of `id`, if they are here. Counts as a use.
    pub fn get(&mut self, id: &BlockId, used: Use) -> Option<Payload> {
        self.now = used.now;
        let entry = self.entries.get(id)?;
        self.policy.hit(*id, &entry.meta(used), used.now);
        Some(entry.payload.clone())
    }

    /// Whether `id` is here. Does not count as a use.
    pub fn contains(&self, id: &BlockId) -> bool {
        self.entries.contains_key(id)
    }

    /// Drops the bytes of `id`, saved or not.
    pub fn remove(&mut self, id: &BlockId) -> Option<Payload> {
        let entry = self.entries.remove(id)?;
        self.policy.removed(*id);
        self.bytes -= entry.payload.len() as u64;
        if !entry.saved {
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

    /// A policy that does not decline gives up the newcomer only when nothing else can leave.
    fn shrink_to_budget(&mut self, newcomer: Option<BlockId>) {
        // Unsaved ones alone cannot leave.
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
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn id(n: u8) -> BlockId {
        BlockId([n; 32])
    }

    /// Under the policy that is easy to say: the least recently used leaves.
    fn pool() -> WarmPool {
        WarmPool::with_policy(100, PolicyKind::Lru.build(100))
    }

    fn bytes(count: usize) -> Payload {
        vec![0; count].into()
    }

    #[test]
    fn what_is_not_on_disk_stays_even_over_budget() {
        let mut pool = pool();
        pool.insert(id(1), None, bytes(80), Use::default());
        pool.insert(id(2), None, bytes(80), Use::default());
        assert_eq!((pool.bytes(), pool.unsaved_bytes()), (160, 160));
        assert!(pool.contains(&id(1)) && pool.contains(&id(2)));
    }

    #[test]
    fn what_was_saved_leaves_at_once_when_the_pool_is_over_budget() {
        let mut pool = pool();
        pool.insert(id(1), None, bytes(80), Use::default());
        pool.insert(id(2), None, bytes(80), Use::default());
        pool.mark_saved(&id(2));
        assert!(pool.contains(&id(1)) && !pool.contains(&id(2)));
    }

    #[test]
    fn the_least_recently_used_leaves_first() {
        let mut pool = pool();
        pool.insert_saved(id(1), None, bytes(40), Use::default());
        pool.insert_saved(id(2), None, bytes(40), Use::default());
        assert_eq!(pool.get(&id(1), Use::default()), Some(bytes(40)));
        pool.insert_saved(id(3), None, bytes(40), Use::default());
        assert!(pool.contains(&id(1)) && !pool.contains(&id(2)) && pool.contains(&id(3)));
    }

    #[test]
    fn unsaved_bytes_push_saved_ones_out() {
        let mut pool = pool();
        pool.insert_saved(id(1), None, bytes(60), Use::default());
        pool.insert(id(2), None, bytes(60), Use::default());
        assert!(!pool.contains(&id(1)) && pool.contains(&id(2)));
    }

    #[test]
    fn inserting_twice_counts_once_and_what_is_on_disk_stays_on_disk() {
        let mut pool = pool();
        pool.insert_saved(id(1), None, bytes(60), Use::default());
        pool.insert(id(1), None, bytes(60), Use::default());
        assert_eq!((pool.bytes(), pool.unsaved_bytes()), (60, 0));
        pool.insert(id(2), None, bytes(10), Use::default());
        pool.insert_saved(id(2), None, bytes(10), Use::default());
        assert_eq!((pool.bytes(), pool.unsaved_bytes()), (70, 0));
    }

    #[test]
    fn what_was_removed_is_given_back_and_forgotten() {
        let mut pool = pool();
        pool.insert(id(1), None, bytes(60), Use::default());
        assert_eq!(pool.remove(&id(1)), Some(bytes(60)));
        assert_eq!(pool.remove(&id(1)), None);
        assert_eq!((pool.bytes(), pool.unsaved_bytes(), pool.is_empty()), (0, 0, true));
    }

    #[test]
    fn only_the_end_of_a_chain_leaves_and_nothing_before_what_is_not_on_disk() {
        let mut pool = pool();
        pool.insert_saved(id(1), None, bytes(40), Use::default());
        pool.insert(id(2), Some(id(1)), bytes(40), Use::default());
        pool.insert(id(3), None, bytes(40), Use::default());
        assert_eq!(pool.len(), 3, "what is not on disk keeps what comes before it");
        pool.mark_saved(&id(2));
        assert!(pool.contains(&id(1)) && !pool.contains(&id(2)));
    }

    #[test]
    fn under_the_default_policy_a_scan_of_cold_prompts_passes_by_what_is_used_again() {
        let mut pool = WarmPool::new(1_000);
        let used = |conversation: u64, turn: u32, secs: u64| Use {
            run: Run { conversation, turn, blocks: 5, ..Run::default() },
            now: Timestamp(secs * 1_000),
        };
        let mut kept = 0;
        for round in 0..200 {
            let now = u64::from(round) * 60;
            for block in 1..=5 {
                let (name, parent) = (id(block), (block > 1).then(|| id(block - 1)));
                match pool.get(&name, used(1, round + 1, now)) {
                    Some(_) => kept += u32::from(round >= 100),
                    None => pool.insert_saved(name, parent, bytes(100), used(1, round + 1, now)),
                }
            }
            for cold in 0..20_u64 {
                let mut name = [9; 32];
                name[..8].copy_from_slice(&(u64::from(round) * 20 + cold).to_le_bytes());
                let used = used(1_000 + now * 20 + cold, 1, now + cold);
                pool.insert_saved(BlockId(name), None, bytes(100), used);
            }
            assert!(pool.bytes() <= pool.budget());
        }
        assert!(kept >= 490, "of 500 uses {kept} were kept");
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
        let (block, size) = (|| 0_u8..12, || 1_usize..60);
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
            let (mut pool, mut naive) = (pool(), Naive::default());
            for step in steps {
                match step.clone() {
                    Step::Insert(n, size) => pool.insert(id(n), None, bytes(size), Use::default()),
                    Step::InsertSaved(n, size) => pool.insert_saved(id(n), None, bytes(size), Use::default()),
                    Step::MarkSaved(n) => pool.mark_saved(&id(n)),
                    Step::Get(n) => drop(pool.get(&id(n), Use::default())),
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
