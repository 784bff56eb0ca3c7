//! The time to the first token after prewarming and speculative prefill.
//!
//! A profile's prefix and a question, in the shape of Qwen2.5-0.5B. Each round has a question after
//! the prefix was prewarmed at boot; one after a second boot, whose prefix comes from disk; one in
//! a longer conversation that was on disk until speech started; one whose words were streamed ahead
//! of their end; a short one on an idle engine, and one that arrives while a prefix is computed.
//! Beside them the limit: llama.cpp alone decodes as many tokens over a hot cache of the same
//! length. Before all rounds: the same prompt cold, on an empty engine.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use hob_runtime::backend::llama::{LlamaModel, LlamaOptions};
use hob_runtime::{Engine, EngineOptions, Model, Purpose, TurnReport, TurnRequest};
use hob_slots::Token;

use crate::bars::{BarFlags, is_above, is_below};
use crate::measure::median_ms;
use crate::raw::Raw;
use crate::turns::{self, Words, ask, settle, ttft};
use crate::{Subject, SubjectFlags};

#[derive(clap::Args)]
pub struct Options {
    /// Tokens of the profile.
    #[arg(long, default_value_t = 2048)]
    profile: usize,
    /// Tokens of the conversation behind it.
    #[arg(long, default_value_t = 1024)]
    history: usize,
    /// Tokens of a question.
    #[arg(long, default_value_t = 12)]
    question: usize,
    /// Rounds; each figure is the median of as many samples.
    #[arg(long, default_value_t = 7)]
    rounds: usize,
    /// Cold starts; each computes the whole prompt.
    #[arg(long, default_value_t = 2)]
    cold: usize,
    #[command(flatten)]
    subject: SubjectFlags,
    #[command(flatten)]
    bars: BarFlags,
}

const PREFIX: &str = "__system_prefix__";
const TALK: &str = "talk";

/// Tokens of a question that were not streamed ahead.
const LAST_WORD: usize = 2;

/// Maximum factor against llama.cpp alone.
const WARM_BAR: f64 = 1.10;
/// Maximum factor against llama.cpp alone, with the words streamed ahead.
const STREAMED_BAR: f64 = 1.0;
/// Minimum speed-up against cold.
const COLD_BAR: f64 = 50.0;

/// Minimum rows of a background micro-batch.
const MIN_ROWS: f64 = 8.0;
/// The target time of a background micro-batch.
const MICRO_BATCH: Duration = Duration::from_millis(100);

#[derive(Default)]
struct Samples {
    cold: Vec<Duration>,
    /// llama.cpp alone, behind the profile and behind the conversation.
    limit: Vec<Duration>,
    long_limit: Vec<Duration>,
    booted: Vec<Duration>,
    imported: Vec<Duration>,
    booted_again: Vec<Duration>,
    speech: Vec<Duration>,
    streamed: Vec<Duration>,
    idle: Vec<Duration>,
    during: Vec<Duration>,
    micro_batch: Vec<Duration>,
}

pub fn run(options: &Options) -> Result<()> {
    let subject = Subject::of(options.subject.model.as_deref())?;
    let model: Arc<dyn Model> = Arc::new(LlamaModel::load(&subject.path, LlamaOptions::default())?);
    let directory = tempfile::tempdir()?;
    let mut text = Words::new(model.vocabulary().len());
    let profile = text.next(options.profile);
    let samples = Samples::default();
    let mut rounds = Rounds { options, model: model.clone(), text, profile, samples };
    for round in 0..options.cold {
        rounds.cold(&directory.path().join(format!("cold-{round}")))?;
    }

    let slots = directory.path().join("slots");
    let mut engine = start(&model, &slots)?;
    ask(&engine, prewarm(PREFIX, &rounds.profile, Purpose::Prewarm))?;
    let talk = [&rounds.profile[..], &rounds.text.next(options.history)].concat();
    let (_, mut talk) = ask(&engine, turns::request(TALK, &talk, 1))?;
    let (raw, long_raw) = (Raw::start(model.clone()), Raw::start(model.clone()));
    raw.measure(options.profile, rounds.question())?; // Unmeasured: fills the cache.
    long_raw.measure(talk.len(), rounds.question())?;

    for round in 0..options.rounds {
        let question = rounds.question();
        settle(&engine);
        rounds.samples.limit.push(raw.measure(options.profile, question)?);
        let booted = rounds.after_prefix(&engine, &format!("booted {round}"))?;
        rounds.samples.booted.push(booted);
        settle(&engine);
        rounds.beside_prewarm(&engine, round)?;

        engine.shutdown();
        engine = start(&model, &slots)?;
        rounds.second_boot(&engine, round)?;

        let question = rounds.question();
        rounds.samples.long_limit.push(long_raw.measure(talk.len(), question)?);
        talk = rounds.after_speech_start(&engine, talk)?;
        talk = rounds.streamed(&engine, talk)?;
    }
    engine.shutdown();
    print(options, &subject.on(&*model), &rounds.samples)
}

