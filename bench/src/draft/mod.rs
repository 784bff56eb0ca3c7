//! Tokens a second with drafts and without, on one model, in one run.
//!
//! - An agent's edit: the prompt shows a source file, and the answer is the whole file with one name
//!   changed. The models at hand are too small to edit, so a grammar forces its tokens: acceptance is that
//!   of a model that edits without a mistake, while every micro-batch, mask and sample is real.
//! - The same prompt without the grammar: what the model itself does with it.
//! - Free text: a story, drawn at temperature 1, that does not repeat.
//! - A draft model that is as large as the model: itself. It is always right and never pays.
//! - One that pays: the model's weights as 32-bit floats, and the model as it is drafts for them. No pair
//!   of a large and a small model of one family is at hand; this one agrees more than such a pair would.
//! - The MTP head of the model's file guesses in all rows without a draft model, if it has one. Random weights in the
//!   shape of Qwen3.5-0.8B have one that is seldom right (`--model qwen3.5-0.8b`), or always right
//!   (`--model qwen3.5-0.8b-right`).
//! - Greedy answers to many prompts, with drafts and without: how many are equal; see `equality`.
//!
//! Draft models are for memories that drop their newest rows; `--model lfm2-350m` is a hybrid, which does not.
//!
//! Two engines share the weights and answer in turn, the same tokens for the same seed. Prompts are hot,
//! so that only generation is measured. Each figure is the median of the rounds; a ratio is the median
//! of the rounds' ratios, because the machine's speed changes between rounds more than within one.

mod equality;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use hob_runtime::backend::llama::stock::widen;
use hob_runtime::backend::llama::{LlamaModel, LlamaOptions};
use hob_runtime::backend::{Backend, ContextShape, Sequence};
use hob_runtime::grammar::Grammar;
use hob_runtime::sample::Sampling;
use hob_runtime::{DraftCounts, DraftModel, Engine, EngineOptions, Model, TurnEvent, TurnRequest};
use hob_slots::{ModelHash, Token};

use crate::Subject;
use crate::bars::{BarFlags, is_below};
use crate::measure::{median_ms, time};
use crate::raw::rows;
use crate::turns::{request, settle, start};
use crate::weights::Shape;

#[derive(clap::Args)]
pub struct Options {
    /// Measure this model, a path or a name; otherwise SmolLM2, which `cargo xtask bench` fetches.
    #[arg(long, value_name = "PATH|NAME", default_value = "smollm2")]
    model: String,
    /// Rounds; each figure is the median of as many samples.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Tokens of the answers that no grammar ends.
    #[arg(long, default_value_t = 200)]
    tokens: usize,
    /// Compute threads; 0 chooses as hobd does.
    #[arg(long, default_value_t = 0)]
    threads: usize,
    /// Greedy answers that are compared with those without drafts.
    #[arg(long, default_value_t = 40)]
    answers: usize,
    /// Words of the texts that these answers are to repeat. Long copies fill tiles of attention.
    #[arg(long, default_value_t = 60)]
    shown: usize,
    /// Leaves out the edit of a shown file, forced and not.
    #[arg(long)]
    no_edit: bool,
    /// Compares answers, and measures no speed.
    #[arg(long)]
    only_equality: bool,
    #[command(flatten)]
    bars: BarFlags,
}

/// Minimum ratio of an agent's edit.
const EDIT_BAR: f64 = 1.5;
/// Minimum ratio of a text that does not repeat.
const FREE_BAR: f64 = 0.98;

/// Minimum ratio of a text whose tokens the MTP head always guesses right.
const RIGHT_HEAD_BAR: f64 = 1.2;

/// Minimum ratio with a draft model that reads a fifth of the bytes.
const WIDE_BAR: f64 = 1.2;

/// Part of the greedy answers that may differ from those without drafts, beside what differs without any.
const MAX_DIFFERENT: f64 = 0.1;
/// Minimum tokens of a greedy answer.
const ANSWER_TOKENS: usize = 100;
/// Maximum tokens of an answer for each word of the text that it is to repeat.
const TOKENS_PER_WORD: f64 = 1.2;

const STORY: &str = "<|im_start|>user\nTell a story about a lighthouse keeper who collects lost letters.\
                     <|im_end|>\n<|im_start|>assistant\n";

/// The file that is shown, and the name that the edit changes.
const FILE: &str = include_str!("../raw.rs");
const RENAMED: (&str, &str) = ("decode", "compute");

