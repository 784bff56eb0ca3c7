//! The product's promise in one table: the time to the first token of the next answer.
//!
//! One conversation in the shape of Qwen2.5-0.5B. Each round has a follow-up turn, a turn after the
//! conversation was parked in memory, and a turn after the engine was restarted over the same
//! directory. Before each of them llama.cpp alone decodes as many new tokens over a hot cache of
//! the same length (the limit). Before all rounds: the same prompt cold, on an empty engine.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, ensure};
use hob_runtime::backend::llama::{LlamaModel, LlamaOptions};
use hob_runtime::{Engine, EngineOptions, Model, TurnReport};
use hob_slots::{ConversationId, Token};

use crate::bars::{BarFlags, is_above, is_below};
use crate::measure::median_ms;
use crate::raw::Raw;
use crate::turns::{self, Words, settle, ttft, wait_for};
use crate::{Subject, SubjectFlags};

#[derive(clap::Args)]
pub struct Options {
    /// Tokens of the conversation before the new ones.
    #[arg(long, default_value_t = 2048)]
    tokens: usize,
    /// New tokens of each turn.
    #[arg(long, default_value_t = 16)]
    new: usize,
    /// Rounds; each figure is the median of as many samples.
    #[arg(long, default_value_t = 9)]
    rounds: usize,
    /// Cold starts; each computes the whole conversation.
    #[arg(long, default_value_t = 3)]
    cold: usize,
    /// Compute threads; 0 chooses as hobd does.
    #[arg(long, default_value_t = 0)]
    threads: usize,
    #[command(flatten)]
    subject: SubjectFlags,
    #[command(flatten)]
    bars: BarFlags,
}

const CONVERSATION: &str = "bench";

/// Maximum factor against llama.cpp alone.
const WARM_BAR: f64 = 1.10;
/// On top of it, after a restart.
const RESTART_BAR_MS: f64 = 60.0;
/// Minimum speed-up against cold.
const COLD_BAR: f64 = 50.0;

struct Table {
    cold: Vec<Duration>,
    raw: Vec<Duration>,
    follow_up: Vec<Duration>,
    parked: Vec<Duration>,
    restarted: Vec<Duration>,
}

pub fn run(options: &Options) -> Result<()> {
    let subject = Subject::of(options.subject.model.as_deref())?;
    let llama = LlamaOptions { threads: options.threads, ..LlamaOptions::default() };
    let model: Arc<dyn Model> = Arc::new(LlamaModel::load(&subject.path, llama)?);
    let directory = tempfile::tempdir()?;
    let mut table = Table {
        cold: Vec::new(),
        raw: Vec::new(),
        follow_up: Vec::new(),
        parked: Vec::new(),
        restarted: Vec::new(),
    };
    let mut text = Words::new(model.vocabulary().len());
    for round in 0..options.cold {
        let engine = start(&model, &directory.path().join(format!("cold-{round}")))?;
        let (report, _) = turn(&engine, &text.next(options.tokens))?;
        ensure!(report.tokens.computed == options.tokens, "cold computes everything: {report:?}");
        table.cold.push(ttft(&report));
        engine.shutdown();
    }
    let slots = directory.path().join("slots");
    let mut engine = start(&model, &slots)?;
    let (_, mut timeline) = turn(&engine, &text.next(options.tokens))?;
    let raw = Raw::start(model.clone());
    raw.measure(timeline.len(), text.next(options.new))?; // Unmeasured: fills the cache.
    for _ in 0..options.rounds {
        // Before each turn: the limit at the same length.
        let mut limit = |engine: &Engine, timeline: &[Token], text: &mut Words| -> Result<()> {
            settle(engine);
            table.raw.push(raw.measure(timeline.len(), text.next(options.new))?);
            settle(engine);
            Ok(())
        };
        let next = |engine: &Engine, timeline: &mut Vec<Token>, text: &mut Words| {
            timeline.extend(text.next(options.new));
            let (report, whole) = turn(engine, timeline)?;
            *timeline = whole;
            anyhow::Ok(report)
        };
        limit(&engine, &timeline, &mut text)?;
        let report = next(&engine, &mut timeline, &mut text)?;
        expect_computed(&report, options.new, "follow-up")?;
        table.follow_up.push(ttft(&report));

        limit(&engine, &timeline, &mut text)?;
        wait_for(engine.park(ConversationId::new(CONVERSATION)?));
        let report = next(&engine, &mut timeline, &mut text)?;
        expect_computed(&report, options.new, "after park")?;
        // KV read after a restart is only on disk, in the system's page cache.
        let restored = report.tokens.memory + report.tokens.disk;
        ensure!(restored > options.tokens / 2, "it was parked: {report:?}");
        table.parked.push(ttft(&report));

        limit(&engine, &timeline, &mut text)?;
        engine.shutdown();
        engine = start(&model, &slots)?;
        let report = next(&engine, &mut timeline, &mut text)?;
        expect_computed(&report, options.new, "after restart")?;
        ensure!(report.tokens.disk > options.tokens / 2, "restored from disk: {report:?}");
        table.restarted.push(ttft(&report));
    }
    engine.shutdown();
    print(options, &subject.on(&*model), &table)
}

fn print(options: &Options, model: &str, table: &Table) -> Result<()> {
    let cold = median_ms(&table.cold);
    let raw = median_ms(&table.raw);
    println!(
        "Time to first token, {} tokens of context and {} new ones, {model};\nmedians of {} rounds, interleaved (cold: {}).\n",
        options.tokens, options.new, options.rounds, options.cold
    );
    println!("| | ms | x llama.cpp alone | bar | x faster than cold | bar |");
    println!("|---|---:|---:|---:|---:|---:|");
    println!("| cold: everything is computed | {cold:.1} | {:.1} | | 1 | |", cold / raw);
    println!("| llama.cpp alone, the new tokens | {raw:.1} | 1.00 | | {:.0} | |", cold / raw);
    let mut missed = Vec::new();
    for (name, samples, extra_ms) in [
        ("follow-up turn", &table.follow_up, 0.0),
        ("resume after park", &table.parked, 0.0),
        ("resume after restart", &table.restarted, RESTART_BAR_MS),
    ] {
        let ms = median_ms(samples);
        let bar = match extra_ms {
            0.0 => format!("{WARM_BAR:.2}"),
            extra => format!("{WARM_BAR:.2} + {extra:.0} ms"),
        };
        println!(
            "| {name} | {ms:.1} | {:.2} | {bar} | {:.0} | {COLD_BAR:.0} |",
            ms / raw,
            cold / ms
        );
        if is_above(ms, raw * WARM_BAR + extra_ms) {
            missed.push(format!("{name}: {ms:.1} ms against {raw:.1} ms of llama.cpp alone"));
        }
        if is_below(cold / ms, COLD_BAR) {
            missed.push(format!("{name}: {:.0} x faster than cold", cold / ms));
        }
    }
    options.bars.check_on(options.subject.model.as_deref(), &missed)
}

fn start(model: &Arc<dyn Model>, slots: &Path) -> Result<Engine> {
    let options = EngineOptions { context_tokens: 4096, slots: 2, ..EngineOptions::default() };
    turns::start(model.clone(), slots, options)
}

fn turn(engine: &Engine, prompt: &[Token]) -> Result<(TurnReport, Vec<Token>)> {
    turns::ask(engine, turns::request(CONVERSATION, prompt, 1))
}

fn expect_computed(report: &TurnReport, new: usize, what: &str) -> Result<()> {
    ensure!(report.tokens.computed == new, "{what} computes its own {new} tokens: {report:?}");
    Ok(())
}
