//! What the cells of idle conversations cost the answer of another one.
//!
//! - Three engines with equal caches, interleaved: one has no idle conversation; of one they are parked, as by
//!   default; of one they stay in the cells, because it has no memory to park them in.
//! - Beside many others, attention reads the masks of their cells. Beside another one of its own length, one of
//!   two threads has no cell to attend to.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use hob_runtime::backend::llama::{LlamaModel, LlamaOptions};
use hob_runtime::{Engine, EngineOptions, Model, TurnEvent};
use hob_slots::Token;

use crate::bars::{BarFlags, is_above};
use crate::measure::median_ms;
use crate::turns::{self, Words, request, settle, status};
use crate::{Subject, SubjectFlags};

#[derive(clap::Args)]
pub struct Options {
    /// Rounds; each figure is the median of as many answers.
    #[arg(long, default_value_t = 7)]
    rounds: usize,
    #[command(flatten)]
    subject: SubjectFlags,
    #[command(flatten)]
    bars: BarFlags,
}

/// An answer, and the idle conversations beside it.
struct Scene {
    idle: usize,
    idle_tokens: usize,
    prompt_tokens: usize,
}

const SCENES: [Scene; 2] = [
    Scene { idle: 14, idle_tokens: 1000, prompt_tokens: 100 },
    Scene { idle: 1, idle_tokens: 1700, prompt_tokens: 1700 },
];

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
    let subject = Subject::of(options.subject.model.as_deref())?;
    let model: Arc<dyn Model> = Arc::new(LlamaModel::load(&subject.path, LlamaOptions::default())?);
    println!(
        "{}; medians of {} answers of {ANSWER_TOKENS} tokens, interleaved.",
        subject.on(&*model),
        options.rounds
    );
    let mut missed = Vec::new();
    for scene in &SCENES {
        let arms = measure(scene, &model, options.rounds)?;
        let factor = print(scene, &arms);
        if is_above(factor, BAR) {
            missed.push(format!("{factor:.3} x beside {} parked conversations", scene.idle));
        }
    }
    options.bars.check_on(options.subject.model.as_deref(), &missed)
}

fn measure(scene: &Scene, model: &Arc<dyn Model>, rounds: usize) -> Result<Vec<Arm>> {
    let mut text = Words::new(model.vocabulary().len());
    let defaults = EngineOptions::default();
    let prompt = text.next(scene.prompt_tokens);
    let mut arms = Vec::new();
    for (name, idle, memory_budget_bytes) in [
        ("none idle", 0, defaults.memory_budget_bytes),
        ("idle, parked", scene.idle, defaults.memory_budget_bytes),
        ("idle, in the cells", scene.idle, 0),
    ] {
        let engine = EngineOptions {
            context_tokens: scene.idle * scene.idle_tokens + scene.prompt_tokens + 1024,
            slots: scene.idle + 2,
            memory_budget_bytes,
            drafts: false,
            ..defaults.clone()
        };
        let slots = tempfile::tempdir()?;
        let engine = turns::start(model.clone(), slots.path(), engine)?;
        for n in 0..idle {
            turns::ask(&engine, request(&format!("idle {n}"), &text.next(scene.idle_tokens), 1))?;
            settle(&engine);
        }
        arms.push(Arm { name, engine, times: Vec::new(), _slots: slots });
    }
    for round in 0..=rounds {
        for arm in &mut arms {
            let took = token_of_answer(&arm.engine, &prompt)?;
            settle(&arm.engine);
            // The first one computes the prompt.
            if round > 0 {
                arm.times.push(took);
            }
        }
    }
    Ok(arms)
}

/// The mean time of a token of an answer to `prompt`.
fn token_of_answer(engine: &Engine, prompt: &[Token]) -> Result<Duration> {
    let mut turn = engine.submit(request("asked", prompt, ANSWER_TOKENS))?;
    while let Some(event) = turn.next_blocking() {
        match event {
            TurnEvent::Finished { completion_tokens, generation_ms, .. } => {
                ensure!(completion_tokens == ANSWER_TOKENS, "{completion_tokens} tokens");
                // The first token is sampled with the prompt.
                let computed = (ANSWER_TOKENS - 1) as f64;
                return Ok(Duration::from_secs_f64(generation_ms / 1e3 / computed));
            }
            TurnEvent::Failed(error) => bail!(error),
            _ => {}
        }
    }
    bail!("the engine stopped")
}

/// Returns the factor of a token beside parked conversations.
fn print(scene: &Scene, arms: &[Arm]) -> f64 {
    let Scene { idle, idle_tokens, prompt_tokens } = scene;
    println!("\nA prompt of {prompt_tokens} tokens beside {idle} idle of {idle_tokens} tokens:\n");
    println!("| conversations | cells in use | ms a token | x none | bar |");
    println!("|---|---:|---:|---:|---:|");
    let none = median_ms(&arms[0].times);
    for (index, arm) in arms.iter().enumerate() {
        let (ms, cells) = (median_ms(&arm.times), status(&arm.engine).used_tokens);
        let bar = if index == 1 { format!("{BAR:.2}") } else { String::new() };
        println!("| {} | {cells} | {ms:.2} | {:.3} | {bar} |", arm.name, ms / none);
        arm.engine.shutdown();
    }
    median_ms(&arms[1].times) / none
}
