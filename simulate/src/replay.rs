//! Counts what a policy would have kept, request after request.
//!
//! - A hit is a block that is kept when its request comes, as are all before it.
//! - Blocks of a prompt come to be kept in its order. The store may decline them: a run lives in
//!   its slot.

use std::collections::HashSet;

use hob_slots::evict::{Answer, Cache, Policy};

use crate::workload::Arrival;

/// What was asked for, and how much of it was kept, in blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hits {
    /// Cache.
    pub hits: u64,
    /// Asked for.
    pub asked: u64,
}

impl Hits {
    /// Per hundred.
    pub fn percent(self) -> f64 {
        100.0 * self.hits as f64 / self.asked.max(1) as f64
    }
}

/// Replays the requests against a policy, over a store of `capacity` blocks.
pub fn replay(arrivals: &[Arrival], policy: impl Policy<u64>, capacity: u64) -> Hits {
    let mut kept = Cache::new(policy, capacity);
    let mut hits = Hits::default();
    for arrival in arrivals {
        for (id, meta) in arrival.uses() {
            let answer = kept.ask(id, &meta, arrival.at, &|_| true);
            hits.hits += u64::from(answer == Answer::Hit);
            hits.asked += 1;
        }
    }
    hits
}

/// What a store without bounds would hit.
pub fn infinite(arrivals: &[Arrival]) -> Hits {
    let mut kept: HashSet<u64> = HashSet::new();
    let mut hits = Hits::default();
    for arrival in arrivals {
        let known = arrival.blocks.iter().take_while(|block| kept.contains(*block)).count();
        hits.hits += known as u64;
        hits.asked += arrival.blocks.len() as u64;
        kept.extend(&arrival.blocks[known..]);
    }
    hits
}
