//! hobd beside llama-server, over HTTP.
//!
//! - Both are built programs, started as their users start them, over the same file with the same
//!   threads and context, each with its own defaults otherwise.
//! - Every sample of a table is in one file, see [`crate::record`]; `bench render` makes the documents of it.
//!
//! Reading order: [`setup`] (flags), [`side`] (one of the two), [`server`] and [`stream`] (what it is made
//! of), [`bench`] (what a table gets), [`tables`]; [`trace`] reads the agent's day.

mod bench;
pub mod server;
pub mod setup;
mod side;
mod stream;
mod subject;
mod tables;
mod text;
pub mod trace;

use std::path::PathBuf;

use anyhow::{Result, ensure};

use crate::bars::BarFlags;
use crate::record::{self, Machine, Record, Table};
use crate::render;
use bench::Bench;
use setup::Setup;
use subject::Subject;

#[derive(clap::Args)]
pub struct Options {
    /// Measure these tables only (repeat or separate by commas): first-token, streams, agent-day, bytes,
    /// http, footprint.
    #[arg(long, value_name = "TABLE", value_delimiter = ',')]
    only: Vec<String>,
    /// Measure those tables only that the file does not have yet.
    #[arg(long)]
    resume: bool,
    /// Rounds; each figure is the median of as many samples.
    #[arg(long, default_value_t = 7)]
    rounds: usize,
    /// Rounds of the agent's day, which is long; at most those of `--rounds`.
    #[arg(long, value_name = "ROUNDS", default_value_t = 3)]
    agent_day_rounds: usize,
    /// Multiply all lengths of prompts by this, on a machine that is slower or faster.
    #[arg(long, default_value_t = 1.0)]
    scale: f64,
    /// Compute threads.
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// Random weights in the shape of qwen2.5-0.5b, llama-3.2-1b or qwen2.5-7b with a real vocabulary; or a
    /// GGUF, a path or `smollm2`, without bars.
    #[arg(
        long,
        value_name = "SHAPE|PATH|NAME",
        env = "HOB_BENCH_MODEL",
        default_value = "qwen2.5-0.5b"
    )]
    model: String,
    /// Sessions of an agent, one request a line as in the default.
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// The file of the run; tables that it has are replaced when they are measured again.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    #[command(flatten)]
    bars: BarFlags,
}

/// Cells of both.
const CONTEXT: usize = 16_384;

pub fn run(options: &Options) -> Result<()> {
    let names = tables::ALL.map(|table| table.name);
    for name in &options.only {
        let known = names.contains(&name.as_str());
        ensure!(known, "there is no table {name:?}; choose of {}", names.join(", "));
    }
    let subject = Subject::of(&options.model)?;
    let own = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let out = options
        .out
        .clone()
        .unwrap_or_else(|| own.join(format!("../target/bench/peer-{}.json", subject.file_stem)));
    let mut record = Record::open(
        &out,
        record::Subject {
            machine: Machine::read(),
            model: subject.title.clone(),
            weights_bytes: subject.weights_bytes,
            hobd: hobd_version()?,
            llama_server: server::version()?,
        },
    )?;
    let directory = tempfile::tempdir()?;
    let setup = Setup {
        model: subject.path.clone(),
        context: CONTEXT,
        threads: options.threads,
        slots: None,
        unload_after: None,
        saves: false,
        cache_reuse: None,
        drafts: true,
    };
    let bench = Bench {
        setup,
        directory: directory.path().to_owned(),
        rounds: options.rounds,
        day_rounds: options.agent_day_rounds.min(options.rounds),
        scale: options.scale,
        trace: options.trace.clone().unwrap_or_else(|| own.join(trace::DEFAULT)),
        kv_bytes: subject.kv_bytes,
        weights_bytes: subject.weights_bytes,
    };
    let mut measured = Vec::new();
    for table in tables::ALL {
        let is_wanted = options.only.is_empty() || options.only.iter().any(|it| it == table.name);
        if !is_wanted || (options.resume && record.table(table.name).is_some()) {
            continue;
        }
        let (began_unix_secs, load) = (record::unix_secs(), record::load());
        eprintln!("{} ...", table.name);
        let sheet = (table.measure)(&bench)?;
        let table = Table {
            name: table.name.to_owned(),
            title: sheet.title,
            conditions: sheet.conditions,
            command: command(),
            commit: record::commit(),
            began_unix_secs,
            took_secs: record::unix_secs().saturating_sub(began_unix_secs),
            load,
            threads: options.threads,
            context: CONTEXT,
            rounds: sheet.rounds,
            rows: sheet.rows,
        };
        println!("{}", render::table(&table));
        measured.push(table.name.clone());
        record.put(table, &names);
        record.save(&out)?;
    }
    println!("{}", out.display());
    let missed = record.missed(record.tables.iter().filter(|it| measured.contains(&it.name)));
    if subject.has_bars { options.bars.check(&missed) } else { Ok(()) }
}

fn hobd_version() -> Result<String> {
    let hobd = crate::measure::beside_us("hobd", "hob-daemon")?;
    let output = std::process::Command::new(hobd).arg("--version").output()?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// As it is repeated.
fn command() -> String {
    let words = std::env::args().skip(1);
    std::iter::once("cargo xtask bench".to_owned()).chain(words).collect::<Vec<_>>().join(" ")
}
