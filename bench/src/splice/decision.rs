//! Who leaves: one decision about 2,000 blocks of a long session, from 0.95 of the budget to 0.75, by each
//! policy. No model.

use std::time::Duration;

use hob_slots::away::{BlockFacts, Demand, Limits, Policy, Sketch, leaving};
use hob_slots::{BLOCK_TOKENS, Layer, Token};

use crate::measure::{median_ms, time};

const BLOCKS: usize = 2_000;
const SAMPLES: usize = 500;

/// Microseconds.
const BAR: f64 = 200.0;

pub struct Table(Vec<(Policy, Vec<Duration>)>);

pub fn measure() -> Table {
    let blocks = blocks();
    let cells = BLOCKS * BLOCK_TOKENS;
    let limits = Limits { budget: cells * 100 / 95, micro_batch: 512 };
    let demand = Demand { needed: limits.budget / 5, wanted: limits.budget / 5 };
    let samples = |policy: Policy| {
        let scorer = policy.scorer(1);
        let decide = |_| {
            let (took, leave) = time(|| leaving(&*scorer, &blocks, limits, 200, demand));
            let freed: usize = leave.iter().map(|&at| blocks[at].own_cells).sum();
            assert!(freed >= demand.needed, "{policy:?} frees what is needed");
            took
        };
        (policy, (0..SAMPLES).map(decide).collect())
    };
    Table(Policy::ALL.into_iter().map(samples).collect())
}

/// Turns of ten blocks; a fifth of the blocks in interleaved files; some used again.
fn blocks() -> Vec<BlockFacts> {
    let mut state = 0x5eed_u64;
    let mut draw = |below: u64| {
        // The multiplier is Knuth's for MMIX; the low bits of such a generator are poor.
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1);
        (state >> 33) % below
    };
    let block = |at: usize| {
        let layer = [Layer::User, Layer::Assistant, Layer::Tool, Layer::Document][at % 4];
        let turn = at as u32 / 10;
        let topic = draw(200) as i32 * 40;
        let sketch = Sketch::of(&(topic..topic + 40).map(Token).collect::<Vec<_>>());
        let start = at * BLOCK_TOKENS;
        BlockFacts {
            last_used_turn: turn.max(draw(250) as u32 % 201),
            group: if draw(5) == 0 { 1 + draw(50) } else { 0 },
            hits: draw(3) as u32,
            brought_back: (draw(7) == 0).then_some(turn),
            ..BlockFacts::new(start..start + BLOCK_TOKENS, layer, turn, sketch)
        }
    };
    (0..BLOCKS).map(block).collect()
}

impl Table {
    /// Returns the bars that were missed.
    pub fn print(&self) -> Vec<String> {
        println!("\n| eviction from {BLOCKS} blocks | us | 99 % within, us | bar |");
        println!("|---|---:|---:|---:|");
        let mut missed = Vec::new();
        for (policy, samples) in &self.0 {
            let mut sorted = samples.clone();
            sorted.sort_unstable();
            let middle = median_ms(samples) * 1e3;
            let most = sorted[SAMPLES * 99 / 100].as_secs_f64() * 1e6;
            println!("| {} | {middle:.1} | {most:.1} | {BAR:.0} |", policy.as_str());
            if middle > BAR {
                missed.push(format!("{}: {middle:.0} us", policy.as_str()));
            }
        }
        missed
    }
}
