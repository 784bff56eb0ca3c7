//! Likeness of answers to exact ones, and facts that they still tell.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use hob_runtime::backend::llama::{LlamaModel, LlamaOptions};
use hob_runtime::likeness::{Likeness, Measured};
use hob_runtime::{Engine, EngineOptions, Model, TurnRequest};
use hob_slots::content::Repair;
use hob_slots::{ConversationId, Token};

use super::{
    AGREEMENT_BAR, ARMS, Case, NONE_BAR, Options, Part, RECALL_BAR, cases, is_default, reuse,
};
use crate::Subject;
use crate::recall::language::{CITIES, Draw, FILES, KEYS};
use crate::turns::{ask, request, settle, start, wait_for};

/// Tokens of an answer that are compared, at most: it ends before.
pub(super) const COMPARED: usize = 32;

/// Documents of a reader, and sentences of each.
pub(super) const SHAPES: [(usize, usize); 2] = [(4, 7), (8, 12)];

/// What the assistant says to each document.
const READ: &str = "<|im_start|>assistant\nI read it.<|im_end|>\n";

/// Of one arm over all prompts.
#[derive(Default)]
struct Figures {
    likeness: Likeness,
    /// Answers that tell the value which the exact answer tells.
    told: usize,
    /// Of so many.
    telling: usize,
}

/// A text that is asked about.
pub(super) struct Document {
    tokens: Vec<Token>,
    pub question: String,
    pub value: String,
}

/// Returns the bars that were missed.
pub fn run(name: &str, options: &Options) -> Result<Vec<String>> {
    let directory = tempfile::tempdir()?;
    let (model, title) = load(name, directory.path())?;
    let directories = [tempfile::tempdir()?, tempfile::tempdir()?];
    let engine = |at: usize| {
        let options = EngineOptions {
            context_tokens: 8 * 1024,
            slots: 4,
            drafts: false,
            ..EngineOptions::default()
        };
        start(model.clone(), directories[at].path(), options)
    };
    let (exact, moving) = (engine(0)?, engine(1)?);
    let mut missed = Vec::new();
    for (count, sentences) in SHAPES {
        let mut all: Vec<Figures> = ARMS.iter().map(|_| Figures::default()).collect();
        let mut lengths = Vec::new();
        for seed in 0..options.readers {
            let mut draw = Draw::new((seed * 100 + count) as u64);
            let documents = documents(&model, &mut draw, count + 1, sentences);
            let prompt =
                |order: &[Part], question: &str| prompt(&model, &documents, order, question);
            let source: Vec<Part> = (0..count).map(Part::Known).collect();
            ask(&moving, request("source", &prompt(&source, "Hello."), 1))?;
            settle(&moving);
            for case in cases(count) {
                for asked in asked(&case) {
                    let document = &documents[asked];
                    let prompt = prompt(&case.order, &document.question);
                    lengths.push(prompt.len());
                    compare([&exact, &moving], &prompt, &document.value, &mut all)?;
                }
            }
            forget(&moving, "source")?;
        }
        let least = lengths.iter().min().unwrap_or(&0);
        let most = lengths.iter().max().unwrap_or(&0);
        println!(
            "Likeness to exact answers, {title}: {count} documents at other places, prompts of {least} to {most} tokens, \
             {} answers of up to {COMPARED} tokens.\n",
            lengths.len()
        );
        missed.extend(print(&format!("{title}, {count} documents"), &all));
    }
    exact.shutdown();
    moving.shutdown();
    Ok(missed)
}

/// The model and its title. `directory`: for the bundled one.
pub(super) fn load(name: &str, directory: &Path) -> Result<(Arc<dyn Model>, String)> {
    let (path, title) = if name == "bundled" {
        (hob_models::bundled::materialise(directory)?, "the bundled model".to_owned())
    } else {
        let Subject { path, title } =
            Subject::of(Some(name)).with_context(|| format!("there is no model {name}"))?;
        (path, title)
    };
    Ok((Arc::new(LlamaModel::load(&path, LlamaOptions::default())?), title))
}

/// The first, a middle and the last document of the case.
fn asked(case: &Case) -> Vec<usize> {
    let known = case.order.iter().filter_map(|part| match part {
        Part::Known(number) => Some(*number),
        Part::New(_) => None,
    });
    let known: Vec<usize> = known.collect();
    vec![known[0], known[known.len() / 2], known[known.len() - 1]]
}