/// What all rounds share.
struct Rounds<'o> {
    options: &'o Options,
    model: Arc<dyn Model>,
    text: Words,
    /// The tokens that all conversations begin with.
    profile: Vec<Token>,
    samples: Samples,
}

impl Rounds<'_> {
    fn question(&mut self) -> Vec<Token> {
        self.text.next(self.options.question)
    }

    /// On an engine of its own, over the empty directory `slots`.
    fn cold(&mut self, slots: &Path) -> Result<()> {
        let engine = start(&self.model, slots)?;
        let question = self.question();
        let prompt = [&self.profile[..], &question].concat();
        let (report, _) = ask(&engine, turns::request("cold", &prompt, 1))?;
        ensure!(report.tokens.computed == prompt.len(), "cold computes everything: {report:?}");
        self.samples.cold.push(ttft(&report));
        engine.shutdown();
        Ok(())
    }

    /// The first question of a new conversation, behind the prewarmed profile.
    fn after_prefix(&mut self, engine: &Engine, name: &str) -> Result<Duration> {
        let question = self.question();
        let prompt = [&self.profile[..], &question].concat();
        let (report, _) = ask(engine, turns::request(name, &prompt, 1))?;
        expect_computed(&report, self.options.question, name)?;
        Ok(ttft(&report))
    }

    /// A question without any context.
    fn short_question(&mut self, engine: &Engine, round: usize) -> Result<Duration> {
        let request = turns::request(&format!("short {round}"), &self.question(), 1);
        Ok(ttft(&ask(engine, TurnRequest { conversation: None, ..request })?.0))
    }

    /// A short question on the idle engine, and one that arrives while a prefix is computed.
    fn beside_prewarm(&mut self, engine: &Engine, round: usize) -> Result<()> {
        let idle = self.short_question(engine, round)?;
        self.samples.idle.push(idle);
        let other = self.text.next(self.options.profile);
        let before = turns::status(engine).counters.computed_tokens;
        let warming = engine.submit(prewarm("another prefix", &other, Purpose::Prewarm))?;
        std::thread::sleep(Duration::from_millis(700));
        let computed = turns::status(engine).counters.computed_tokens - before;
        // A graphics card may have computed the whole prefix by now.
        if computed < self.options.profile as u64 {
            let during = self.short_question(engine, round)?;
            self.samples.during.push(during);
        }
        drop(warming);
        self.samples.micro_batch.push(micro_batch(engine));
        settle(engine);
        Ok(())
    }

    /// The prefix comes from disk, and a question follows it.
    fn second_boot(&mut self, engine: &Engine, round: usize) -> Result<()> {
        let began = Instant::now();
        let (report, _) = ask(engine, prewarm(PREFIX, &self.profile, Purpose::Prewarm))?;
        self.samples.imported.push(began.elapsed());
        expect_computed(&report, 0, "the second boot")?;
        let booted_again = self.after_prefix(engine, &format!("again {round}"))?;
        self.samples.booted_again.push(booted_again);
        settle(engine);
        Ok(())
    }

    /// A question in the conversation `talk`, which was on disk until speech started. Returns its timeline.
    fn after_speech_start(&mut self, engine: &Engine, mut talk: Vec<Token>) -> Result<Vec<Token>> {
        ask(engine, prewarm(TALK, &talk, Purpose::Speculate))?;
        talk.extend(self.question());
        let (report, whole) = ask(engine, turns::request(TALK, &talk, 1))?;
        expect_computed(&report, self.options.question, "after speech start")?;
        self.samples.speech.push(ttft(&report));
        settle(engine);
        Ok(whole)
    }

    /// A question all of whose words but the last were computed while they were spoken.
    fn streamed(&mut self, engine: &Engine, mut talk: Vec<Token>) -> Result<Vec<Token>> {
        let question = self.options.question;
        let streamed = talk.len() + question - LAST_WORD;
        talk.extend(self.question());
        for end in [streamed - question / 2, streamed] {
            ask(engine, prewarm(TALK, &talk[..end], Purpose::Speculate))?;
        }
        let (report, whole) = ask(engine, turns::request(TALK, &talk, 1))?;
        expect_computed(&report, LAST_WORD, "with the transcript streamed ahead")?;
        self.samples.streamed.push(ttft(&report));
        Ok(whole)
    }
}

