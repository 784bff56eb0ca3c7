//! The time of a micro-batch by its rows and by the cells that they see, on llama.cpp alone.
//!
//! On a processor, llama.cpp computes attention in tiles of 64 rows, and row by row below.

use anyhow::{Result, ensure};
use hob_runtime::Model;
use hob_runtime::backend::llama::{LlamaModel, LlamaOptions, default_threads};
use hob_runtime::backend::{Backend, ContextShape, Sequence};

use crate::Subject;
use crate::measure::median_ms;
use crate::threads::{decode, timed};

#[derive(clap::Args)]
pub struct Options {
    /// Rows of a micro-batch.
    #[arg(long, value_delimiter = ',', default_values_t = [8, 16, 24, 32, 40, 48, 56, 63, 64, 96, 128, 256])]
    rows: Vec<usize>,
    /// Cells before it.
    #[arg(long, value_delimiter = ',', default_values_t = [0, 1024, 2048, 4096, 8192])]
    cells: Vec<usize>,
    /// Samples of each figure, of which the median is printed.
    #[arg(long, default_value_t = 5)]
    samples: usize,
    /// Compute threads; 0 chooses as hobd does.
    #[arg(long, default_value_t = 0)]
    threads: usize,
    /// Another model than the one of 0.5B shape: another shape, a path, or a name among the fetched ones.
    #[arg(long, value_name = "SHAPE|PATH|NAME")]
    model: Option<String>,
}

/// Rows of a micro-batch that fills the cache.
const FILLING: usize = 256;

pub fn run(options: &Options) -> Result<()> {
    let least = options.rows.iter().chain([&options.samples]).all(|&number| number > 0);
    ensure!(least, "a micro-batch of no rows has no time: --rows and --samples are at least 1");
    let subject = Subject::of(options.model.as_deref())?;
    let threads = if options.threads == 0 { default_threads(u64::MAX) } else { options.threads };
    let llama = LlamaOptions { threads, ..LlamaOptions::default() };
    let model = LlamaModel::load(&subject.path, llama)?;
    let (mut cells, mut rows) = (options.cells.clone(), options.rows.clone());
    cells.sort_unstable();
    rows.sort_unstable();
    let most = |numbers: &[usize]| numbers.last().copied().unwrap_or(0);
    let micro_batch = most(&rows).max(FILLING);
    let context_tokens = most(&cells) + micro_batch;
    println!(
        "Milliseconds of a micro-batch, {}; {threads} threads; medians of {}.\n",
        subject.on(&model),
        options.samples
    );
    let columns: Vec<String> = rows.iter().map(usize::to_string).collect();
    println!("| cells before \\ rows | {} |", columns.join(" | "));
    println!("|---:|{}", "---:|".repeat(rows.len()));
    let shape = ContextShape { context_tokens, sequences: 1, micro_batch };
    model.with_context(shape, &mut |backend| {
        for &before in &cells {
            // The cells' values do not change the time of attention.
            for start in (backend.end(Sequence(0))..before).step_by(FILLING) {
                decode(backend, start, FILLING.min(before - start));
            }
            let figures: Vec<String> = rows
                .iter()
                .map(|&rows| format!("{:.1}", figure(backend, before, rows, options.samples)))
                .collect();
            println!("| {before} | {} |", figures.join(" | "));
        }
    })?;
    Ok(())
}

/// The median, in milliseconds.
fn figure(backend: &mut dyn Backend, before: usize, rows: usize, samples: usize) -> f64 {
    let times: Vec<_> = (0..samples).map(|_| timed(backend, before, rows)).collect();
    median_ms(&times)
}
