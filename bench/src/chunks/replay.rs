//! The compactions of recorded sessions of an agent: how soon the first answer begins after one.
//!
//! - Lengths are the trace's, each block of 64 tokens as [`Options::block_tokens`]. It has no text.
//! - What is assumed: of what the request adds, [`SUMMARY`] tokens are new (a summary), and so is what it adds
//!   beyond what was dropped. The rest is the end of what was dropped.
//! - One conversation each: the prompt before, and then the compacted one. Only the latter is measured.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;

use super::pair::Pair;
use super::{COMPACTED_BAR, Options, QUESTION};
use crate::peer::trace::{self, Compaction};
use crate::turns::Words;
use hob_slots::content::Repair;

/// Tokens of the trace that a summary has.
const SUMMARY: usize = 2048;

/// Tokens of a block of the trace.
const BLOCK: usize = 64;

/// Returns the bars that were missed.
pub fn run(options: &Options) -> Result<Vec<String>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(trace::DEFAULT);
    let (all, requests) = trace::compactions(&path)?;
    let step = (all.len() / options.compactions.max(1)).max(1);
    let chosen: Vec<Compaction> =
        all.iter().step_by(step).take(options.compactions).copied().collect();
    let longest = chosen.iter().map(|it| it.before.max(it.kept + it.added)).max().unwrap_or(0);
    let cells = (longest * options.block_tokens + QUESTION) * 5 / 2;
    let pair = Pair::new(options, cells)?;
    let mut words = Words::new(pair.vocabulary());
    let (mut exact, mut moved) = (Vec::new(), Vec::new());
    let (mut computed, mut of_exact) = (0, 0);
    for (number, it) in chosen.iter().enumerate() {
        let dropped = it.before - it.kept;
        let fresh = (it.added.saturating_sub(dropped)).max(SUMMARY / BLOCK).min(it.added);
        let tokens = |blocks: usize| blocks * options.block_tokens;
        let kept = words.next(tokens(it.kept));
        let history = words.next(tokens(dropped));
        let before = [kept.clone(), history.clone()].concat();
        let comes_again = &history[tokens(dropped - (it.added - fresh))..];
        let after =
            [&kept, &words.next(tokens(fresh)), comes_again, &words.next(QUESTION)].concat();
        let name = format!("session-{number}");
        pair.exact(&name, &before)?;
        pair.read(&name, &before)?;
        let (took, _, counts) = pair.exact(&name, &after)?;
        exact.push(took);
        of_exact += counts.computed;
        let (took, _, counts) = pair.moved_in(&name, &after, Repair::default())?;
        moved.push(took);
        computed += counts.computed;
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
    println!("| | computed | p50, ms | p99, ms |\n|---|---:|---:|---:|");
    let row = |name: &str, computed: usize, times: &[Duration]| {
        let (p50, p99) = (percentile(times, 50), percentile(times, 99));
        println!("| {name} | {} | {p50:.0} | {p99:.0} |", computed / times.len().max(1));
        [p50, p99]
    };
    let base = row("exact", of_exact, &exact);
    let own = row("the default", computed, &moved);
    let [p50, p99] = [base[0] / own[0], base[1] / own[1]];
    println!("| x sooner | | {p50:.1} | {p99:.1} (bar {COMPACTED_BAR}) |\n");
    pair.shutdown();
    let is_missed = p99 < COMPACTED_BAR;
    Ok(is_missed
        .then(|| format!("compactions of the trace: p99 {p99:.1} x of {COMPACTED_BAR}"))
        .into_iter()
        .collect())
}

/// The nearest rank, in milliseconds.
fn percentile(times: &[Duration], part: usize) -> f64 {
    let mut ms: Vec<f64> = times.iter().map(|it| it.as_secs_f64() * 1e3).collect();
    ms.sort_by(f64::total_cmp);
    let rank = (ms.len() * part).div_ceil(100).max(1);
    ms.get(rank - 1).copied().unwrap_or(f64::NAN)
}
