//! What the cells of idle conversations cost the answer of another one.
//!
//! Three engines with equal caches, interleaved: one has no idle conversation; of one they are parked, as by
//! default; of one they stay in the cells, because it has no memory to park them in.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use hob_runtime::backend::llama::{LlamaModel, LlamaOptions};
use hob_runtime::{Engine, EngineOptions, Model, TurnEvent};
use hob_slots::Token;

use crate::Subject;
use crate::measure::median_ms;
use crate::turns::{self, Words, request, settle, status};

#[derive(clap::Args)]
pub struct Options {
    /// Idle conversations, of 1,000 tokens each.
    #[arg(long, default_value_t = 14)]
    conversations: usize,
    /// Rounds; each figure is the median of as many answers.
    #[arg(long, default_value_t = 7)]
    rounds: usize,
    /// Measure this model, a path or `smollm2`, without bars; otherwise random weights in the shape
    /// of Qwen2.5-0.5B.
    #[arg(long, value_name = "PATH|NAME")]
    model: Option<String>,
    /// Print the figures without failing on a missed bar.
    #[arg(long)]
    no_bars: bool,
}

const IDLE_TOKENS: usize = 1000;
const PROMPT_TOKENS: usize = 100;
const ANSWER_TOKENS: usize = 80;

/// Maximum factor of a token beside parked conversations.
const BAR: f64 = 1.05;

struct Arm {
    name: &'static str,
    engine: Engine,
    /// A token's, of each answer.
    times: Vec<Duration>,
    _slots: tempfile::TempDir,
}

pub fn run(options: &Options) -> Result<()> {
    let subject = Subject::of(options.model.as_deref())?;
    let model: Arc<dyn Model> = Arc::new(LlamaModel::load(&subject.path, LlamaOptions::default())?);
    let mut text = Words::new(model.vocabulary().len());
    let defaults = EngineOptions::default();
    let mut arms = Vec::new();
    for (name, conversations, memory_budget_bytes) in [
        ("none idle", 0, defaults.memory_budget_bytes),
        ("idle, parked", options.conversations, defaults.memory_budget_bytes),
        ("idle, in the cells", options.conversations, 0),
    ] {
        let engine = EngineOptions {
            context_tokens: (options.conversations + 2) * (IDLE_TOKENS + 24),
            slots: options.conversations + 2,
            memory_budget_bytes,
            drafts: false,
            ..defaults.clone()
        };
        let slots = tempfile::tempdir()?;
        let engine = turns::start(model.clone(), slots.path(), engine)?;
        for n in 0..conversations {
            turns::ask(&engine, request(&format!("idle {n}"), &text.next(IDLE_TOKENS), 1))?;
            settle(&engine);
        }
        arms.push(Arm { name, engine, times: Vec::new(), _slots: slots });
    }
    for round in 0..=options.rounds {
        let prompt = text.next(PROMPT_TOKENS);
        for arm in &mut arms {
            let took = token_of_answer(&arm.engine, &prompt)?;
            settle(&arm.engine);
            // The first one computes the rows after which idle conversations are parked.
            if round > 0 {
                arm.times.push(took);
            }
        }
    }
    print(options, &subject.title, &arms)
}

/// The mean time of a token of an answer to `prompt`.
fn token_of_answer(engine: &Engine, prompt: &[Token]) -> Result<Duration> {
    let mut turn = engine.submit(request("asked", prompt, ANSWER_TOKENS))?;
    while let Some(event) = turn.next_blocking() {
        match event {
            TurnEvent::Finished { completion_tokens, generation_ms, .. } => {
                ensure!(completion_tokens == ANSWER_TOKENS, "{completion_tokens} tokens");
                return Ok(Duration::from_secs_f64(generation_ms / 1e3 / ANSWER_TOKENS as f64));
            }
            TurnEvent::Failed(error) => bail!(error),
            _ => {}
        }
    }
    bail!("the engine stopped")
}

fn print(options: &Options, model: &str, arms: &[Arm]) -> Result<()> {
    println!(
        "A token of an answer beside {} idle conversations of {IDLE_TOKENS} tokens, {model};\nmedians of {} \
         answers of {ANSWER_TOKENS} tokens, interleaved.\n",
        options.conversations, options.rounds
    );
    println!("| conversations | cells in use | ms a token | x none | bar |");
    println!("|---|---:|---:|---:|---:|");
    let none = median_ms(&arms[0].times);
    let mut missed = None;
    for (index, arm) in arms.iter().enumerate() {
        let (ms, cells) = (median_ms(&arm.times), status(&arm.engine).used_tokens);
        let bar = if index == 1 { format!("{BAR:.2}") } else { String::new() };
        println!("| {} | {cells} | {ms:.2} | {:.3} | {bar} |", arm.name, ms / none);
        if index == 1 && ms > none * BAR {
            missed = Some(ms / none);
        }
        arm.engine.shutdown();
    }
    match missed {
        Some(factor) if !options.no_bars && options.model.is_none() => {
            bail!("missed: a token beside parked conversations takes {factor:.3} x")
        }
        _ => Ok(()),
    }
}
