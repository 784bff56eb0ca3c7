//! Likeness of answers to exact ones.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use hob_runtime::backend::llama::{LlamaModel, LlamaOptions};
use hob_runtime::{Engine, EngineOptions, Logprobs, Model, TokenCounts, TurnEvent, TurnRequest};
use hob_slots::Token;

use super::{AGREEMENT_BAR, ARMS, cases, is_default, reuse};
use crate::Subject;
use crate::turns::{request, settle, start};

/// Tokens of an answer that are compared.
const COMPARED: usize = 32;

/// Likeliest tokens of a distribution that are compared.
const LIKELIEST: usize = 64;

/// Text that no model has by heart.
const TEXTS: [&str; 3] = [
    include_str!("../../../docs/ARCHITECTURE.md"),
    include_str!("../../../docs/STORAGE.md"),
    include_str!("../../../docs/VOICE.md"),
];

const QUESTIONS: [&str; 3] = [
    "Summarize the documents above.",
    "What do these documents say about the disk?",
    "Which words do they define?",
];

/// Documents, and the part of the context that they have together.
const DOCUMENTS: usize = 8;

/// Of one arm over all prompts.
#[derive(Default)]
struct Likeness {
    tokens: TokenCounts,
    agreeing: usize,
    compared: usize,
    divergence: f64,
}

struct Step {
    token: Token,
    logprobs: BTreeMap<Token, f64>,
}

impl Step {
    fn of(token: Token, logprobs: &Logprobs) -> Self {
        let top = logprobs.top.iter().map(|it| (it.token, f64::from(it.logprob)));
        Self { token, logprobs: top.collect() }
    }

    fn likeliest(&self) -> Option<Token> {
        let likeliest = self.logprobs.iter().max_by(|one, other| one.1.total_cmp(other.1));
        likeliest.map(|(token, _)| *token)
    }

    /// The divergence of `other` from this exact one.
    fn divergence(&self, other: &Self) -> f64 {
        let least = other.logprobs.values().copied().fold(0.0, f64::min);
        let of = |(token, exact): (&Token, &f64)| {
            let other = other.logprobs.get(token).copied().unwrap_or(least);
            exact.exp() * (exact - other)
        };
        self.logprobs.iter().map(of).sum::<f64>().max(0.0)
    }
}

/// Returns the bars that were missed.
pub fn run(name: &str) -> Result<Vec<String>> {
    let path = match name {
        "bundled" => concat!(env!("CARGO_MANIFEST_DIR"), "/../assets/hob-tiny-f16.gguf"),
        other => other,
    };
    let subject = Subject::of(Some(path)).with_context(|| format!("there is no model {name}"))?;
    let model: Arc<dyn Model> = Arc::new(LlamaModel::load(&subject.path, LlamaOptions::default())?);
    // The bundled model works to about 2,000 tokens, as SmolLM2 does.
    let each = (model.facts().trained_context.min(2000) - 200) / (DOCUMENTS + 1);
    let documents = documents(&model, each);
    let context_tokens = 16 * 1024;
    let directories = [tempfile::tempdir()?, tempfile::tempdir()?];
    let engine = |at: usize| {
        let options = EngineOptions { context_tokens, slots: 4, ..EngineOptions::default() };
        start(model.clone(), directories[at].path(), options)
    };
    let (exact, moving) = (engine(0)?, engine(1)?);
    let prompt = |order: &[usize], question: &str| {
        let text = |text: &str| model.tokenize(text, false, true);
        let texts = order.iter().flat_map(|&at| documents[at].iter().copied());
        let mut tokens = text("<|im_start|>user\n");
        tokens.extend(texts);
        tokens.extend(text(&format!("\n{question}<|im_end|>\n<|im_start|>assistant\n")));
        tokens
    };
    let source: Vec<usize> = (0..DOCUMENTS).collect();
    answer(&moving, request("source", &prompt(&source, "Hello."), 1))?;
    settle(&moving);
    let mut all: Vec<Likeness> = ARMS.iter().map(|_| Likeness::default()).collect();
    for case in cases(DOCUMENTS) {
        for (number, question) in QUESTIONS.iter().enumerate() {
            let asked = prompt(&case.order, question);
            let name = format!("{}-{number}", case.name);
            let (_, steps) = answer(&exact, request(&name, &asked, COMPARED))?;
            for ((arm, repair), likeness) in ARMS.iter().zip(&mut all) {
                let name = format!("{name}-{arm}");
                let mut given = asked.clone();
                for (at, step) in steps.iter().enumerate() {
                    let turn = TurnRequest { reuse: reuse(*repair), ..request(&name, &given, 1) };
                    let (counts, other) = answer(&moving, turn)?;
                    let other = other.first().context("it has one token")?;
                    if at == 0 {
                        likeness.tokens.moved += counts.moved;
                        likeness.tokens.repaired += counts.repaired;
                        likeness.tokens.computed += counts.computed;
                    }
                    likeness.agreeing += usize::from(step.likeliest() == other.likeliest());
                    likeness.compared += 1;
                    likeness.divergence += step.divergence(other);
                    given.push(step.token);
                }
            }
        }
    }
    exact.shutdown();
    moving.shutdown();
    Ok(print(&subject.title, each, &all))
}

