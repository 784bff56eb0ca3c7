//! The compactions of recorded sessions of an agent: how soon the first answer begins after one.
//!
//! - Lengths are the trace's, each block of 64 tokens as [`Options::block_tokens`]. It has no text.
//! - What is assumed: of what the request adds, [`SUMMARY`] tokens are new (a summary), and so is what it adds
//!   beyond what was dropped. The rest is the end of what was dropped.
//! - [`Options::not_longer`] leaves out prompts that are longer than before, which are no compactions in the usual sense.
//! - The 99th percentile is that of all compactions: those that take each arm longest by [`cost`] are measured by that
//!   arm. The median is that of a sample of [`Options::compactions`] in equal steps.
//! - New text bounds the percentile: see [`bound`]. The fewer tokens stand for a block, the lower the bound, because
//!   attention to what is before a token takes a smaller part of its time.
//! - One conversation each: the prompt before, and then the compacted one. Only the latter is measured, and by each
//!   strategy but the default in a conversation of its own.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use hob_runtime::TokenCounts;
use hob_slots::content::Repair;

use super::pair::{FirstToken, Pair};
use super::server::Server;
use super::{COMPACTED_BAR, Options, QUESTION, arms, is_default};
use crate::Subject;
use crate::bars::is_below;
use crate::peer::trace::{self, Rewrite};
use crate::turns::Words;
use crate::weights::Shape;

/// Tokens of the trace that a summary has.
const SUMMARY: usize = 2048;

/// Tokens of a block of the trace.
const BLOCK: usize = 64;

/// Prompts that are measured below the 99th percentile where KV is moved: [`cost`] is an estimate. Exact reuse needs none:
/// a prompt that it should have measured instead takes longer, so that moving is more times sooner than printed.
const SPARE: usize = 1;

/// The samples of one arm.
#[derive(Default)]
struct Arm {
    sampled: Vec<Duration>,
    /// With how many tokens were computed.
    all: Vec<(Duration, usize)>,
}

/// Returns the bars that were missed.
pub fn run(options: &Options) -> Result<Vec<String>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(trace::DEFAULT);
    let (mut all, requests) = trace::rewrites(&path)?;
    all.retain(|it| !options.not_longer || it.is_compaction());
    let beyond = all.len() / 100;
    let chosen = CompactionSample::of(&all, options, beyond + 1);
    let measured: BTreeSet<usize> = chosen.exact.union(&chosen.moved).copied().collect();

    let longest = measured.iter().map(|&it| all[it].before.max(all[it].kept + all[it].added)).max();
    let cells = (longest.unwrap_or(0) * options.block_tokens + QUESTION) * 5 / 2;
    let mut replay = Replay::new(options, cells)?;
    for &number in &measured {
        replay.measure(number, &all[number], &chosen)?;
    }
    println!(
        "First token of {}: {} of the {} in {requests} requests of the trace, {} of {BLOCK} tokens each, {}, {} threads. By \
         an estimate, the p99 is at most {:.1} x sooner where only new text is computed.\n",
        if options.not_longer { "a compacted prompt" } else { "a rewritten prompt" },
        measured.len(),
        all.len(),
        options.block_tokens,
        replay.pair.title(),
        replay.pair.threads,
        bound(&all, options.block_tokens, beyond),
    );
    let missed = replay.print(chosen.sample.len(), beyond);
    replay.pair.shutdown();
    Ok(missed)
}

/// Numbers of compactions.
struct CompactionSample {
    /// In equal steps.
    sample: BTreeSet<usize>,
    /// The sample, and those that take longest where all is computed that they add.
    exact: BTreeSet<usize>,
    /// The sample, and those that take longest where new text alone is.
    moved: BTreeSet<usize>,
}

impl CompactionSample {
    /// `slow`: how many of those that take longest until the 99th percentile is reached.
    fn of(all: &[Rewrite], options: &Options, slow: usize) -> Self {
        let step = (all.len() / options.compactions.max(1)).max(1);
        let sample: BTreeSet<usize> =
            (0..all.len()).step_by(step).take(options.compactions).collect();
        let slowest = |blocks: fn(&Rewrite) -> usize, slow: usize| {
            let mut order: Vec<usize> = (0..all.len()).collect();
            let cost_of = |it: &Rewrite| cost(it, blocks(it), options.block_tokens);
            order.sort_by_key(|&number| Reverse(cost_of(&all[number])));
            order.truncate(slow);
            sample.iter().copied().chain(order).collect()
        };
        let (exact, moved) = (slowest(|it| it.added, slow), slowest(fresh, slow + SPARE));
        Self { sample, exact, moved }
    }
}