/// Asks all arms. What one has computed is forgotten before the next.
fn compare(
    [exact, moving]: [&Engine; 2],
    prompt: &[Token],
    value: &str,
    all: &mut [Figures],
) -> Result<()> {
    let asked = |name: &str| TurnRequest { ignore_eog: false, ..request(name, prompt, COMPARED) };
    let of_exact = wait_for(Measured::ask(exact, asked("exact")))?;
    for ((_, repair), figures) in ARMS.iter().zip(all) {
        // Computing all tells how much rounding alone differs.
        let is_full = *repair == Repair::Full;
        let engine = if is_full { exact } else { moving };
        let arm = TurnRequest { reuse: reuse(*repair), cold: is_full, ..asked("arm") };
        let (likeness, own) = wait_for(of_exact.compare(engine, &arm))?;
        figures.likeness.add(&likeness);
        if of_exact.text.contains(value) {
            figures.telling += 1;
            figures.told += usize::from(own.text.contains(value));
        }
        forget(engine, "arm")?;
    }
    forget(exact, "exact")
}

pub(super) fn forget(engine: &Engine, conversation: &str) -> Result<()> {
    let conversation = ConversationId::new(conversation).expect("a short name");
    Ok(wait_for(engine.forget(conversation))?)
}

fn print(title: &str, all: &[Figures]) -> Vec<String> {
    println!(
        "| strategy | moved | repaired | computed | same likeliest token | bar | mean KL | F1 | facts told, of exact | bar |"
    );
    println!("|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|");
    let mut missed = Vec::new();
    for ((name, repair), figures) in ARMS.iter().zip(all) {
        let Figures { likeness, told, telling } = figures;
        let per_answer = |tokens: usize| tokens / likeness.answers.max(1);
        let agreement = likeness.agreement();
        let recall = *told as f64 / (*telling).max(1) as f64;
        let mut bars = [String::new(), String::new()];
        if is_default(*repair) {
            bars = [AGREEMENT_BAR, RECALL_BAR].map(|bar| format!("{bar}"));
            if agreement < AGREEMENT_BAR {
                missed.push(format!("{title}: {name} agrees in {agreement:.3} of {AGREEMENT_BAR}"));
            }
            if recall < RECALL_BAR {
                missed.push(format!("{title}: {name} tells {recall:.3} of {RECALL_BAR}"));
            }
        }
        println!(
            "| {name} | {} | {} | {} | {agreement:.3} | {} | {:.4} | {:.3} | {told} of {telling} | {} |",
            per_answer(likeness.tokens.moved),
            per_answer(likeness.tokens.repaired),
            per_answer(likeness.tokens.computed),
            bars[0],
            likeness.mean_divergence(),
            likeness.mean_f1(),
            bars[1],
        );
    }
    println!();
    let divergence = |wanted: Repair| {
        let arms = ARMS.iter().zip(all).filter(|((_, repair), _)| *repair == wanted);
        arms.map(|(_, figures)| figures.likeness.mean_divergence()).sum::<f64>()
    };
    let (none, default) = (divergence(Repair::None), divergence(Repair::default()));
    if none < NONE_BAR * default {
        missed.push(format!(
            "{title}: without repair, KL is {none:.4}, with it {default:.4}: too easy"
        ));
    }
    missed
}

/// Texts and files with a value each, in the language of the bundled model.
pub(super) fn documents(
    model: &Arc<dyn Model>,
    draw: &mut Draw,
    count: usize,
    sentences: usize,
) -> Vec<Document> {
    let cities = draw.sample(&CITIES, count);
    let files = draw.sample(&FILES, count);
    let names = cities.into_iter().zip(files);
    let document = |(number, (city, file)): (usize, (&str, &str))| {
        let value = draw.digits(5);
        let mut text = draw.prose(sentences);
        let (text, question) = if number % 2 == 0 {
            text.insert(draw.below(sentences), format!("The secret code of {city} is {value}."));
            (text.join(" "), format!("What is the secret code of {city}?"))
        } else {
            let keys = draw.sample(&KEYS, 5);
            let asked = draw.below(keys.len());
            let lines: Vec<String> = keys
                .iter()
                .enumerate()
                .map(|(at, key)| match at == asked {
                    true => format!("{key} = {value}"),
                    false => format!("{key} = {}", draw.digits(5)),
                })
                .collect();
            let rest = text[..sentences / 2].join(" ");
            let text = format!("[file:{file}]\n{}\n[end] {rest}", lines.join("\n"));
            (text, format!("What is {} in {file}?", keys[asked]))
        };
        let text = format!("<|im_start|>user\nRead this. {text}<|im_end|>\n{READ}");
        Document { tokens: model.tokenize(&text, false, true), question, value }
    };
    names.enumerate().map(document).collect()
}

pub(super) fn prompt(
    model: &Arc<dyn Model>,
    documents: &[Document],
    order: &[Part],
    question: &str,
) -> Vec<Token> {
    let (new, known) = documents.split_last().expect("one is new");
    let text = |part: &Part| match part {
        Part::Known(number) => known[*number].tokens.clone(),
        Part::New(_) => new.tokens.clone(),
    };
    let mut tokens: Vec<Token> = order.iter().flat_map(text).collect();
    let question = format!("<|im_start|>user\n{question}<|im_end|>\n<|im_start|>assistant\n");
    tokens.extend(model.tokenize(&question, false, true));
    tokens
}