fn print(options: &Options, model: &str, samples: &Samples) -> Result<()> {
    println!(
        "Time to first token: a profile of {} tokens, a conversation of {} more, a question of {}; \
         \n{model}; medians of {} rounds, interleaved (cold: {}).\n",
        options.profile, options.history, options.question, options.rounds, options.cold
    );
    let cold = median_ms(&samples.cold);
    let limit = median_ms(&samples.limit);
    let long_limit = median_ms(&samples.long_limit);
    println!("| | ms | x llama.cpp alone | bar | x faster than cold | bar |");
    println!("|---|---:|---:|---:|---:|---:|");
    println!("| cold: everything is computed | {cold:.1} | {:.1} | | 1 | |", cold / limit);
    println!("| llama.cpp alone, behind the profile | {limit:.1} | 1.00 | | | |");
    println!("| llama.cpp alone, behind the conversation | {long_limit:.1} | 1.00 | | | |");
    let mut missed = Vec::new();
    for (name, samples, limit, bar) in [
        ("after boot prewarm", &samples.booted, limit, WARM_BAR),
        ("after a second boot", &samples.booted_again, limit, WARM_BAR),
        ("after speech start, from disk", &samples.speech, long_limit, WARM_BAR),
        ("with the transcript streamed ahead", &samples.streamed, long_limit, STREAMED_BAR),
    ] {
        let ms = median_ms(samples);
        let (slower, faster) = (ms / limit, cold / ms);
        println!("| {name} | {ms:.1} | {slower:.2} | {bar:.2} | {faster:.0} | {COLD_BAR:.0} |");
        if is_above(slower, bar) {
            missed.push(format!("{name}: {slower:.2} x llama.cpp alone"));
        }
        if is_below(faster, COLD_BAR) {
            missed.push(format!("{name}: {faster:.0} x faster than cold"));
        }
    }
    let (idle, during) = (median_ms(&samples.idle), median_ms(&samples.during));
    let micro_batch = median_ms(&samples.micro_batch);
    println!(
        "\nThe second boot restored the prefix in {:.1} ms and computed nothing of it.\n\
         A question of {} tokens alone took {idle:.1} ms on an idle engine and {during:.1} ms when it \
         arrived while a\nprefix was computed ({} of {} did): {:.1} ms more; a micro-batch of that lasts \
         {micro_batch:.0} ms.",
        median_ms(&samples.imported),
        options.question,
        samples.during.len(),
        options.rounds,
        during - idle,
    );
    if is_above(during - idle, micro_batch) {
        missed.push(format!("beside a prewarm: {:.0} ms more", during - idle));
    }
    options.bars.check_on(options.subject.model.as_deref(), &missed)
}

/// The duration of a background micro-batch, by the measured speed of prefill.
fn micro_batch(engine: &Engine) -> Duration {
    let speed = turns::status(engine).prefill_tokens_per_second.unwrap_or(f64::NAN);
    MICRO_BATCH.max(Duration::from_secs_f64(MIN_ROWS / speed))
}

fn prewarm(conversation: &str, prompt: &[Token], purpose: Purpose) -> TurnRequest {
    TurnRequest { purpose, ..turns::request(conversation, prompt, 0) }
}

fn start(model: &Arc<dyn Model>, slots: &Path) -> Result<Engine> {
    let options = EngineOptions { context_tokens: 8192, slots: 4, ..EngineOptions::default() };
    turns::start(model.clone(), slots, options)
}

fn expect_computed(report: &TurnReport, new: usize, what: &str) -> Result<()> {
    ensure!(report.tokens.computed == new, "{what} computes {new} tokens: {report:?}");
    Ok(())
}
