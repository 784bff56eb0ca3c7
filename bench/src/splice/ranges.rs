//! Ranges in the middle of a sequence, saved and loaded, against computing them in their place.
//!
//! - *Save*: share with the scratch sequence, export, clear it; remove the range from the sequence.
//! - *Load*: import into the scratch sequence, share with the sequence, clear it.
//! - A range is computed when nothing is behind it yet, over the cells before it.
//! - Between them a token is decoded, which reads all weights: no bytes are left in the processor's cache.

use std::ops::Range;
use std::time::Duration;

use anyhow::{Result, ensure};
use hob_runtime::splice;

use super::{Cache, LIVE, OTHER, SCRATCH, blocks};
use crate::bars::is_below;
use crate::measure::{median_ms, time};

/// Tokens before a range, and behind it.
pub const BEFORE: usize = 512;
const BEHIND: usize = 64;

/// Length of the longest sequence.
pub const TOKENS: usize = BEFORE + 1280 + BEHIND;

/// Times that a range leaves and comes back in a round.
const SPLICES: usize = 5;

/// A range, and the minimum factor against computing it.
struct Size {
    tokens: usize,
    /// Moved block by block, as the engine does; otherwise at once.
    in_blocks: bool,
    bar: Option<f64>,
}

const SIZES: [Size; 6] = [
    Size { tokens: 20, in_blocks: false, bar: Some(100.0) },
    Size { tokens: 40, in_blocks: false, bar: Some(100.0) },
    Size { tokens: 160, in_blocks: false, bar: Some(400.0) },
    Size { tokens: 640, in_blocks: false, bar: Some(400.0) },
    Size { tokens: 1280, in_blocks: false, bar: Some(400.0) },
    Size { tokens: 1280, in_blocks: true, bar: Some(400.0) },
];

impl Size {
    fn range(&self) -> Range<usize> {
        BEFORE..BEFORE + self.tokens
    }

    /// What is moved at once.
    fn pieces(&self) -> Vec<Range<usize>> {
        if self.in_blocks { blocks(self.range()) } else { vec![self.range()] }
    }
}

#[derive(Default)]
struct Samples {
    computed: Vec<Duration>,
    saved: Vec<Duration>,
    loaded: Vec<Duration>,
}

/// The logits of the next token after a range came back, against those before it left.
#[derive(Default)]
struct Logits {
    /// The largest difference of two.
    difference: f32,
    /// Ranges after which another token was the most probable one.
    others: usize,
    ranges: usize,
}

#[derive(Default)]
pub struct Table {
    samples: [Samples; SIZES.len()],
    same_cells: Logits,
    other_cells: Logits,
    away: Logits,
    /// The largest, of all that were compared.
    largest: f32,
}

pub fn measure(cache: &mut Cache<'_>, rounds: usize) -> Result<Table> {
    let mut table = Table::default();
    cache.compute(0..BEFORE);
    for _ in 0..rounds {
        for (size, samples) in SIZES.iter().zip(&mut table.samples) {
            let (took, ()) = time(|| cache.compute(size.range()));
            samples.computed.push(took);
            let end = size.range().end + BEHIND;
            cache.compute(size.range().end..end);
            let never = cache.next_logits()?;
            table.largest =
                never.iter().fold(table.largest, |largest, logit| logit.abs().max(largest));

            let pieces = size.pieces();
            let mut states = vec![Vec::new(); pieces.len()];
            for _ in 0..SPLICES {
                let (took, saved) = time(|| save(cache, &pieces, states));
                states = saved?;
                samples.saved.push(took);
                table.away.compare(&never, &cache.next_logits()?);
                let (took, loaded) = time(|| load(cache, &pieces, &states));
                loaded?;
                samples.loaded.push(took);
                table.same_cells.compare(&never, &cache.next_logits()?);
                expect_equal(cache, &pieces, &states)?;
            }

            states = save(cache, &pieces, states)?;
            for (state, piece) in states.iter().zip(&pieces) {
                // Takes the cells that were freed.
                splice::import(cache.backend, SCRATCH, OTHER, state, piece, piece.clone())?;
            }
            load(cache, &pieces, &states)?;
            cache.backend.clear(OTHER);
            expect_equal(cache, &pieces, &states)?;
            table.other_cells.compare(&never, &cache.next_logits()?);
            cache.backend.remove(LIVE, BEFORE..end)?;
        }
    }
    Ok(table)
}