fn print(title: &str, each: usize, all: &[Likeness]) -> Vec<String> {
    println!(
        "Likeness to exact answers, {title}: {DOCUMENTS} documents of {each} tokens at other places, {} answers \
         of {COMPARED} tokens.\n",
        all[0].compared / COMPARED
    );
    println!("| strategy | moved | repaired | computed | same likeliest token | bar | mean KL |");
    println!("|---|---:|---:|---:|---:|---:|---:|");
    let mut missed = Vec::new();
    let agreement = |it: &Likeness| it.agreeing as f64 / it.compared.max(1) as f64;
    for ((name, repair), it) in ARMS.iter().zip(all) {
        let (agreement, divergence) = (agreement(it), it.divergence / it.compared.max(1) as f64);
        let bar = if is_default(*repair) { format!("{AGREEMENT_BAR}") } else { String::new() };
        if is_default(*repair) && agreement < AGREEMENT_BAR {
            missed.push(format!("{title}: {name} agrees in {agreement:.3} of {AGREEMENT_BAR}"));
        }
        println!(
            "| {name} | {} | {} | {} | {agreement:.3} | {bar} | {divergence:.4} |",
            it.tokens.moved, it.tokens.repaired, it.tokens.computed,
        );
    }
    println!();
    missed
}

/// Runs a turn. Returns its counts, and its tokens with their likeliest alternatives.
fn answer(engine: &Engine, request: TurnRequest) -> Result<(TokenCounts, Vec<Step>)> {
    let mut turn = engine.submit(TurnRequest { logprobs: Some(LIKELIEST), ..request })?;
    let (mut counts, mut steps) = (TokenCounts::default(), Vec::new());
    while let Some(event) = turn.next_blocking() {
        match event {
            TurnEvent::Started(report) => counts = report.tokens,
            TurnEvent::Token { token, logprobs, .. } => {
                steps.push(Step::of(token, &logprobs.context("they were asked for")?));
            }
            TurnEvent::Progress(_) | TurnEvent::Moved(_) => {}
            TurnEvent::Finished { .. } => return Ok((counts, steps)),
            TurnEvent::Failed(error) => bail!(error),
        }
    }
    bail!("the engine stopped")
}

/// Documents of `each` tokens, and a further one.
fn documents(model: &Arc<dyn Model>, each: usize) -> Vec<Vec<Token>> {
    let tokens = model.tokenize(&TEXTS.concat(), false, false);
    tokens.chunks_exact(each).step_by(2).take(DOCUMENTS + 1).map(<[Token]>::to_vec).collect()
}
