//! Tables of set-ups by capacities by policies. Each cell is the mean of several seeds.

mod figures;
mod setup;

use std::thread;

use crate::policy::PolicyKind;
use serde::Serialize;

use crate::bundled::Traces;
use crate::closed::{self, Disk, Waits};
use crate::optimum::{Admission, optimum};
use crate::replay::{Hits, infinite, replay};
use crate::summary::Summary;
use crate::workload::Arrival;

pub use figures::{CELLS, Figure, decision_micros, figures};
pub use setup::{ParseSetupError, Setup};

/// The scope of a study.
#[derive(Clone, Debug)]
pub struct Scope {
    /// In the order of the columns.
    pub policies: Vec<PolicyKind>,
    /// Shuffled session orders to average over.
    pub seeds: u64,
    /// Total requests of clients.
    pub requests: usize,
    pub optimum: bool,
}

/// Hit ratios of one set-up at one capacity.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    pub setup: String,
    pub capacity_blocks: u64,
    pub policies: Vec<Cell>,
    /// The optimum when every request's blocks stay.
    pub optimum_pinned_percent: Option<f64>,
    /// The optimum when blocks may be declined.
    pub optimum_bypass_percent: Option<f64>,
    /// An infinite store.
    pub infinite_percent: f64,
}

#[derive(Clone, Debug, Serialize)]
pub struct Cell {
    pub policy: &'static str,
    /// Percentage of requested blocks that were cached.
    pub hit_percent: f64,
    /// Percentage of the gap between LRU and an infinite store that the policy closes; `None` when
    /// the gap is less than a point.
    pub gap_closed_percent: Option<f64>,
    /// Percentage of requested blocks that the same session had used before and that were evicted.
    pub lost_multi_turn_percent: f64,
    /// Percentage of requested blocks that only another session had used before and that were evicted.
    pub lost_cross_session_percent: f64,
}

impl Row {
    pub fn cell(&self, policy: PolicyKind) -> Option<&Cell> {
        self.policies.iter().find(|cell| cell.policy == policy.name())
    }
}

pub fn hits(traces: &Traces, setup: Setup, capacities: &[u64], scope: &Scope) -> Vec<Row> {
    // Recorded arrivals have one order.
    let seeds = if setup == Setup::Arrivals { 1 } else { scope.seeds };
    let of_seed = |seed| {
        let arrivals = setup.arrivals(traces, scope.requests, seed);
        let rows = capacities.iter().map(|&capacity| percents(&arrivals, capacity, scope));
        rows.collect::<Vec<_>>()
    };
    let by_seed: Vec<Vec<Percents>> = each_seed(seeds, of_seed);
    let rows = capacities.iter().enumerate().map(|(at, &capacity_blocks)| {
        let mean = |of: &dyn Fn(&Percents) -> f64| {
            by_seed.iter().map(|rows| of(&rows[at])).sum::<f64>() / seeds as f64
        };
        let lru = mean(&|percents| percents.lru);
        let infinite_percent = mean(&|percents| percents.infinite);
        let policies = scope.policies.iter().enumerate().map(|(column, kind)| {
            let of = |count: fn(&Hits) -> u64| {
                mean(&|percents| {
                    let hits = percents.policies[column];
                    hits.percent_of(count(&hits))
                })
            };
            let hit_percent = of(|hits| hits.hits);
            let gap = infinite_percent - lru;
            let gap_closed_percent = (gap >= 1.0).then(|| 100.0 * (hit_percent - lru) / gap);
            Cell {
                policy: kind.name(),
                hit_percent,
                gap_closed_percent,
                lost_multi_turn_percent: of(|hits| hits.lost_multi_turn),
                lost_cross_session_percent: of(|hits| hits.lost_cross_session),
            }
        });
        Row {
            setup: setup.to_string(),
            capacity_blocks,
            policies: policies.collect(),
            optimum_pinned_percent: scope.optimum.then(|| mean(&|percents| percents.pinned)),
            optimum_bypass_percent: scope.optimum.then(|| mean(&|percents| percents.bypass)),
            infinite_percent,
        }
    });
    rows.collect()
}

/// What each set-up asks of a cache, in the first order of its sessions.
pub fn summaries(traces: &Traces, setups: &[Setup], requests: usize) -> Vec<Summary> {
    let of = |setup: &Setup| Summary::of(setup.to_string(), &setup.arrivals(traces, requests, 1));
    setups.iter().map(of).collect()
}

struct Percents {
    policies: Vec<Hits>,
    lru: f64,
    pinned: f64,
    bypass: f64,
    infinite: f64,
}

fn percents(arrivals: &[Arrival], capacity: u64, scope: &Scope) -> Percents {
    let of = |kind: PolicyKind| replay(arrivals, kind.build(capacity), capacity);
    let best = |admission| {
        if scope.optimum { optimum(arrivals, capacity as usize, admission).percent() } else { 0.0 }
    };
    let policies: Vec<Hits> = scope.policies.iter().map(|&kind| of(kind)).collect();
    let lru = scope.policies.iter().position(|&kind| kind == PolicyKind::Lru);
    Percents {
        lru: lru.map_or_else(|| of(PolicyKind::Lru), |column| policies[column]).percent(),
        policies,
        pinned: best(Admission::Pinned),
        bypass: best(Admission::Bypass),
        infinite: infinite(arrivals).percent(),
    }
}

#[derive(Clone, Debug, Serialize)]
pub struct WaitRow {
    pub policy: &'static str,
    /// With a disk tier below memory.
    pub disk: bool,
    /// Means over the seeds.
    #[serde(flatten)]
    pub waits: Waits,
}

/// Runs the closed loop with each policy, in memory alone, with a disk, and without bounds.
pub fn waits(
    traces: &Traces,
    setup: &closed::Setup,
    capacity: u64,
    disk: Disk,
    policies: &[PolicyKind],
    seeds: u64,
) -> Vec<WaitRow> {
    let mut rows = Vec::new();
    let sessions = &traces.sessions;
    for (kind, disk) in [None, Some(disk)]
        .into_iter()
        .flat_map(|disk| policies.iter().map(move |&kind| (kind, disk)))
    {
        let of_seed =
            |seed| closed::run(sessions, setup, kind.build(capacity), capacity, disk, seed);
        let waits = Waits::mean(&each_seed(seeds, of_seed));
        rows.push(WaitRow { policy: kind.name(), disk: disk.is_some(), waits });
    }
    let unbounded = u64::MAX;
    let of_seed = |seed| {
        closed::run(sessions, setup, PolicyKind::Lru.build(unbounded), unbounded, None, seed)
    };
    let waits = Waits::mean(&each_seed(seeds, of_seed));
    rows.push(WaitRow { policy: "infinite", disk: false, waits });
    rows
}

/// One thread per seed. Results are in the order of the seeds.
fn each_seed<T: Send>(seeds: u64, of_seed: impl Fn(u64) -> T + Sync) -> Vec<T> {
    thread::scope(|scope| {
        let of_seed = &of_seed;
        let threads: Vec<_> = (1..=seeds).map(|seed| scope.spawn(move || of_seed(seed))).collect();
        threads.into_iter().map(|thread| thread.join().expect("a replay ends")).collect()
    })
}