/// Returns the states of the ranges, written over `buffers`.
fn save(
    cache: &mut Cache<'_>,
    ranges: &[Range<usize>],
    buffers: Vec<Vec<u8>>,
) -> Result<Vec<Vec<u8>>> {
    let save = |(range, buffer): (&Range<usize>, Vec<u8>)| {
        let state = splice::export(cache.backend, SCRATCH, LIVE, range.clone(), buffer)?;
        cache.backend.remove(LIVE, range.clone())?;
        Ok(state)
    };
    ranges.iter().zip(buffers).map(save).collect()
}

pub fn load(cache: &mut Cache<'_>, ranges: &[Range<usize>], states: &[Vec<u8>]) -> Result<()> {
    for (range, state) in ranges.iter().zip(states) {
        splice::import(cache.backend, SCRATCH, LIVE, state, range, range.clone())?;
    }
    Ok(())
}

/// Fails unless the ranges of the sequence have these states.
fn expect_equal(cache: &mut Cache<'_>, ranges: &[Range<usize>], states: &[Vec<u8>]) -> Result<()> {
    for (range, state) in ranges.iter().zip(states) {
        let again = splice::export(cache.backend, SCRATCH, LIVE, range.clone(), Vec::new())?;
        ensure!(again == *state, "{range:?} came back with other bytes");
    }
    Ok(())
}

impl Logits {
    fn compare(&mut self, before: &[f32], after: &[f32]) {
        let differences = before.iter().zip(after).map(|(a, b)| (a - b).abs());
        self.difference = differences.fold(self.difference, f32::max);
        self.others += usize::from(best(before) != best(after));
        self.ranges += 1;
    }

    fn print(&self, state: &str) {
        let Self { difference, others, ranges } = self;
        println!("| {state} | {difference:.4} | {} of {ranges} |", ranges - others);
    }
}

fn best(logits: &[f32]) -> Option<usize> {
    (0..logits.len()).max_by(|&a, &b| logits[a].total_cmp(&logits[b]))
}

impl Table {
    /// Returns the bars that were missed.
    pub fn print(&self) -> Vec<String> {
        println!("| tokens | computed, ms | save, ms | load, ms | save + load, ms | x | bar |");
        println!("|---:|---:|---:|---:|---:|---:|---:|");
        let mut missed = Vec::new();
        for (size, samples) in SIZES.iter().zip(&self.samples) {
            let (saved, loaded) = (&samples.saved, &samples.loaded);
            let both: Vec<Duration> = saved.iter().zip(loaded).map(|(a, b)| *a + *b).collect();
            let (computed, both) = (median_ms(&samples.computed), median_ms(&both));
            let ratio = computed / both;
            let how = if size.in_blocks { ", in blocks" } else { "" };
            let bar = size.bar.map_or(String::new(), |bar| format!("{bar:.0}"));
            println!(
                "| {}{how} | {computed:.1} | {:.3} | {:.3} | {both:.3} | {ratio:.0} | {bar} |",
                size.tokens,
                median_ms(saved),
                median_ms(loaded),
            );
            if size.bar.is_some_and(|bar| is_below(ratio, bar)) {
                missed.push(format!("{} tokens{how}: {ratio:.0} x", size.tokens));
            }
        }
        println!(
            "\nEvery range came back with equal bytes. The next token's logits, of up to {:.1}:\n",
            self.largest
        );
        println!("| range | largest difference | most probable token is the same |");
        println!("|---|---:|---:|");
        self.same_cells.print("came back into the same cells");
        self.other_cells.print("came back into other cells");
        self.away.print("away");
        println!();
        missed
    }
}
