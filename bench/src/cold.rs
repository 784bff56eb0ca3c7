//! A prompt that nothing is known of.
//!
//! Three ratios in one run, on the shape of Qwen2.5-0.5B: a cold prompt against llama.cpp alone,
//! with the batches and the polling of llama-server, which has no bar (llama-server's own time has one: `bench
//! peer`); four equal prompts at once against one; and a
//! short prompt behind a long one against the same alone, with what the long one loses by that. Everything
//! is interleaved.

use std::path::Path;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use anyhow::{Result, ensure};
use hob_runtime::backend::llama::{LlamaModel, LlamaOptions};
use hob_runtime::backend::{ContextShape, Sequence};
use hob_runtime::{Engine, EngineOptions, Model, TurnReport};
use hob_slots::Token;

use crate::bars::{BarFlags, is_above};
use crate::measure::{median_ms, time};
use crate::raw::prefill;
use crate::turns::{self, Words, request, settle, status, ttft};
use crate::{Subject, SubjectFlags};

#[derive(clap::Args)]
pub struct Options {
    /// Tokens of the cold prompt.
    #[arg(long, default_value_t = 921)]
    tokens: usize,
    /// Rounds; each figure is the median of as many samples.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Compute threads; 0 chooses as hobd does.
    #[arg(long, default_value_t = 0)]
    threads: usize,
    /// Maximum rows of a micro-batch.
    #[arg(long)]
    micro_batch: Option<usize>,
    /// Measure the cold prompt only.
    #[arg(long)]
    only_cold: bool,
    #[command(flatten)]
    subject: SubjectFlags,
    #[command(flatten)]
    bars: BarFlags,
}

/// Prompts that are equal and arrive at once, and their tokens.
const EQUALS: usize = 4;
const EQUAL_TOKENS: usize = 2048;

/// A prompt that takes long, and one that arrives while it is computed.
const LONG_TOKENS: usize = 4096;
const SHORT_TOKENS: usize = 20;

/// llama-server's polling and `n_ubatch`.
const SERVER_POLL: u32 = 50;
const SERVER_ROWS: usize = 512;

/// Maximum factor of four equal prompts against one.
const EQUALS_BAR: f64 = 1.10;
/// Maximum delay of a short prompt by a long one.
const DELAY_BAR_MS: f64 = 300.0;

#[derive(Default)]
struct Table {
    server: Vec<Duration>,
    cold: Vec<Duration>,
    one: Vec<Duration>,
    equals: Vec<Duration>,
    alone: Vec<Duration>,
    behind: Vec<Duration>,
    lost: Vec<Duration>,
}

pub fn run(options: &Options) -> Result<()> {
    let subject = Subject::of(options.subject.model.as_deref())?;
    let llama = LlamaOptions { threads: options.threads, ..LlamaOptions::default() };
    let as_server = LlamaOptions { poll: Some(SERVER_POLL), ..llama.clone() };
    let model: Arc<dyn Model> = Arc::new(LlamaModel::load(&subject.path, llama)?);
    let server = Server::start(Arc::new(LlamaModel::load(&subject.path, as_server)?));
    let directory = tempfile::tempdir()?;
    let engine = start(&model, directory.path(), options)?;
    let mut text = Words::new(model.vocabulary().len());
    // Unmeasured: the first micro-batches read the weights.
    turn(&engine, "first", &text.next(64))?;
    server.measure(text.next(64))?;
    let mut table = Table::default();
    for round in 0..options.rounds {
        settle(&engine);
        table.server.push(server.measure(text.next(options.tokens))?);
        let report = turn(&engine, &format!("cold {round}"), &text.next(options.tokens))?;
        expect_computed(&report, options.tokens)?;
        table.cold.push(ttft(&report));
        if options.only_cold {
            continue;
        }
        settle(&engine);
        let report = turn(&engine, &format!("one {round}"), &text.next(EQUAL_TOKENS))?;
        expect_computed(&report, EQUAL_TOKENS)?;
        table.one.push(ttft(&report));
        settle(&engine);
        table.equals.push(equals(&engine, round, &text.next(EQUAL_TOKENS))?);
        settle(&engine);
        let report = turn(&engine, &format!("alone {round}"), &text.next(SHORT_TOKENS))?;
        table.alone.push(ttft(&report));
        settle(&engine);
        if let Some((behind, lost)) = behind(&engine, round, &mut text)? {
            table.behind.push(behind);
            table.lost.push(lost);
        }
    }
    engine.shutdown();
    print(options, &subject.on(&*model), &table)
}

/// The time of the last of equal prompts that are submitted at once.
fn equals(engine: &Engine, round: usize, prompt: &[Token]) -> Result<Duration> {
    let name = |n: usize| format!("equal {round} {n}");
    let threads: Vec<_> = (0..EQUALS)
        .map(|n| {
            let (engine, prompt) = (engine.clone(), prompt.to_vec());
            let name = name(n);
            std::thread::spawn(move || turn(&engine, &name, &prompt))
        })
        .collect();
    let mut last = Duration::ZERO;
    for thread in threads {
        last = last.max(ttft(&thread.join().expect("a turn returns its errors")?));
    }
    Ok(last)
}

