//! The number of compute threads and their polling, on an idle and on a busy machine.
//!
//! For every setting: one token after a short prompt, and a micro-batch of prefill, on an idle
//! machine and beside as many computing threads as it has cores.

use std::time::Duration;

use anyhow::Result;
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
    #[arg(long)]
    poll: Option<u32>,
}

pub fn run(options: &Options) -> Result<()> {
    let path = crate::model_path()?;
    let rows = options.rows;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    println!("{cores} cores; OpenMP {}", if cfg!(feature = "openmp") { "on" } else { "off" });
    println!("medians of {} in ms; busy: {cores} other threads compute\n", options.samples);
    println!(
        "| threads | poll | token, idle | token, busy | {rows} tokens, idle | {rows} tokens, busy |"
    );
    println!("|---:|---:|---:|---:|---:|---:|");
    let mut counts: Vec<usize> = vec![1, cores.saturating_sub(1).max(1), cores];
    counts.dedup();
    counts.retain(|&count| options.threads.is_none_or(|only| only == count));
    for threads in counts {
        let polls = [Some(0), Some(50), Some(100), None];
        for poll in polls.into_iter().filter(|&poll| options.poll.is_none() || poll == options.poll)
        {
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
    }
    println!("\nchosen when nothing is set: {} threads, poll 0", default_threads(u64::MAX));
    Ok(())
}

/// Median milliseconds of one token and of a prefill micro-batch.
fn measure(model: &LlamaModel, options: &Options) -> Result<(f64, f64)> {
    let rows = options.rows;
    let shape = ContextShape { context_tokens: 2048, sequences: 1, micro_batch: rows };
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