struct Replay<'o> {
    options: &'o Options,
    pair: Pair,
    server: Option<Server>,
    words: Words,
    strategies: Vec<(String, Repair)>,
    exact: Arm,
    /// One a strategy.
    moved: Vec<Arm>,
    served: Arm,
}

impl<'o> Replay<'o> {
    /// `cells` of each engine, about.
    fn new(options: &'o Options, cells: usize) -> Result<Self> {
        // Prompts of the trace are longer than the context that Qwen2.5-0.5B was trained with.
        let subject = options.model.as_deref().unwrap_or(Shape::QWEN2_5_0_5B_LONG.name);
        let pair = Pair::new(options, Subject::of(Some(subject))?, cells)?;
        let words = Words::new(pair.vocabulary());
        let is_compared = |(_, repair): &(String, Repair)| {
            !options.strategies.is_empty() || *repair == Repair::None || is_default(*repair)
        };
        let strategies: Vec<_> = arms(options).into_iter().filter(is_compared).collect();
        let moved = strategies.iter().map(|_| Arm::default()).collect();
        let server = Server::start(&pair.subject, pair.threads, cells, cells)?;
        let (exact, served) = (Arm::default(), Arm::default());
        Ok(Self { options, pair, server, words, strategies, exact, moved, served })
    }

    /// Measures the prompt after the compaction `it` by the arms that are chosen for it; those that move KV read the
    /// prompt before it first.
    fn measure(&mut self, number: usize, it: &Rewrite, chosen: &CompactionSample) -> Result<()> {
        let Self { options, pair, server, words, strategies, exact, moved, served } = self;
        let is_sampled = chosen.sample.contains(&number);
        let (dropped, fresh) = (it.before - it.kept, fresh(it));
        let tokens = |blocks: usize| blocks * options.block_tokens;
        let kept = words.next(tokens(it.kept));
        let history = words.next(tokens(dropped));
        let before = [kept.clone(), history.clone()].concat();
        let comes_again = &history[tokens(dropped - (it.added - fresh))..];
        let after =
            [&kept, &words.next(tokens(fresh)), comes_again, &words.next(QUESTION)].concat();
        let name = format!("session-{number}");
        if chosen.exact.contains(&number) {
            if !kept.is_empty() {
                pair.exact(&name, &kept)?; // All that exact reuse takes of the prompt before.
            }
            exact.add(&name, &pair.exact(&name, &after)?, is_sampled);
        }
        let moved: &mut [Arm] = if chosen.moved.contains(&number) { moved } else { &mut [] };
        if !moved.is_empty() {
            pair.read(&name, &before)?;
        }
        let (own, others): (Vec<_>, Vec<_>) = strategies
            .iter()
            .zip(moved.iter_mut())
            .partition(|((_, repair), _)| is_default(*repair));
        for ((strategy, repair), arm) in others {
            let name = format!("{name}-{strategy}");
            arm.add(&name, &pair.moved(&name, &after, *repair)?, is_sampled);
        }
        for ((_, repair), arm) in own {
            arm.add(&name, &pair.moved_in(&name, &after, *repair)?, is_sampled);
        }
        pair.forget(&name)?;
        if let Some(server) = server {
            server.ask(&before)?;
            let answer = server.ask(&after)?;
            let tokens = TokenCounts { computed: answer.computed, ..TokenCounts::default() };
            let first = FirstToken { took: answer.took, processor: Duration::ZERO, tokens };
            served.add(&name, &first, is_sampled);
        }
        Ok(())
    }

    /// Returns the bars that were missed. `beyond`: compactions above the 99th percentile.
    fn print(&self, sampled: usize, beyond: usize) -> Vec<String> {
        println!(
            "| | p50 of {sampled}, ms | x sooner | p99 of all, ms | tokens computed then | x sooner | bar |\n|---|---:|---:|---:|---:|---:|---:|"
        );
        let base = &self.exact;
        base.print("exact", base, beyond, None);
        let mut missed = Vec::new();
        for ((strategy, repair), arm) in self.strategies.iter().zip(&self.moved) {
            let bar = is_default(*repair).then_some(COMPACTED_BAR);
            let sooner = arm.print(strategy, base, beyond, bar);
            if let Some(bar) = bar.filter(|bar| is_below(sooner, *bar)) {
                missed.push(format!("compactions of the trace: p99 {sooner:.1} x of {bar}"));
            }
        }
        if self.server.is_some() {
            self.served.print("llama-server --cache-reuse", base, beyond, None);
        }
        println!();
        missed
    }
}