/// The time of a short prompt that arrives while a long one is computed, and for how long the micro-batch
/// that it cuts had computed. The long one is cancelled then. `None`: the long one was computed already.
fn behind(engine: &Engine, round: usize, text: &mut Words) -> Result<Option<(Duration, Duration)>> {
    let before = status(engine).counters;
    let computed = || status(engine).counters.computed_tokens - before.computed_tokens;
    let long = engine.submit(request(&format!("long {round}"), &text.next(LONG_TOKENS), 1))?;
    while computed() == 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    // Each round at another time of the micro-batch, and within the first half of what a graphics card computes
    // sooner.
    let speed = status(engine).prefill_tokens_per_second.unwrap_or(1.0);
    let half = Duration::from_secs_f64(LONG_TOKENS as f64 / speed / 2.0);
    let moment = Duration::from_millis(300 + 170 * round as u64);
    std::thread::sleep(moment.min(half * (round % 5 + 1) as u32 / 5));
    if computed() >= LONG_TOKENS as u64 {
        return Ok(None);
    }
    let report = turn(engine, &format!("short {round}"), &text.next(SHORT_TOKENS))?;
    let lost = status(engine).counters.cut_micros - before.cut_micros;
    drop(long);
    Ok(Some((ttft(&report), Duration::from_micros(lost))))
}

fn print(options: &Options, model: &str, table: &Table) -> Result<()> {
    println!("Cold prompts, {model};\nmedians of {} rounds, interleaved.\n", options.rounds);
    println!("| | ms | against | ms | ratio | bar |");
    println!("|---|---:|---|---:|---:|---:|");
    let mut missed = Vec::new();
    let (ms, base) = (median_ms(&table.cold), median_ms(&table.server));
    let cold = format!("{} tokens, cold", options.tokens);
    println!("| {cold} | {ms:.1} | llama.cpp alone | {base:.1} | {:.3} | |", ms / base);
    if !options.only_cold {
        let equals = format!("{EQUALS} equal prompts of {EQUAL_TOKENS} tokens at once");
        let (ms, one) = (median_ms(&table.equals), median_ms(&table.one));
        let ratio = ms / one;
        println!("| {equals} | {ms:.1} | one of them | {one:.1} | {ratio:.3} | {EQUALS_BAR:.2} |");
        if is_above(ratio, EQUALS_BAR) {
            missed.push(format!("{equals}: {ratio:.3} x one of them"));
        }
        let (ms, alone) = (median_ms(&table.behind), median_ms(&table.alone));
        let name = format!("{SHORT_TOKENS} tokens behind {LONG_TOKENS}");
        let delay = ms - alone;
        println!(
            "| {name} | {ms:.1} | alone | {alone:.1} | +{delay:.0} ms | {DELAY_BAR_MS:.0} ms |"
        );
        if is_above(delay, DELAY_BAR_MS) {
            missed.push(format!("{name}: {delay:.0} ms more than alone"));
        }
    }
    if let Some(most) = table.lost.iter().max() {
        println!(
            "\nThe prompt of {LONG_TOKENS} tokens computes {:.0} ms again in the median, {:.0} at most: the \
             micro-batch that was cut.",
            median_ms(&table.lost),
            most.as_secs_f64() * 1e3
        );
    }
    options.bars.check_on(options.subject.model.as_deref(), &missed)
}

fn start(model: &Arc<dyn Model>, slots: &Path, options: &Options) -> Result<Engine> {
    let defaults = EngineOptions::default();
    let micro_batch = options.micro_batch.unwrap_or(defaults.micro_batch);
    let engine = EngineOptions { context_tokens: 16_384, micro_batch, ..defaults };
    turns::start(model.clone(), slots, engine)
}

fn turn(engine: &Engine, conversation: &str, prompt: &[Token]) -> Result<TurnReport> {
    Ok(turns::ask(engine, request(conversation, prompt, 1))?.0)
}

fn expect_computed(report: &TurnReport, tokens: usize) -> Result<()> {
    ensure!(report.tokens.computed == tokens, "nothing of it is known: {report:?}");
    Ok(())
}

/// llama.cpp alone, as llama-server computes a prompt on an empty slot.
struct Server {
    asks: mpsc::Sender<Vec<Token>>,
    answers: mpsc::Receiver<Duration>,
}

impl Server {
    fn start(model: Arc<dyn Model>) -> Self {
        let (asks, inbox) = mpsc::channel::<Vec<Token>>();
        let (outbox, answers) = mpsc::channel();
        std::thread::spawn(move || {
            let shape =
                ContextShape { context_tokens: 4096, sequences: 4, micro_batch: SERVER_ROWS };
            let made = model.with_context(shape, &mut |backend| {
                for prompt in &inbox {
                    let (took, ()) = time(|| prefill(backend, 0, &prompt, SERVER_ROWS));
                    backend.clear(Sequence(0));
                    outbox.send(took).expect("the benchmark waits");
                }
            });
            made.expect("the engine's context fits, so this one does");
        });
        Self { asks, answers }
    }

    fn measure(&self, prompt: Vec<Token>) -> Result<Duration> {
        self.asks.send(prompt)?;
        Ok(self.answers.recv()?)
    }
}