struct Case {
    name: &'static str,
    bar: Option<f64>,
    request: TurnRequest,
    /// Ratio of the round before the others, in which the prompts become hot and the engine learns what rows and
    /// guesses take.
    at_first: f64,
    on: Vec<Answer>,
    off: Vec<Answer>,
}

struct Answer {
    tokens: Vec<Token>,
    per_second: f64,
    drafts: DraftCounts,
}

pub fn run(options: &Options) -> Result<()> {
    let subject = Subject::of(Some(&options.model))?;
    let llama = LlamaOptions { threads: options.threads, ..LlamaOptions::default() };
    let load = |path: &Path| -> Result<Arc<dyn Model>> {
        Ok(Arc::new(LlamaModel::load(path, llama.clone())?))
    };
    // As hobd loads it.
    let with_heads = LlamaOptions { mtp: true, ..llama.clone() };
    let model: Arc<dyn Model> = Arc::new(LlamaModel::load(&subject.path, with_heads)?);
    if options.only_equality {
        return compare_answers(&subject.title, &model, &load, options);
    }
    println!("Drafts, {}; medians of {} rounds, interleaved.\n", subject.title, options.rounds);
    print_curve(&*model)?;
    let mut all = cases(&*model, options);
    compare(&model, None, &mut all, options.rounds)?;
    if model.facts().memory.can_drop_newest() {
        all.extend(with_draft_models(&subject, &model, &load, options)?);
    }
    let speeds = print(&all, options);
    println!();
    compare_answers(&subject.title, &model, &load, options)?;
    speeds
}

/// The model drafts for itself, and for its weights as 32-bit floats.
fn with_draft_models(
    subject: &Subject,
    model: &Arc<dyn Model>,
    load: &dyn Fn(&Path) -> Result<Arc<dyn Model>>,
    options: &Options,
) -> Result<Vec<Case>> {
    let mut its_own = vec![free_text(&**model, "the model drafts for itself", FREE_BAR, options)];
    compare(model, Some(load(&subject.path)?), &mut its_own, options.rounds)?;
    let directory = tempfile::tempdir()?;
    let wide = directory.path().join("wide.gguf");
    ensure!(widen(&subject.path, &wide), "llama.cpp cannot write {}", wide.display());
    let wide = load(&wide)?;
    let mut of_wide =
        vec![free_text(&*wide, "it drafts for its weights as f32", WIDE_BAR, options)];
    compare(&wide, Some(model.clone()), &mut of_wide, options.rounds)?;
    Ok(its_own.into_iter().chain(of_wide).collect())
}

/// The model, and random weights in Q8_0.
fn compare_answers(
    title: &str,
    model: &Arc<dyn Model>,
    load: &dyn Fn(&Path) -> Result<Arc<dyn Model>>,
    options: &Options,
) -> Result<()> {
    let random = load(&crate::small_model_path()?)?;
    equality::print_heading();
    let tokens = ANSWER_TOKENS.max((options.shown as f64 * TOKENS_PER_WORD) as usize);
    let prompts = equality::Prompts { answers: options.answers, shown: options.shown, tokens };
    let mut missed = Vec::new();
    for (name, model) in [(title, model), ("random weights (Q8_0)", &random)] {
        let (differ, differ_without) = equality::compare(name, model, prompts)?;
        let most = differ_without + (MAX_DIFFERENT * options.answers as f64) as usize;
        if differ > most {
            missed.push(format!("{name}: {differ} answers differ, {most} may"));
        }
    }
    options.bars.check(&missed)
}

/// Answers each case with drafts and without, round after round.
fn compare(
    model: &Arc<dyn Model>,
    drafter: Option<Arc<dyn Model>>,
    cases: &mut [Case],
    rounds: usize,
) -> Result<()> {
    let directories = [tempfile::tempdir()?, tempfile::tempdir()?];
    let draft_model = drafter
        .map(|drafter| DraftModel::new(drafter, ModelHash(*b"benchdrf"), model.as_ref()))
        .transpose()?;
    let engine = |drafts: bool| {
        let draft_model = draft_model.clone().filter(|_| drafts);
        let options = EngineOptions { drafts, draft_model, ..EngineOptions::default() };
        start(model.clone(), directories[usize::from(drafts)].path(), options)
    };
    let (with_drafts, without_drafts) = (engine(true)?, engine(false)?);
    for round in 0..=rounds {
        for case in &mut *cases {
            // The first of the two in one round is the second in the next.
            let (with, without) = if round % 2 == 0 {
                let with = answer(&with_drafts, &case.request)?;
                (with, answer(&without_drafts, &case.request)?)
            } else {
                let without = answer(&without_drafts, &case.request)?;
                (answer(&with_drafts, &case.request)?, without)
            };
            let (on, off) = (with.per_second, without.per_second);
            eprintln!("round {round}, {}: {off:.1} and {on:.1} tok/s", case.name);
            if round == 0 {
                case.at_first = on / off;
                continue;
            }
            case.on.push(with);
            case.off.push(without);
        }
    }
    with_drafts.shutdown();
    without_drafts.shutdown();
    Ok(())
}

