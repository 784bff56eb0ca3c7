//! Time to the first token.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use hob_runtime::backend::llama::{LlamaModel, LlamaOptions};
use hob_runtime::{EngineOptions, Model, TokenCounts, TurnRequest};
use hob_slots::content::Repair;
use hob_slots::{ConversationId, Token};

use super::{
    ARMS, COMPACTED_BAR, Case, NEW_BAR, Options, Part, SPEED_BARS, cases, is_default, reuse,
};
use crate::Subject;
use crate::measure::{cpu_time, median_ms};
use crate::turns::{Words, ask, request, settle, start, ttft, wait_for};

/// A question behind the documents, in tokens.
const QUESTION: usize = 24;

/// The case in which nothing can be reused.
const NEW: &str = "all new";

/// Returns the bars that were missed.
pub fn run(options: &Options) -> Result<Vec<String>> {
    let subject = Subject::of(None)?;
    let default = LlamaOptions::default();
    let model: Arc<dyn Model> = Arc::new(LlamaModel::load(
        &subject.path,
        LlamaOptions { threads: options.threads.unwrap_or(default.threads), ..default },
    )?);
    let (documents, tokens) =
        if options.long { (4, 2600) } else { (options.documents, options.tokens) };
    let mut words = Words::new(model.vocabulary().len());
    let texts: Vec<Vec<Token>> = (0..documents).map(|_| words.next(tokens)).collect();
    let context_tokens = ((documents + 1) * tokens * 3).next_multiple_of(1024);
    let directories = [tempfile::tempdir()?, tempfile::tempdir()?];
    let engine = |at: usize| {
        let options = EngineOptions { context_tokens, slots: 2, ..EngineOptions::default() };
        start(model.clone(), directories[at].path(), options)
    };
    let (exact, moving) = (engine(0)?, engine(1)?);
    let mut prompt = |order: &[Part]| -> Vec<Token> {
        let mut prompt = words.next(8); // So that nothing of an earlier prompt is its beginning.
        for part in order {
            match part {
                Part::Known(number) => prompt.extend(&texts[*number]),
                Part::New(part) => prompt.extend(words.next(tokens / part)),
            }
        }
        prompt.extend(words.next(QUESTION));
        prompt
    };
    let source: Vec<Part> = (0..documents).map(Part::Known).collect();
    ask(&moving, request("source", &prompt(&source), 1))?;
    settle(&moving);

    println!(
        "First token of {documents} documents of {tokens} tokens at other places, {}; medians of {} rounds.\n",
        subject.title, options.rounds
    );
    println!(
        "| case | strategy | moved | repaired | computed | processor s | ms | x sooner than exact | bar |"
    );
    println!("|---|---|---:|---:|---:|---:|---:|---:|---:|");
    let mut missed = Vec::new();
    let mut cases = cases(documents);
    cases.push(Case { name: NEW, order: vec![Part::New(1); documents] });
    cases.retain(|case| options.case.as_deref().is_none_or(|wanted| case.name.starts_with(wanted)));
    for case in cases {
        let is_compared = |(_, repair): &&(&str, Repair)| {
            is_default(*repair) || (case.name != NEW && *repair == Repair::None)
        };
        let arms: Vec<_> = ARMS.iter().filter(is_compared).collect();
        let mut times: Vec<Vec<Duration>> = vec![Vec::new(); arms.len() + 1];
        let mut processor = vec![Duration::ZERO; arms.len() + 1];
        let mut counts = vec![TokenCounts::default(); arms.len() + 1];
        for round in 0..options.rounds {
            let plain = prompt(&case.order);
            let before = cpu_time("self")?;
            let (report, _) = ask(&exact, request("exact", &plain, 1))?;
            processor[0] += cpu_time("self")? - before;
            times[0].push(ttft(&report));
            counts[0] = report.tokens;
            for (at, (name, repair)) in arms.iter().enumerate() {
                let name =
                    format!("arm-{round}-{name}").replace(|c: char| !c.is_alphanumeric(), "-");
                let turn = request(&name, &prompt(&case.order), 1);
                let before = cpu_time("self")?;
                let (report, _) = ask(&moving, TurnRequest { reuse: reuse(*repair), ..turn })?;
                processor[at + 1] += cpu_time("self")? - before;
                times[at + 1].push(ttft(&report));
                counts[at + 1] = report.tokens;
                settle(&moving);
                let name = ConversationId::new(&name).expect("a short name");
                wait_for(moving.forget(name))?;
            }
        }
        let base = median_ms(&times[0]);
        let seconds = |at: usize| processor[at].as_secs_f64() / options.rounds as f64;
        println!(
            "| {} | exact | 0 | 0 | {} | {:.1} | {base:.0} | | |",
            case.name,
            counts[0].computed,
            seconds(0)
        );
        for (at, (name, repair)) in arms.iter().enumerate() {
            let (ms, count) = (median_ms(&times[at + 1]), counts[at + 1]);
            let (sooner, bar) =
                (base / ms, bar(case.name, options).filter(|_| is_default(*repair)));
            if let Some(bar) = bar.filter(|bar| sooner < *bar) {
                missed.push(format!("{} with {name}: {sooner:.1} x of {bar}", case.name));
            }
            println!(
                "| {} | {name} | {} | {} | {} | {:.1} | {ms:.0} | {sooner:.1} | {} |",
                case.name,
                count.moved,
                count.repaired,
                count.computed,
                seconds(at + 1),
                bar.map_or_else(String::new, |bar| bar.to_string()),
            );
        }
    }
    println!();
    exact.shutdown();
    moving.shutdown();
    Ok(missed)
}

fn bar(case: &str, options: &Options) -> Option<f64> {
    match case {
        "reversed" => Some(SPEED_BARS[usize::from(options.long)]),
        NEW => Some(NEW_BAR),
        _ if case.starts_with("compacted") => Some(COMPACTED_BAR),
        _ => None,
    }
}
