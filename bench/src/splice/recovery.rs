//! The whole recovery step: a question to a conversation of which a thousand blocks are away, from the moment
//! at which room is made for what it asks for to the moment at which that is back in its cells.
//!
//! - The engine's own code: eviction, retrieval by words, reading, verification, splices.
//! - KV is fabricated under the real names (see `fabricate`); text, words and index are real.
//! - *First*: the first question after a start, while the conversation's text is being indexed behind its
//!   restore. *Next*: further ones.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use hob_runtime::backend::ContextShape;
use hob_runtime::backend::llama::LlamaModel;
use hob_runtime::{Engine, EngineOptions, Model, TurnReport};
use hob_slots::format::SegmentRef;
use hob_slots::store::Store;
use hob_slots::{Layer, Token};

use crate::bars::is_above;
use crate::measure::median_ms;
use crate::store::fabricate::Fabricator;
use crate::turns::{self, Words};

/// Messages of about 25 tokens, each of which ends a block: together fewer than the model's 32,768 tokens.
const MESSAGES: usize = 1_200;

const CELLS: usize = 4096;

/// Blocks that are away, at least.
const AWAY: usize = 1_000;

const NEXT: usize = 6;

/// Tokens that are computed, to compare.
const COLD: usize = 256;

/// Milliseconds.
const BAR: f64 = 10.0;

/// Microseconds of a decision about 2,000 blocks; of fewer, as much less.
const DECISION_BAR: f64 = 200.0;

#[derive(Default)]
pub struct Table {
    first: Samples,
    next: Samples,
    /// Times to compute [`COLD`] tokens on the same engine.
    computed: Vec<Duration>,
    away: usize,
    /// How often the engine chose blocks to evict, and the time that took.
    decisions: u64,
    deciding_micros: u64,
    /// Blocks of the conversation, about.
    blocks: usize,
}

#[derive(Default)]
struct Samples {
    took: Vec<Duration>,
    tokens: Vec<usize>,
}

/// What was said, and the tokens of each message with those before it.
struct Session {
    tokens: Vec<Token>,
    segments: Vec<SegmentRef>,
}

pub fn measure(model: &Arc<LlamaModel>, rounds: usize) -> Result<Table> {
    let directory = tempfile::tempdir()?;
    let session = session(model)?;
    let shape = ContextShape { context_tokens: 256, sequences: 1, micro_batch: 64 };
    let mut written = None;
    model.with_context(shape, &mut |backend| {
        written = Some(write(backend, directory.path(), model, &session, rounds));
    })?;
    written.context("a context runs what it was made for")??;
    let mut table = Table::default();
    for round in 0..=rounds {
        let options = EngineOptions { context_tokens: CELLS, slots: 1, ..EngineOptions::default() };
        let engine = turns::start(model.clone(), directory.path(), options)?;
        let measured = ask_all(&engine, model, &session, round, &mut table);
        engine.shutdown();
        measured?;
    }
    Ok(table)
}

fn write(
    backend: &mut dyn hob_runtime::backend::Backend,
    directory: &std::path::Path,
    model: &LlamaModel,
    session: &Session,
    rounds: usize,
) -> Result<()> {
    let store = Store::open(directory)?;
    let mut kv = Fabricator::new(backend)?;
    for round in 0..=rounds {
        kv.keep(&store, model.vocabulary(), &name(round), &session.tokens)?;
    }
    Ok(())
}

