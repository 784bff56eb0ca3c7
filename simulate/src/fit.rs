//! Fits the prior of the default policy: what it assumes before it has seen a request.

use hob_slots::evict::guarded_density::GuardedDensity;
use hob_slots::evict::{Cache, History, Policy};

use crate::bundled::Traces;
use crate::study::Setup;
use crate::workload::Arrival;

/// The weight of a prior, in requests: after as many of its own a daemon trusts them more.
pub const PRIOR_RUNS: f32 = 200.0;

/// Blocks of the memory that learns. What is learned hardly depends on it.
const CAPACITY_BLOCKS: u64 = 4_400;

/// Half of it is learned from sessions of an agent, half from a chat service.
pub fn prior(traces: &Traces, requests: usize) -> History {
    let learned = |setup: Setup| {
        let history = learned(&setup.arrivals(traces, requests, 1));
        history.of_at_most(PRIOR_RUNS / 2.0)
    };
    learned(Setup::Claude(8)).and(&learned(Setup::Arrivals))
}

fn learned(arrivals: &[Arrival]) -> History {
    let mut kept = Cache::new(GuardedDensity::new(CAPACITY_BLOCKS), CAPACITY_BLOCKS);
    for arrival in arrivals {
        for (id, meta) in arrival.uses() {
            kept.ask(id, &meta, arrival.at, &|_| true);
        }
    }
    kept.policy_ref().history().expect("the policy learns")
}