/// Blocks that stand nowhere in the prompt before.
fn fresh(it: &Rewrite) -> usize {
    it.added.saturating_sub(it.before - it.kept).max(SUMMARY / BLOCK).min(it.added)
}

/// Grows as the time of computing the first `blocks` of what `it` adds does: a token takes 5 ms, and 1 ms for each 1,000
/// tokens in front of it (the shape of Qwen2.5-0.5B: 8.4 ms a token of 4,128, 12.2 of 10,432).
fn cost(it: &Rewrite, blocks: usize, block_tokens: usize) -> usize {
    blocks * (5_000 + (it.kept + blocks / 2) * block_tokens)
}

/// How many times sooner the 99th percentile is by [`cost`] where all that stands in the prompt before costs nothing.
/// `beyond`: compactions above that.
fn bound(all: &[Rewrite], block_tokens: usize, beyond: usize) -> f64 {
    let percentile = |blocks: fn(&Rewrite) -> usize| {
        let costs = all.iter().map(|it| cost(it, blocks(it), block_tokens));
        let mut costs: Vec<usize> = costs.collect();
        costs.sort_unstable();
        costs.iter().rev().nth(beyond).map_or(f64::NAN, |&cost| cost as f64)
    };
    percentile(|it| it.added) / percentile(fresh)
}

impl Arm {
    /// Prints it, too: a run may take an hour.
    fn add(&mut self, name: &str, first: &FirstToken, is_sampled: bool) {
        eprintln!("{name}: {:.1} s, {:?}", first.took.as_secs_f64(), first.tokens);
        self.all.push((first.took, first.tokens.computed));
        if is_sampled {
            self.sampled.push(first.took);
        }
    }

    /// Of the sample, in milliseconds.
    fn median(&self) -> Option<f64> {
        let mut sampled = self.sampled.clone();
        sampled.sort_unstable();
        sampled.get(sampled.len().saturating_sub(1) / 2).map(|it| it.as_secs_f64() * 1e3)
    }

    /// The 99th percentile of all, in milliseconds, and the tokens computed then. `beyond`: compactions above it.
    fn percentile(&self, beyond: usize) -> (f64, usize) {
        let mut all = self.all.clone();
        all.sort_unstable();
        let (took, computed) = all.iter().rev().nth(beyond).copied().unwrap_or_default();
        (took.as_secs_f64() * 1e3, computed)
    }

    /// Returns how many times sooner than `base` the 99th percentile is.
    fn print(&self, name: &str, base: &Self, beyond: usize, bar: Option<f64>) -> f64 {
        let (p99, computed) = self.percentile(beyond);
        let sooner = base.percentile(beyond).0 / p99;
        let [p50, p50_sooner] = match (self.median(), base.median()) {
            (Some(own), Some(base)) => [format!("{own:.0}"), format!("{:.1}", base / own)],
            _ => [String::new(), String::new()],
        };
        let bar = bar.map_or_else(String::new, |bar| bar.to_string());
        println!("| {name} | {p50} | {p50_sooner} | {p99:.0} | {computed} | {sooner:.1} | {bar} |");
        sooner
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_text_keeps_longer_prompts_near_the_bar_and_compacted_ones_far_above() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(trace::DEFAULT);
        let (mut all, _) = trace::rewrites(&path).expect("it is in the repository");
        let bounds = [2, 3, 8, BLOCK].map(|tokens| bound(&all, tokens, all.len() / 100));
        assert!(bounds.is_sorted(), "{bounds:?}");
        assert!(bounds[1] < COMPACTED_BAR && COMPACTED_BAR < bounds[2], "{bounds:?}");
        all.retain(Rewrite::is_compaction);
        assert!(bound(&all, 3, all.len() / 100) > 4.0 * COMPACTED_BAR);
    }

    #[test]
    fn what_is_not_new_costs_nothing_in_the_bound() {
        // 32 blocks are a summary.
        let all = [Rewrite { before: 1_000, kept: 0, added: 320 }];
        let costs = [320 * (5_000 + 160), 32 * (5_000 + 16)].map(f64::from);
        assert_eq!(bound(&all, 1, 0), costs[0] / costs[1]);
        assert!(bound(&[], 1, 0).is_nan());
    }
}