/// A story, greedily: what a draft model of the same weights guesses as well.
fn free_text(model: &dyn Model, name: &'static str, bar: f64, options: &Options) -> Case {
    let story = model.tokenize(STORY, true, true);
    let request = request("story", &story, options.tokens);
    case(name, Some(bar), request)
}

fn case(name: &'static str, bar: Option<f64>, request: TurnRequest) -> Case {
    Case { name, bar, request, at_first: 0.0, on: Vec::new(), off: Vec::new() }
}

fn cases(model: &dyn Model, options: &Options) -> Vec<Case> {
    let prompt = |text: &str| {
        let text = format!("<|im_start|>user\n{text}<|im_end|>\n<|im_start|>assistant\n");
        model.tokenize(&text, true, true)
    };
    let (old, new) = RENAMED;
    let asked = format!(
        "{FILE}\nRename `{old}` to `{new}` in this file. Answer with the whole file, and nothing else."
    );
    let file = prompt(&asked);
    let edited = model.tokenize(&FILE.replace(old, new), false, true);
    let edited: Vec<String> = edited.iter().map(|token| format!("<[{}]>", token.0)).collect();
    let forced = Arc::new(Grammar::lark(format!("start: {}", edited.join(" "))));
    let story = model.tokenize(STORY, true, true);
    let drawn = Sampling { seed: Some(7), ..Sampling::default() };
    let edit =
        TurnRequest { grammar: Some(forced), ignore_eog: false, ..request("edit", &file, 4096) };
    let (free, bar) = if options.model == Shape::QWEN3_5_0_8B_RIGHT.name {
        ("free text that the MTP head guesses", RIGHT_HEAD_BAR)
    } else {
        ("free text that does not repeat", FREE_BAR)
    };
    let free_request = TurnRequest { sampling: drawn, ..request("story", &story, options.tokens) };
    let mut cases = vec![
        case("an edit of a shown file, forced", Some(EDIT_BAR), edit),
        case("the same prompt, not forced", None, request("own", &file, options.tokens)),
        case(free, Some(bar), free_request),
    ];
    if options.no_edit {
        cases.drain(..2);
    }
    cases
}

fn answer(engine: &Engine, request: &TurnRequest) -> Result<Answer> {
    let mut turn = engine.submit(request.clone())?;
    let mut tokens = Vec::new();
    while let Some(event) = turn.next_blocking() {
        match event {
            TurnEvent::Progress(_) | TurnEvent::Moved(_) | TurnEvent::Started(_) => {}
            TurnEvent::Token { token, .. } => tokens.push(token),
            TurnEvent::Finished { generation_ms, drafts, .. } => {
                settle(engine); // The draft model reads what was said while no answer is made.
                ensure!(tokens.len() > 1, "an answer of {} tokens has no speed", tokens.len());
                // The first token is sampled with the prompt.
                let per_second = (tokens.len() - 1) as f64 / generation_ms * 1e3;
                return Ok(Answer { tokens, per_second, drafts });
            }
            TurnEvent::Failed(error) => bail!(error),
        }
    }
    bail!("the engine stopped")
}

fn print(cases: &[Case], options: &Options) -> Result<()> {
    println!(
        "| answer | tokens | tok/s without | tok/s with | at first | ratio | bar | drafted | accepted | equal |"
    );
    println!("|---|---:|---:|---:|---:|---:|---:|---:|---:|---|");
    let mut missed = Vec::new();
    for Case { name, bar, at_first, on, off, .. } in cases {
        let pairs = || on.iter().zip(off);
        let speed = |answers: &[Answer]| median(answers.iter().map(|answer| answer.per_second));
        let ratio = median(pairs().map(|(on, off)| on.per_second / off.per_second));
        let equal = pairs().filter(|(on, off)| on.tokens == off.tokens).count();
        let counts = on.last().map(|answer| answer.drafts).unwrap_or_default();
        let tokens = on.last().map_or(0, |answer| answer.tokens.len());
        println!(
            "| {name} | {tokens} | {:.1} | {:.1} | {at_first:.2} | {ratio:.2} | {} | {} | {} | {} |",
            speed(off),
            speed(on),
            bar.map_or_else(String::new, |bar| format!("{bar:.2}")),
            with_those_of_heads(counts.drafted, counts.mtp_drafted),
            with_those_of_heads(counts.accepted, counts.mtp_accepted),
            format_args!("{equal} of {}", on.len()),
        );
        if bar.is_some_and(|bar| is_below(ratio, bar)) {
            missed.push(format!("{name}: {ratio:.2} x"));
        }
    }
    options.bars.check(&missed)
}

