//! Likeness of answers over rounded KV to exact ones: of conversations that have read documents, have aged, and
//! are asked about them.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use anyhow::{Result, ensure};
use hob_runtime::likeness::{Likeness, Measured};
use hob_runtime::{Engine, EngineOptions, TurnRequest};
use hob_slots::{AdjustedTime, ConversationId, Lossy, Quota, Rules, Sweeper, Timestamp, Token};
use parking_lot::Mutex;

use super::likeness::{COMPARED, forget, load};
use super::readers::{Question, Reader, TEXTS, USUAL};
use super::{Options, Part};
use crate::recall::language::Draw;
use crate::turns::{ask, request, settle, start, wait_for};

/// Maximum divergence of each tier.
const BARS: [(Lossy, Option<f64>); 2] = [(Lossy::Q8, Some(0.01)), (Lossy::Q4, None)];

#[derive(Default)]
struct Figures {
    likeness: Likeness,
    told: usize,
    telling: usize,
}

/// Returns the bars that were missed.
pub fn run(name: &str, options: &Options) -> Result<Vec<String>> {
    let directory = tempfile::tempdir()?;
    let (model, title) = load(name, directory.path())?;
    let directories = [tempfile::tempdir()?, tempfile::tempdir()?, tempfile::tempdir()?];
    let engine = |at: usize, lossy: Option<Lossy>| {
        let options = EngineOptions {
            context_tokens: 8 * 1024,
            slots: 4,
            drafts: false,
            lossy,
            ..EngineOptions::default()
        };
        start(model.clone(), directories[at].path(), options)
    };
    let exact = engine(0, None)?;
    let rounded = [engine(1, Some(Lossy::Q8))?, engine(2, Some(Lossy::Q4))?];
    let mut missed = Vec::new();
    for &texts in &TEXTS[..USUAL] {
        let count = texts.documents;
        let mut all = [Figures::default(), Figures::default()];
        let mut lengths = Vec::new();
        for seed in 0..options.readers {
            let mut draw = Draw::new((seed * 100 + count) as u64);
            let reader = Reader::new(&model, &mut draw, texts, options);
            let order: Vec<Part> = (0..count).map(Part::Known).collect();
            let read = reader.prompt(&order, &Question::hello());
            for asked in [0, count / 2, count - 1] {
                let document = &reader.documents[asked];
                let prompt = reader.prompt(&order, &document.question);
                lengths.push(prompt.len());
                // What a model says behind the end of its answer is no answer.
                let asked_in = |name: &str| TurnRequest {
                    ignore_eog: false,
                    ..request(name, &prompt, COMPARED)
                };
                let of_exact = wait_for(Measured::ask(&exact, asked_in("exact")))?;
                let told = document.values.iter().find(|value| of_exact.text.contains(*value));
                for ((engine, (lossy, _)), figures) in rounded.iter().zip(BARS).zip(&mut all) {
                    age(engine, &read, lossy)?;
                    let (likeness, own) = wait_for(of_exact.compare(engine, &asked_in("arm")))?;
                    ensure!(likeness.tokens.lossy > 0, "{lossy}: {likeness:?}");
                    figures.likeness.add(&likeness);
                    figures.telling += usize::from(told.is_some());
                    figures.told += usize::from(told.is_some_and(|value| own.text.contains(value)));
                    forget(engine, "arm")?;
                }
                forget(&exact, "exact")?;
            }
        }
        let (least, most) = (lengths.iter().min(), lengths.iter().max());
        println!(
            "Likeness of answers over rounded KV, {title}: {count} documents{}, prompts of {} to {} tokens, {} answers \
             of up to {COMPARED} tokens.\n",
            texts.tells.title(),
            least.unwrap_or(&0),
            most.unwrap_or(&0),
            lengths.len()
        );
        missed.extend(print(&format!("{title}, {count} documents{}", texts.tells.title()), &all));
    }
    exact.shutdown();
    for engine in rounded {
        engine.shutdown();
    }
    Ok(missed)
}

/// A conversation reads the prompt, and ages.
fn age(engine: &Engine, prompt: &[Token], lossy: Lossy) -> Result<()> {
    ask(engine, request("arm", prompt, 0))?;
    let conversation = ConversationId::new("arm").expect("a short name");
    wait_for(engine.park(conversation));
    settle(engine);
    let quota = Quota::Bytes(u64::MAX);
    let rules = Rules { lossy: Some(lossy), quota, max_compressed_bytes: 0, ..Rules::default() };
    let later = SystemTime::now() + Duration::from_secs(2 * 3_600);
    let sweeper = Arc::new(Mutex::new(Sweeper::new(rules)));
    let swept = wait_for(engine.sweep(sweeper, AdjustedTime::from(Timestamp::from(later))))?;
    ensure!(swept.rounded == 1 && swept.errors.is_empty(), "{swept:?}");
    Ok(())
}

fn print(title: &str, all: &[Figures; 2]) -> Vec<String> {
    println!(
        "| tier | rounded | computed | same likeliest token | mean KL | bar | F1 | facts told, of exact |"
    );
    println!("|---|---:|---:|---:|---:|---:|---:|---:|");
    let mut missed = Vec::new();
    for ((lossy, bar), Figures { likeness, told, telling }) in BARS.iter().zip(all) {
        let per_answer = |tokens: usize| tokens / likeness.answers.max(1);
        let divergence = likeness.mean_divergence();
        println!(
            "| {lossy} | {} | {} | {:.3} | {divergence:.4} | {} | {:.3} | {told} of {telling} |",
            per_answer(likeness.tokens.lossy),
            per_answer(likeness.tokens.computed),
            likeness.agreement(),
            bar.map_or(String::new(), |bar| bar.to_string()),
            likeness.mean_f1(),
        );
        // The divergence of no tokens is 0.
        if bar.is_some_and(|bar| likeness.compared == 0 || divergence >= bar) {
            missed.push(format!("{title}: rounded to {lossy}, KL is {divergence:.4}"));
        }
    }
    println!();
    missed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_of_answers_without_tokens_is_missed() {
        let missed = print("no answers", &[Figures::default(), Figures::default()]);
        assert_eq!(missed.len(), 1, "{missed:?}");
    }
}
