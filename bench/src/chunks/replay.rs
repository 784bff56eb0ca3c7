//! The compactions of recorded sessions of an agent: how soon the first answer begins after one.
//!
//! - Lengths are the trace's, each block of 64 tokens as [`Options::block_tokens`]. It has no text.
//! - What is assumed: of what the request adds, [`SUMMARY`] tokens are new (a summary), and so is what it adds
//!   beyond what was dropped. The rest is the end of what was dropped.
//! - The 99th percentile is that of all compactions: those that take longest by [`cost`] are measured. The median is
//!   that of a sample of [`Options::compactions`] in equal steps.
//! - One conversation each: the prompt before, and then the compacted one. Only the latter is measured.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use anyhow::Result;

use super::pair::{Pair, Told};
use super::{COMPACTED_BAR, Options, QUESTION};
use crate::peer::trace::{self, Compaction};
use crate::turns::Words;
use hob_slots::content::Repair;

/// Tokens of the trace that a summary has.
const SUMMARY: usize = 2048;

/// Tokens of a block of the trace.
const BLOCK: usize = 64;

/// Compactions that are measured beyond those that take longer than the 99th percentile: [`cost`] is an estimate.
const SPARE: usize = 2;

/// Of one arm.
#[derive(Default)]
struct Arm {
    computed: usize,
    sampled: Vec<Duration>,
    all: Vec<Duration>,
}

/// Returns the bars that were missed.
pub fn run(options: &Options) -> Result<Vec<String>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(trace::DEFAULT);
    let (all, requests) = trace::compactions(&path)?;
    let step = (all.len() / options.compactions.max(1)).max(1);
    let sample: BTreeSet<usize> = (0..all.len()).step_by(step).take(options.compactions).collect();
    let beyond = all.len() / 100;
    let slowest = |blocks: fn(&Compaction) -> usize| {
        let mut order: Vec<usize> = (0..all.len()).collect();
        order.sort_by_key(|&number| Reverse(cost(&all[number], blocks(&all[number]), options)));
        order.truncate(beyond + 1 + SPARE);
        order
    };
    let mut chosen = sample.clone();
    chosen.extend(slowest(|it| it.added));
    chosen.extend(slowest(fresh));

    let longest = chosen.iter().map(|&it| all[it].before.max(all[it].kept + all[it].added)).max();
    let cells = (longest.unwrap_or(0) * options.block_tokens + QUESTION) * 5 / 2;
    let pair = Pair::new(options, cells)?;
    let mut words = Words::new(pair.vocabulary());
    let (mut exact, mut moved) = (Arm::default(), Arm::default());
    for &number in &chosen {
        let it = &all[number];
        let (dropped, fresh) = (it.before - it.kept, fresh(it));
        let tokens = |blocks: usize| blocks * options.block_tokens;
        let kept = words.next(tokens(it.kept));
        let history = words.next(tokens(dropped));
        let before = [kept.clone(), history.clone()].concat();
        let comes_again = &history[tokens(dropped - (it.added - fresh))..];
        let after =
            [&kept, &words.next(tokens(fresh)), comes_again, &words.next(QUESTION)].concat();
        let name = format!("session-{number}");
        let is_sampled = sample.contains(&number);
        if !kept.is_empty() {
            pair.exact(&name, &kept)?; // All that exact reuse takes of the prompt before.
        }
        exact.add(pair.exact(&name, &after)?, is_sampled);
        pair.read(&name, &before)?;
        moved.add(pair.moved_in(&name, &after, Repair::default())?, is_sampled);
        pair.forget(&name)?;
    }
    println!(
        "First token after a compaction: {} of the {} in {requests} requests of the trace, {} of {BLOCK} tokens each, {}, {} threads.\n",
        chosen.len(),
        all.len(),
        options.block_tokens,
        pair.title(),
        pair.threads,
    );
    println!("| | computed | p50 of {}, ms | p99 of all, ms |\n|---|---:|---:|---:|", sample.len());
    let base = exact.print("exact", beyond);
    let own = moved.print("the default", beyond);
    let [p50, p99] = [base[0] / own[0], base[1] / own[1]];
    println!("| x sooner | | {p50:.1} | {p99:.1} (bar {COMPACTED_BAR}) |\n");
    pair.shutdown();
    let is_missed = p99 < COMPACTED_BAR;
    Ok(is_missed
        .then(|| format!("compactions of the trace: p99 {p99:.1} x of {COMPACTED_BAR}"))
        .into_iter()
        .collect())
}

/// Blocks that stand nowhere in the prompt before.
fn fresh(it: &Compaction) -> usize {
    it.added.saturating_sub(it.before - it.kept).max(SUMMARY / BLOCK).min(it.added)
}

/// Grows as the time of computing `blocks` of what `it` adds does: a token takes 5 ms, and 1 ms for each 1,000 tokens in
/// front of it (the shape of Qwen2.5-0.5B: 8.4 ms a token of 4,128, 12.2 of 10,432).
fn cost(it: &Compaction, blocks: usize, options: &Options) -> usize {
    blocks * (5_000 + (it.kept + it.added / 2) * options.block_tokens)
}

impl Arm {
    fn add(&mut self, (took, _, counts): Told, is_sampled: bool) {
        self.computed += counts.computed;
        self.all.push(took);
        if is_sampled {
            self.sampled.push(took);
        }
    }

    /// `beyond`: compactions above the 99th percentile. Returns the median of the sample and that percentile, in
    /// milliseconds.
    fn print(&self, name: &str, beyond: usize) -> [f64; 2] {
        let [sampled, all] = [&self.sampled, &self.all].map(|times| {
            let mut ms: Vec<f64> = times.iter().map(|it| it.as_secs_f64() * 1e3).collect();
            ms.sort_by(f64::total_cmp);
            ms
        });
        let p50 = sampled.get(sampled.len().saturating_sub(1) / 2).copied().unwrap_or(f64::NAN);
        let p99 = all.iter().rev().nth(beyond).copied().unwrap_or(f64::NAN);
        println!("| {name} | {} | {p50:.0} | {p99:.0} |", self.computed / all.len().max(1));
        [p50, p99]
    }
}
