//! The number of compute threads and their polling, on an idle and on a busy machine.
//!
//! For every setting: one token after a short prompt, and a micro-batch of prefill, on an idle
//! machine and beside as many computing threads as it has cores.

use std::time::Duration;

use anyhow::{Result, ensure};
use hob_runtime::Model;
use hob_runtime::backend::llama::{LlamaModel, LlamaOptions, default_threads};
use hob_runtime::backend::{Backend, ContextShape, Sequence};
use hob_slots::Token;

use crate::measure::{BusyMachine, median_ms, time};
use crate::raw::rows;

#[derive(clap::Args)]
pub struct Options {
    /// Samples of each figure.
    #[arg(long, default_value_t = 9)]
    samples: usize,
    /// Tokens of the micro-batch that stands for prefill.
    #[arg(long, default_value_t = 64)]
    rows: usize,
    /// Measure this number of threads only.
    #[arg(long)]
    threads: Option<usize>,
    /// Measure this polling only (0 to 100).
    #[arg(long, value_parser = clap::value_parser!(u32).range(..=100))]
    poll: Option<u32>,
}

pub fn run(options: &Options) -> Result<()> {
    let rows = options.rows;
    let least = rows.min(options.samples) > 0;
    ensure!(least, "a micro-batch of no rows has no time: --rows and --samples are at least 1");
    let path = crate::model_path()?;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    println!("{cores} cores; OpenMP {}", if cfg!(feature = "openmp") { "on" } else { "off" });
    println!("medians of {} in ms; busy: {cores} other threads compute\n", options.samples);
    println!(
        "| threads | poll | token, idle | token, busy | {rows} tokens, idle | {rows} tokens, busy |"
    );
    println!("|---:|---:|---:|---:|---:|---:|");
    for (threads, poll) in settings(options, cores) {
        let llama = LlamaOptions { threads, poll, ..LlamaOptions::default() };
        let model = LlamaModel::load(&path, llama)?;
        let idle = measure(&model, options)?;
        let busy = {
            let _others = BusyMachine::new(cores);
            measure(&model, options)?
        };
        let poll = poll.map_or("default".to_owned(), |poll| poll.to_string());
        println!(
            "| {threads} | {poll} | {:.1} | {:.1} | {:.1} | {:.1} |",
            idle.0, busy.0, idle.1, busy.1
        );
    }
    println!("\nchosen when nothing is set: {} threads, poll 0", default_threads(u64::MAX));
    Ok(())
}

/// The numbers of threads, and their polling, that are measured on a machine with `cores` cores.
fn settings(options: &Options, cores: usize) -> Vec<(usize, Option<u32>)> {
    let mut counts = match options.threads {
        Some(only) => vec![only],
        None => vec![1, cores.saturating_sub(1).max(1), cores],
    };
    counts.dedup();
    let polls = match options.poll {
        Some(only) => vec![Some(only)],
        None => vec![Some(0), Some(50), Some(100), None],
    };
    let of_count = |threads| polls.iter().map(move |&poll| (threads, poll));
    counts.into_iter().flat_map(of_count).collect()
}

/// Median milliseconds of one token and of a prefill micro-batch.
fn measure(model: &LlamaModel, options: &Options) -> Result<(f64, f64)> {
    let rows = options.rows;
    let context_tokens = (2 * rows).max(2048);
    let shape = ContextShape { context_tokens, sequences: 1, micro_batch: rows };
    let mut figures = (f64::NAN, f64::NAN);
    model.with_context(shape, &mut |backend| {
        decode(backend, 0, rows);
        let mut one = Vec::new();
        let mut many = Vec::new();
        for _ in 0..options.samples {
            one.push(timed(backend, rows, 1));
            many.push(timed(backend, rows, rows));
        }
        figures = (median_ms(&one), median_ms(&many));
    })?;
    Ok(figures)
}

/// The time of `tokens` rows behind `context` cells, which leave again.
pub fn timed(backend: &mut dyn Backend, context: usize, tokens: usize) -> Duration {
    let (took, ()) = time(|| decode(backend, context, tokens));
    backend.remove(Sequence(0), context..context + tokens).expect("a plain model");
    took
}

/// Computes `tokens` rows from position `start` on, and reads the last one's logits.
pub fn decode(backend: &mut dyn Backend, start: usize, tokens: usize) {
    let token = |offset: usize| Token(i32::try_from(300 + offset % 1000).expect("small"));
    let mut rows = rows(start, (0..tokens).map(token));
    rows[tokens - 1].wants_logits = true;
    backend.decode(&rows).expect("there is room");
    backend.logits(tokens - 1);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_is_measured_on_every_machine() {
        let one = Options { samples: 1, rows: 1, threads: Some(3), poll: Some(30) };
        assert_eq!(settings(&one, 16), [(3, Some(30))]);
        let all = Options { threads: None, poll: None, ..one };
        let polls = [(1, Some(0)), (1, Some(50)), (1, Some(100)), (1, None)];
        assert_eq!(settings(&all, 1), polls);
        assert_eq!(settings(&all, 16).len(), 3 * polls.len());
    }
}