/// A number of guesses, and how many of them are an MTP head's.
fn with_those_of_heads(all: usize, of_heads: usize) -> String {
    if of_heads == 0 { all.to_string() } else { format!("{all} ({of_heads} by the head)") }
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let seconds: Vec<Duration> = values.map(Duration::from_secs_f64).collect();
    median_ms(&seconds) / 1e3
}

/// How long micro-batches take, by their rows, each with logits.
fn print_curve(model: &dyn Model) -> Result<()> {
    const CONTEXT: usize = 512;
    const MOST: usize = 16;
    let shape = ContextShape { context_tokens: 1024, sequences: 2, micro_batch: CONTEXT };
    let mut samples = vec![Vec::new(); MOST];
    model.with_context(shape, &mut |backend| {
        let (answer, before) = (Sequence(0), Sequence(1));
        decode(backend, 0, CONTEXT);
        backend.share(answer, before, 0..CONTEXT);
        for _ in 0..9 {
            for (samples, rows) in samples.iter_mut().zip(1..) {
                samples.push(time(|| decode(backend, CONTEXT, rows)).0);
                backend.clear(answer);
                backend.share(before, answer, 0..CONTEXT);
            }
        }
    })?;
    let ms: Vec<String> = samples.iter().map(|it| format!("{:.1}", median_ms(it))).collect();
    println!("ms of 1 to {MOST} rows behind {CONTEXT} tokens: {}\n", ms.join(", "));
    Ok(())
}

fn decode(backend: &mut dyn Backend, start: usize, tokens: usize) {
    let token = |offset: usize| Token(i32::try_from(300 + offset * 37 % 1000).expect("small"));
    let mut rows = rows(start, (0..tokens).map(token));
    rows.iter_mut().for_each(|row| row.wants_logits = true);
    backend.decode(&rows).expect("there is room");
    backend.logits(tokens - 1);
}

#[cfg(test)]
mod tests {
    use hob_runtime::backend::MtpHeads;

    use super::*;
    use crate::weights::{self, Guesses};

    /// The answers with drafts and without. Costs do not depend on the clock, so that the head always guesses.
    fn answers(guesses: Guesses) -> [Answer; 2] {
        let directory = tempfile::tempdir().expect("a directory can be made");
        let path = directory.path().join("model.gguf");
        weights::ensure(Shape::small_with_head(guesses), &path).expect("written");
        let options = LlamaOptions { threads: 1, mtp: true, ..LlamaOptions::default() };
        let model = LlamaModel::load(&path, options).expect("llama.cpp loads the shape");
        let model: Arc<dyn Model> = Arc::new(model);
        assert_eq!(model.mtp(), MtpHeads::Loaded);
        let request = request("story", &model.tokenize(STORY, true, true), 60);
        [true, false].map(|drafts| {
            let slots = tempfile::tempdir().expect("a directory can be made");
            let options =
                EngineOptions { drafts, micro_batch_target: None, ..EngineOptions::default() };
            let engine = start(model.clone(), slots.path(), options).expect("it starts");
            let answer = answer(&engine, &request).expect("it answers");
            engine.shutdown();
            answer
        })
    }

    #[test]
    fn the_head_of_random_weights_is_seldom_right() {
        let [on, off] = answers(Guesses::Seldom);
        assert_eq!((on.tokens.len(), off.drafts), (60, DraftCounts::default()));
        let counts = on.drafts;
        assert!(counts.mtp_drafted > 2 * counts.mtp_accepted, "{counts:?}");
    }

    #[test]
    fn the_head_of_a_model_that_says_its_vocabulary_is_always_right() {
        let [on, off] = answers(Guesses::Always);
        assert_eq!(on.tokens, off.tokens);
        assert!(on.tokens.is_sorted_by(|one, next| one.0 + 1 == next.0), "{:?}", on.tokens);
        let counts = on.drafts;
        assert!(counts.mtp_accepted > 20, "{counts:?}");
        assert_eq!(counts.mtp_drafted, counts.mtp_accepted, "{counts:?}");
    }
}
