//! The hit ratio of a policy that knows the future: it evicts the block whose next use is last.
//!
//! - A parent's next use is never later than its children's, so evicting tails costs nothing.
//! - *Pinned*: the blocks of the current request stay, as in a cache that computes in place.
//!   *Bypass*: they may be declined.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use crate::replay::Hits;
use crate::workload::Arrival;

/// Whether blocks of the current request may be declined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    Pinned,
    Bypass,
}

/// Over a store of `capacity` blocks.
pub fn optimum(arrivals: &[Arrival], capacity: usize, admission: Admission) -> Hits {
    let next_uses = next_uses(arrivals);
    // With the request of the last use.
    let mut kept: HashMap<u64, (Place, usize)> = HashMap::new();
    let mut order: BTreeMap<Reverse<Place>, u64> = BTreeMap::new();
    let mut hits = Hits::default();
    let mut uses = next_uses.iter();
    for (number, arrival) in arrivals.iter().enumerate() {
        let mut goes_on = true;
        for (depth, id) in arrival.blocks.iter().enumerate() {
            let next = *uses.next().expect("every use has a next one");
            let place = Place { next, depth, id: *id };
            hits.asked += 1;
            if let Some((before, _)) = kept.remove(id) {
                order.remove(&Reverse(before));
                hits.hits += 1;
            } else if !goes_on {
                continue;
            }
            kept.insert(*id, (place, number));
            order.insert(Reverse(place), *id);
            if kept.len() > capacity {
                let stays = |id: &u64| admission == Admission::Pinned && kept[id].1 == number;
                let victim = order.values().find(|id| !stays(id)).copied().unwrap_or(*id);
                let (place, _) = kept.remove(&victim).expect("an ordered block is cached");
                order.remove(&Reverse(place));
                goes_on = victim != *id;
            }
        }
    }
    hits
}

/// A later next use ranks higher; of one request's blocks the deeper one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    next: u32,
    depth: usize,
    id: u64,
}

/// For each use, in order: the next request that uses the block.
fn next_uses(arrivals: &[Arrival]) -> Vec<u32> {
    let mut next_of = HashMap::new();
    let mut uses = Vec::new();
    for (number, arrival) in arrivals.iter().enumerate().rev() {
        for id in arrival.blocks.iter().rev() {
            uses.push(next_of.insert(*id, number as u32).unwrap_or(u32::MAX));
        }
    }
    uses.reverse();
    uses
}

#[cfg(test)]
mod tests {
    use crate::policy::PolicyKind;
    use hob_slots::Timestamp;
    use hob_slots::evict::Run;
    use proptest::prelude::*;

    use super::*;
    use crate::replay::{infinite, replay};

    fn arrival(blocks: Vec<u64>) -> Arrival {
        Arrival { at: Timestamp(0), run: Run::default(), blocks, tokens: 0 }
    }

    #[test]
    fn the_block_used_last_is_evicted_first() {
        let asked = [1, 2, 3, 1, 2, 3, 1, 2, 3].map(|block| arrival(vec![block]));
        assert_eq!(optimum(&asked, 2, Admission::Pinned).hits, 3);
        assert_eq!(optimum(&asked, 2, Admission::Bypass).hits, 4);
        assert_eq!(replay(&asked, PolicyKind::Lru.build(2), 2).hits, 0);
    }

    proptest! {
        #[test]
        fn no_policy_beats_the_optimum_or_an_infinite_store(
            chains in prop::collection::vec((0_u64..6, 1_u64..8), 0..60), capacity in 1_u64..20,
        ) {
            let asked: Vec<_> = chains
                .into_iter()
                .map(|(tree, depth)| arrival((0..depth).map(|at| tree * 100 + at).collect()))
                .collect();
            let best = optimum(&asked, capacity as usize, Admission::Bypass);
            prop_assert!(best.hits <= infinite(&asked).hits);
            for kind in PolicyKind::ALL {
                let hits = replay(&asked, kind.build(capacity), capacity);
                prop_assert!(hits.hits <= best.hits, "{}: {:?} > {:?}", kind, hits, best);
            }
        }
    }
}
