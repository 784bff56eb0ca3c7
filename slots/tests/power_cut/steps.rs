//! Random steps of a store, one after another, none of which waits for the disk.
//!
//! A number repeats its steps. Conversations consist of a few words, so they share prefixes, are removed,
//! and return.

use std::collections::BTreeSet;
use std::time::Duration;

use hob_slots::{
    AdjustedTime, BlockId, NoEngine, Quota, Rules, Store, Sweeper, Timestamp, TtlClass,
};

use crate::support::random::Random;
use crate::support::talk::{MODEL, Talk, id, later};

pub const TALKS: [&str; 4] = ["ada", "ben", "cleo", "dan"];

pub struct Steps {
    random: Random,
    start: Timestamp,
    minute: u64,
}

impl Steps {
    pub fn new(number: u64, start: Timestamp) -> Self {
        Self { random: Random::new(number), start, minute: 0 }
    }

    pub fn step(&mut self, store: &Store) {
        let name = *self.random.choose(&TALKS);
        self.minute += self.random.below(40) as u64;
        match self.random.below(8) {
            0 => {
                store.remove_slot(MODEL, &id(name)).unwrap();
            }
            1 => {
                let record = store.get_slot(MODEL, &id(name)).ok();
                let named: BTreeSet<BlockId> =
                    record.iter().flat_map(|record| record.objects()).map(|(id, _)| id).collect();
                store.forget(MODEL, &id(name), &named).unwrap();
            }
            2 | 3 => self.sweep(store),
            _ => self.talk(name).save(store).unwrap(),
        }
    }

    fn talk(&mut self, name: &str) -> Talk {
        let length = 1 + self.random.below(5);
        let words: Vec<i32> = (0..length).map(|_| self.random.below(2) as i32).collect();
        let class = *self.random.choose(&TtlClass::ALL);
        let talk = Talk::new(name, class, later(self.start, self.minute), &words);
        if self.random.once_in(3) { talk.with_snapshot() } else { talk }
    }

    fn sweep(&mut self, store: &Store) {
        let quota = Quota::Bytes(*self.random.choose(&[u64::MAX, 4_000, 1_000]));
        let rules = Rules { quota, grace: Duration::ZERO, ..Rules::default() };
        let now = AdjustedTime::from(later(self.start, self.minute));
        let swept = Sweeper::new(rules).sweep(store, &now, &NoEngine);
        assert!(swept.errors.is_empty(), "{:?}", swept.errors);
    }
}
