use proptest::prelude::*;

use super::*;
use crate::evict::lru::Lru;

fn id(n: u8) -> BlockId {
    BlockId([n; 32])
}

/// With LRU, the simplest policy.
fn pool() -> WarmPool {
    WarmPool::with_policy(100, Box::new(Lru::default()))
}

fn bytes(count: usize) -> Payload {
    vec![0; count].into()
}

#[test]
fn unsaved_bytes_stay_even_over_budget() {
    let mut pool = pool();
    pool.insert(id(1), None, bytes(80), Use::default());
    pool.insert(id(2), None, bytes(80), Use::default());
    assert_eq!((pool.bytes(), pool.unsaved_bytes()), (160, 160));
    assert!(pool.contains(&id(1)) && pool.contains(&id(2)));
}

#[test]
fn saved_bytes_are_evicted_at_once_over_budget() {
    let mut pool = pool();
    pool.insert(id(1), None, bytes(80), Use::default());
    pool.insert(id(2), None, bytes(80), Use::default());
    pool.mark_saved(&id(2));
    assert!(pool.contains(&id(1)) && !pool.contains(&id(2)));
}

#[test]
fn the_least_recently_used_is_evicted_first() {
    let mut pool = pool();
    pool.insert_saved(id(1), None, bytes(40), Use::default());
    pool.insert_saved(id(2), None, bytes(40), Use::default());
    assert_eq!(pool.get(&id(1)), Some(bytes(40)));
    pool.used(id(1), None, 40, Use::default());
    pool.insert_saved(id(3), None, bytes(40), Use::default());
    assert!(pool.contains(&id(1)) && !pool.contains(&id(2)) && pool.contains(&id(3)));
}

#[test]
fn unsaved_bytes_evict_saved_ones() {
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
fn bytes_that_are_marked_as_unsaved_stay_until_they_are_saved() {
    let mut pool = pool();
    pool.insert_saved(id(1), None, bytes(60), Use::default());
    pool.mark_unsaved(&id(1));
    pool.mark_unsaved(&id(1));
    pool.insert_saved(id(2), None, bytes(60), Use::default());
    assert_eq!((pool.unsaved_bytes(), pool.contains(&id(1))), (60, true));
    pool.mark_saved(&id(1));
    pool.insert_saved(id(2), None, bytes(60), Use::default());
    assert_eq!((pool.unsaved_bytes(), pool.contains(&id(1))), (0, false));
}

#[test]
fn removed_bytes_are_returned_and_forgotten() {
    let mut pool = pool();
    pool.insert(id(1), None, bytes(60), Use::default());
    assert_eq!(pool.remove(&id(1)), Some(bytes(60)));
    assert_eq!(pool.remove(&id(1)), None);
    assert_eq!((pool.bytes(), pool.unsaved_bytes(), pool.is_empty()), (0, 0, true));
}

#[test]
fn only_the_tail_of_a_chain_is_evicted_and_no_block_before_an_unsaved_one() {
    let mut pool = pool();
    pool.insert_saved(id(1), None, bytes(40), Use::default());
    pool.insert(id(2), Some(id(1)), bytes(40), Use::default());
    pool.insert(id(3), None, bytes(40), Use::default());
    assert_eq!(pool.len(), 3, "what is not on disk keeps what comes before it");
    pool.mark_saved(&id(2));
    assert!(pool.contains(&id(1)) && !pool.contains(&id(2)));
}

#[test]
fn the_default_policy_keeps_reused_blocks_through_a_scan_of_cold_prompts() {
    let mut pool = WarmPool::new(1_000);
    let used = |conversation: u64, turn: u32, secs: u64| Use {
        run: Run { conversation, turn, tokens: 320, blocks: 5, ..Run::default() },
        now: Timestamp(secs * 1_000),
    };
    let mut kept = 0;
    for round in 0..200 {
        let now = u64::from(round) * 60;
        for block in 1..=5 {
            let (name, parent) = (id(block), (block > 1).then(|| id(block - 1)));
            let used = used(1, round + 1, now);
            if pool.contains(&name) {
                kept += u32::from(round >= 100);
                pool.used(name, parent, 100, used);
            } else {
                pool.insert_saved(name, parent, bytes(100), used);
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

#[test]
fn figures_count_evictions_and_declined_blocks() {
    let mut pool = pool();
    pool.insert_saved(id(1), None, bytes(60), Use::default());
    pool.insert_saved(id(3), None, bytes(60), Use::default());
    let figures = pool.figures();
    assert_eq!((figures.evictions, figures.evicted_bytes, figures.declined), (1, 60, 0));
    pool.insert_saved(id(4), None, bytes(200), Use::default());
    assert_eq!(pool.figures().declined, 1, "it is longer than the budget");
    assert_eq!(pool.figures().guard, None, "LRU needs none");
}

#[test]
fn held_bytes_stay_until_the_last_of_their_holders_releases_them() {
    let mut pool = pool();
    assert!(pool.hold(id(1), None, bytes(80), Use::default()));
    assert!(pool.hold(id(1), None, bytes(80), Use::default()), "they count once");
    pool.release(&id(1));
    pool.insert_saved(id(2), None, bytes(80), Use::default());
    assert!(pool.contains(&id(1)) && pool.is_held(&id(1)), "another one holds them");
    assert!(!pool.hold(id(3), None, bytes(40), Use::default()), "there is no room beside them");
    pool.release(&id(1));
    pool.insert_saved(id(2), None, bytes(80), Use::default());
    assert!(!pool.contains(&id(1)) && pool.contains(&id(2)));
    assert!(pool.hold(id(3), None, bytes(40), Use::default()));
}

#[derive(Clone, Debug)]
enum Step {
    Insert(u8, usize),
    InsertSaved(u8, usize),
    MarkSaved(u8),
    Use(u8),
    Remove(u8),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let (block, size) = (|| 0_u8..12, || 1_usize..60);
    let step = prop_oneof![
        (block(), size()).prop_map(|(n, size)| Step::Insert(n, size)),
        (block(), size()).prop_map(|(n, size)| Step::InsertSaved(n, size)),
        block().prop_map(Step::MarkSaved),
        block().prop_map(Step::Use),
        block().prop_map(Step::Remove),
    ];
    prop::collection::vec(step, 0..60)
}

/// By last use, least recent first.
#[derive(Default)]
struct Naive(Vec<(u8, usize, bool)>);

impl Naive {
    fn step(&mut self, step: &Step) {
        match *step {
            Step::Insert(n, size) => self.insert(n, size, false),
            Step::InsertSaved(n, size) => self.insert(n, size, true),
            Step::MarkSaved(n) => self.0.iter_mut().filter(|e| e.0 == n).for_each(|e| e.2 = true),
            Step::Use(n) => {
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
    fn a_pool_equals_a_list_by_last_use(steps in steps()) {
        let (mut pool, mut naive) = (pool(), Naive::default());
        for step in steps {
            match step.clone() {
                Step::Insert(n, size) => pool.insert(id(n), None, bytes(size), Use::default()),
                Step::InsertSaved(n, size) => pool.insert_saved(id(n), None, bytes(size), Use::default()),
                Step::MarkSaved(n) => pool.mark_saved(&id(n)),
                Step::Use(n) => pool.used(id(n), None, 1, Use::default()),
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