/// One conversation after a start: a first question, and further ones.
fn ask_all(
    engine: &Engine,
    model: &LlamaModel,
    session: &Session,
    round: usize,
    table: &mut Table,
) -> Result<()> {
    let (mut timeline, mut segments) = (session.tokens.clone(), session.segments.clone());
    for question in 0..=NEXT {
        let (thing, owner) = fact((round * 97 + question * 131 + 40) % AWAY);
        let text = format!("What is the {thing} of {owner}?");
        timeline.extend(model.tokenize(&text, false, false));
        segments.push(SegmentRef::new(timeline.len() as u32, Layer::User, "question"));
        let mut request = turns::request(&name(round), &timeline, 4);
        request.budget = Some(CELLS);
        request.keep.segments.clone_from(&segments);
        let (report, whole) = turns::ask(engine, request)?;
        timeline = whole;
        segments.push(SegmentRef::new(timeline.len() as u32, Layer::Assistant, "answer"));
        turns::settle(engine);
        // The first start fills the page cache and the buffers.
        if round > 0 {
            let samples = if question == 0 { &mut table.first } else { &mut table.next };
            samples.add(&report)?;
            table.away = report.away.iter().map(|range| range.len()).sum();
        }
    }
    if round > 0 {
        let counters = turns::status(engine).counters;
        table.decisions += counters.decisions;
        table.deciding_micros += counters.deciding_micros;
        table.blocks = segments.len();
    }
    let text = Words::new(model.vocabulary().len()).next(COLD);
    let mut request = turns::request(&format!("cold-{round}"), &text, 1);
    request.cold = true; // The store has the tokens from an earlier round.
    let (report, _) = turns::ask(engine, request)?;
    ensure!(report.tokens.computed == COLD, "all of it is computed: {:?}", report.tokens);
    table.computed.push(turns::ttft(&report));
    Ok(())
}

impl Samples {
    fn add(&mut self, report: &TurnReport) -> Result<()> {
        let recall = report.recall.as_ref().context("blocks are recalled")?;
        ensure!(recall.away >= AWAY, "{} blocks were away", recall.away);
        ensure!(recall.tokens > 0, "the question finds something");
        self.took.push(recall.took);
        self.tokens.push(recall.tokens);
        Ok(())
    }
}

/// What a message is about.
fn fact(message: usize) -> (String, String) {
    (word(message * 7 + 1), word(message * 13 + 5))
}

/// A made-up word; another one for each number up to 8,000.
fn word(number: usize) -> String {
    const SYLLABLES: [&str; 20] = [
        "ba", "ce", "di", "fo", "gu", "ha", "je", "ki", "lo", "mu", "na", "pe", "ri", "so", "tu",
        "va", "we", "xi", "yo", "zu",
    ];
    [number / 400 % 20, number / 20 % 20, number % 20].map(|at| SYLLABLES[at]).concat()
}

fn session(model: &LlamaModel) -> Result<Session> {
    let eog = *model.vocabulary().eog_tokens().first().context("the model has an end token")?;
    let (mut tokens, mut segments): (Vec<Token>, Vec<SegmentRef>) = Default::default();
    for message in 0..MESSAGES {
        let (thing, owner) = fact(message);
        let text = format!("The {thing} of {owner} is {}.", message * 7919 % 100_000);
        let mut said = model.tokenize(&text, false, false);
        said.truncate(27);
        tokens.extend(said);
        tokens.push(eog);
        let layer = if message % 2 == 0 { Layer::User } else { Layer::Assistant };
        segments.push(SegmentRef::new(tokens.len() as u32, layer, format!("message {message}")));
    }
    Ok(Session { tokens, segments })
}

fn name(round: usize) -> String {
    format!("bench-{round}")
}

impl Table {
    /// Returns the bars that were missed.
    pub fn print(&self) -> Vec<String> {
        println!(
            "\n| a question over {} absent tokens | tokens back | ms | computed, ms | x | bar, ms |",
            self.away
        );
        println!("|---|---:|---:|---:|---:|---:|");
        let mut missed = Vec::new();
        for (what, samples) in [("first after a start", &self.first), ("next", &self.next)] {
            let ms = median_ms(&samples.took);
            let tokens = samples.tokens.iter().sum::<usize>() / samples.tokens.len().max(1);
            let computed = tokens as f64 * median_ms(&self.computed) / COLD as f64;
            let ratio = computed / ms;
            println!("| {what} | {tokens} | {ms:.2} | {computed:.0} | {ratio:.0} | {BAR:.0} |");
            if is_above(ms, BAR) {
                missed.push(format!("a recovery, {what}: {ms:.1} ms"));
            }
        }
        let micros = self.deciding_micros as f64 / self.decisions as f64;
        let bar = DECISION_BAR * self.blocks as f64 / 2_000.0;
        println!(
            "\nThe engine decided {} times which of {} blocks leave, in {micros:.0} us on average, with the \
             description of all blocks for the policy (bar {bar:.0}: {DECISION_BAR:.0} of 2,000 blocks).",
            self.decisions, self.blocks
        );
        if is_above(micros, bar) {
            missed.push(format!("a decision of the engine: {micros:.0} us"));
        }
        missed
    }
}
