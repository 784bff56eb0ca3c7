//! One token behind a sequence with holes.
//!
//! The states differ only in which blocks have cells, and where: they are made of one computed
//! sequence by splices, in every round anew.

use std::time::Duration;

use anyhow::Result;
use hob_runtime::splice;

use super::ranges::load;
use super::{Cache, LIVE, SCRATCH, blocks};
use crate::bars::is_above;
use crate::measure::{median_ms, time};

/// Length of the sequence without holes.
pub const TOKENS: usize = 2048;

/// Tokens that are decoded in a state, in a round.
const SAMPLES: usize = 9;

/// Maximum factor of a token behind holes, against the same sequence without: "no slower", and the
/// noise of a median.
const BAR: f64 = 1.02;

#[derive(Default)]
pub struct Table {
    whole: Vec<Duration>,
    /// Every second block is away; the others are where they were.
    holes: Vec<Duration>,
    /// The blocks of `holes`, in the first cells of the cache, as after a park.
    packed: Vec<Duration>,
    /// A sequence without holes that has as many tokens as the others have cells.
    shorter: Vec<Duration>,
}

pub fn measure(cache: &mut Cache<'_>, rounds: usize) -> Result<Table> {
    let mut table = Table::default();
    cache.compute(0..TOKENS);
    let all = blocks(0..TOKENS);
    let mut states = Vec::new();
    for block in &all {
        states.push(splice::export(cache.backend, SCRATCH, LIVE, block.clone(), Vec::new())?);
    }
    // The last block stays: a batch cannot begin behind a hole.
    let (away, resident): (Vec<_>, Vec<_>) =
        all.iter().cloned().enumerate().partition(|(index, _)| index % 2 == 0);
    let resident_states: Vec<_> =
        resident.iter().map(|(index, _)| states[*index].clone()).collect();
    let resident: Vec<_> = resident.into_iter().map(|(_, block)| block).collect();
    for _ in 0..rounds {
        sample(cache, &mut table.whole)?;
        for (_, block) in &away {
            cache.backend.remove(LIVE, block.clone())?;
        }
        sample(cache, &mut table.holes)?;
        cache.backend.clear(LIVE);
        load(cache, &resident, &resident_states)?;
        sample(cache, &mut table.packed)?;
        cache.backend.clear(LIVE);
        load(cache, &all[..resident.len()], &states)?;
        sample(cache, &mut table.shorter)?;
        cache.backend.clear(LIVE);
        load(cache, &all, &states)?;
    }
    Ok(table)
}

fn sample(cache: &mut Cache<'_>, samples: &mut Vec<Duration>) -> Result<()> {
    cache.next_logits()?; // Unmeasured: the graph changes with the number of cells.
    for _ in 0..SAMPLES {
        let (took, logits) = time(|| cache.next_logits());
        logits?;
        samples.push(took);
    }
    Ok(())
}

impl Table {
    /// Returns the bars that were missed.
    pub fn print(&self) -> Vec<String> {
        let half = TOKENS / 2;
        let whole = median_ms(&self.whole);
        println!("| a token behind | ms | x without holes | bar |");
        println!("|---|---:|---:|---:|");
        let rows = [
            (format!("{TOKENS} tokens without holes"), &self.whole, None),
            (
                format!("the same, every second block away ({half} resident)"),
                &self.holes,
                Some(BAR),
            ),
            (format!("the same {half}, packed into the first cells"), &self.packed, Some(BAR)),
            (format!("{half} tokens without holes"), &self.shorter, None),
        ];
        let mut missed = Vec::new();
        for (what, samples, bar) in rows {
            let (ms, ratio) = (median_ms(samples), median_ms(samples) / whole);
            let bar_text = bar.map_or(String::new(), |bar: f64| format!("{bar:.2}"));
            println!("| {what} | {ms:.1} | {ratio:.2} | {bar_text} |");
            if bar.is_some_and(|bar| is_above(ratio, bar)) {
                missed.push(format!("{what}: {ratio:.2} x"));
            }
        }
        missed
    }
}
