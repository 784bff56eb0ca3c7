//! Measures the figures that the default policy must reach.

use std::hint::black_box;
use std::time::Instant;

use crate::policy::PolicyKind;
use hob_slots::Timestamp;
use hob_slots::evict::{AnswerEnd, BlockMeta, Policy, Run};
use serde::Serialize;

use super::{Row, Scope, Setup, WaitRow, hits, waits};
use crate::bundled::Traces;
use crate::closed::{self, Disk};

/// A measured figure and its bar.
#[derive(Clone, Debug, Serialize)]
pub struct Figure {
    pub what: String,
    pub measured: f64,
    /// The minimum, or the maximum for costs.
    pub bar: f64,
    pub is_cost: bool,
}

impl Figure {
    pub fn holds(&self) -> bool {
        if self.is_cost { self.measured <= self.bar } else { self.measured >= self.bar }
    }
}

/// Bars for the share of the gap between LRU and an infinite store: set-up, blocks, percent.
const GAPS: [(Setup, u64, f64); 4] = [
    (Setup::Mixed(4), 550, 40.0),
    (Setup::Claude(8), 550, 5.0),
    (Setup::Claude(16), 550, 9.0),
    (Setup::Arrivals, 4_400, 16.0),
];

/// Capacities at which the default must not lose against LRU.
pub const CELLS: [u64; 6] = [137, 275, 550, 1_100, 2_200, 4_400];

/// At `cells` capacities beside those of the bars.
pub fn figures(traces: &Traces, seeds: u64, requests: usize, cells: &[u64]) -> Vec<Figure> {
    let policies = vec![PolicyKind::Lru, PolicyKind::DEFAULT];
    let scope = Scope { policies: policies.clone(), seeds, requests, optimum: false };
    let mut figures = Vec::new();
    let mut worst: Option<(f64, String)> = None;
    for (setup, capacity, bar) in GAPS {
        let mut capacities = cells.to_vec();
        if !capacities.contains(&capacity) {
            capacities.push(capacity);
        }
        let rows = hits(traces, setup, &capacities, &scope);
        for row in &rows {
            let lead = lead_points(row);
            if worst.as_ref().is_none_or(|(other, _)| lead < *other) {
                worst = Some((lead, format!("{setup} at {} blocks", row.capacity_blocks)));
            }
        }
        let row = rows.iter().find(|row| row.capacity_blocks == capacity);
        let cell = row.and_then(|row| row.cell(PolicyKind::DEFAULT));
        let cell = cell.expect("every gap is among the cells");
        // Without a gap there is nothing to close.
        let measured = cell.gap_closed_percent.unwrap_or(100.0);
        let what = format!("{setup} at {capacity} blocks: gap to infinite closed, %");
        figures.push(Figure { what, measured, bar, is_cost: false });
    }
    let (measured, cell) = worst.expect("there are cells");
    let what = format!("worst cell against LRU, points of hit ratio ({cell})");
    figures.insert(0, Figure { what, measured, bar: -0.3, is_cost: false });

    let setup = closed::Setup { requests: requests / 2, ..closed::Setup::default() };
    let rows = waits(traces, &setup, 550, Disk::default(), &policies, seeds);
    let mean = |policy: &str, disk: bool| {
        let found = |row: &&WaitRow| row.policy == policy && row.disk == disk;
        rows.iter().find(found).expect("it was measured").waits.mean_secs
    };
    let default = PolicyKind::DEFAULT.name();
    figures.push(Figure {
        what: "closed loop, 8 clients, 550 blocks: mean time to first token / that of LRU".into(),
        measured: mean(default, false) / mean(PolicyKind::Lru.name(), false),
        bar: 0.6,
        is_cost: true,
    });
    figures.push(Figure {
        what: "the same with a disk / that of infinite memory".into(),
        measured: mean(default, true) / mean("infinite", false),
        bar: 1.2,
        is_cost: true,
    });
    figures.push(Figure {
        what: "a decision among 10,000 blocks, us".into(),
        measured: decision_micros(PolicyKind::DEFAULT),
        bar: 200.0,
        is_cost: true,
    });
    figures
}

fn lead_points(row: &Row) -> f64 {
    let percent = |kind| row.cell(kind).expect("both are measured").hit_percent;
    percent(PolicyKind::DEFAULT) - percent(PolicyKind::Lru)
}

/// The median time to insert one block and evict another among 10,000 that may all be evicted, of
/// every class and age: the worst case.
pub fn decision_micros(kind: PolicyKind) -> f64 {
    const BLOCKS: u64 = 10_000;
    let ends = [AnswerEnd::Unknown, AnswerEnd::ToolCall, AnswerEnd::Turn];
    let mut policy = kind.build::<u64>(BLOCKS);
    let mut times = Vec::new();
    for id in 0..BLOCKS + 2_000 {
        let run = Run {
            conversation: id % 701,
            turn: (id % 11) as u32,
            tokens: (id * 7 % 601) as u32 * 512,
            blocks: (id * 7 % 601) as u32,
            ended: ends[(id % 3) as usize],
            ..Run::default()
        };
        let meta = BlockMeta { run, ..BlockMeta::new(None, 1) };
        let now = Timestamp(id * 997);
        let begun = Instant::now();
        policy.inserted(id, &meta, now);
        if id >= BLOCKS {
            let victim = black_box(policy.victim(now, &|_| true));
            policy.removed(victim.expect("all may leave"));
            times.push(begun.elapsed());
        }
    }
    times.sort();
    times[times.len() / 2].as_secs_f64() * 1e6
}
