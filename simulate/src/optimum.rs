//! What a policy reaches that knows the future: whoever is asked for last leaves first.
//!
//! - A parent is always asked for no later than its children, so leaving from the tail costs nothing.
//! - *Pinned*: the blocks of the request that is being served stay, as in a cache that computes in
//!   place. *Bypass*: they may be declined, too.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use crate::replay::Hits;
use crate::workload::Arrival;

/// Whether the request that is served may be declined room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// Never.
    Pinned,
    /// Yes.
    Bypass,
}

/// Replays the requests against the optimum, over a store of `capacity` blocks.
pub fn optimum(arrivals: &[Arrival], capacity: usize, admission: Admission) -> Hits {
    let next_uses = next_uses(arrivals);
    let mut kept: HashMap<u64, Place> = HashMap::new();
    let mut order: BTreeMap<Reverse<Place>, u64> = BTreeMap::new();
    let mut hits = Hits::default();
    let mut uses = next_uses.iter();
    for (number, arrival) in arrivals.iter().enumerate() {
        let mut going_on = true;
        for (depth, id) in arrival.blocks.iter().enumerate() {
            let next = *uses.next().expect("every use has a next one");
            let place = Place { next, depth, id: *id };
            hits.asked += 1;
            if let Some(before) = kept.remove(id) {
                order.remove(&Reverse(before));
                hits.hits += 1;
            } else if !going_on || next == u32::MAX && admission == Admission::Bypass {
                going_on = false;
                continue;
            }
            kept.insert(*id, place);
            order.insert(Reverse(place), *id);
            if kept.len() > capacity {
                let served = |id: &u64| {
                    admission == Admission::Pinned && arrival.blocks[..=depth].contains(id)
                };
                let victim = order.iter().find(|(_, id)| !served(id));
                let victim = victim.map_or(*id, |(_, &id)| id);
                let place = kept.remove(&victim).expect("what is in order is kept");
                order.remove(&Reverse(place));
                going_on = victim != *id;
            }
        }
        let _ = number;
    }
    hits
}

/// Who is asked for later ranks higher; of one request's blocks the deeper one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    next: u32,
    depth: usize,
    id: u64,
}

/// For each use, in order, the request that uses the block next.
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
