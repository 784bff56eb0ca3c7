//! Counts the hits of a policy, request by request.
//!
//! - A hit is a block that is cached, with all blocks before it, when its request arrives.
//! - Blocks are inserted in the order of the prompt. The policy may decline them: a run has its KV
//!   in its slot.

use std::collections::HashSet;

use hob_slots::evict::{Answer, Cache, Policy};

use crate::summary::{Reuse, Uses};
use crate::workload::Arrival;

/// Requested blocks and hits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hits {
    pub hits: u64,
    pub asked: u64,
    /// Blocks that the same session had used before and that were evicted.
    pub lost_multi_turn: u64,
    /// Blocks that only another session had used before and that were evicted.
    pub lost_cross_session: u64,
}

impl Hits {
    pub fn percent(self) -> f64 {
        self.percent_of(self.hits)
    }

    /// `blocks` as a percentage of the requested ones.
    pub fn percent_of(self, blocks: u64) -> f64 {
        100.0 * blocks as f64 / self.asked.max(1) as f64
    }
}

/// Over a store of `capacity` blocks.
pub fn replay(arrivals: &[Arrival], policy: impl Policy<u64>, capacity: u64) -> Hits {
    let mut kept = Cache::new(policy, capacity);
    let (mut hits, mut before) = (Hits::default(), Uses::default());
    for arrival in arrivals {
        for ((id, meta), reuse) in arrival.uses().zip(before.look(arrival)) {
            let answer = kept.ask(id, &meta, arrival.at, &|_| true);
            hits.asked += 1;
            match (answer, reuse) {
                (Answer::Hit, _) => hits.hits += 1,
                (_, Some((Reuse::MultiTurn, _))) => hits.lost_multi_turn += 1,
                (_, Some((Reuse::CrossSession, _))) => hits.lost_cross_session += 1,
                (_, None) => {}
            }
        }
        before.add(arrival);
    }
    hits
}

/// The hits of an infinite store.
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
