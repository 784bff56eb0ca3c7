//! Time to the first token.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use hob_runtime::backend::llama::{LlamaModel, LlamaOptions};
use hob_runtime::{EngineOptions, Model, TokenCounts, TurnRequest};
use hob_slots::Token;

use super::{ARMS, Options, SPEED_BARS, cases, is_default, reuse};
use crate::Subject;
use crate::measure::median_ms;
use crate::turns::{Words, ask, request, settle, start, ttft};

/// A question behind the documents, in tokens.
const QUESTION: usize = 24;

/// Returns the bars that were missed.
pub fn run(options: &Options) -> Result<Vec<String>> {
    let subject = Subject::of(None)?;
    let model: Arc<dyn Model> = Arc::new(LlamaModel::load(&subject.path, LlamaOptions::default())?);
    let (documents, tokens) =
        if options.long { (4, 2600) } else { (options.documents, options.tokens) };
    let mut words = Words::new(model.vocabulary().len());
    // The last one is new in each prompt that has it.
    let texts: Vec<Vec<Token>> = (0..=documents).map(|_| words.next(tokens)).collect();
    let context_tokens = ((documents + 1) * tokens * 3).next_multiple_of(1024);
    let directories = [tempfile::tempdir()?, tempfile::tempdir()?];
    let engine = |at: usize| {
        let options = EngineOptions { context_tokens, slots: 2, ..EngineOptions::default() };
        start(model.clone(), directories[at].path(), options)
    };
    let (exact, moving) = (engine(0)?, engine(1)?);
    let mut prompt = |order: &[usize]| -> Vec<Token> {
        let beginning = words.next(8); // So that nothing of an earlier prompt is its beginning.
        let texts: Vec<Token> = order.iter().flat_map(|&at| texts[at].iter().copied()).collect();
        [beginning, texts, words.next(QUESTION)].concat()
    };
    let source: Vec<usize> = (0..documents).collect();
    ask(&moving, request("source", &prompt(&source), 1))?;
    settle(&moving);

    println!(
        "First token of {documents} documents of {tokens} tokens at other places, {}; medians of {} rounds.\n",
        subject.title, options.rounds
    );
    println!("| case | strategy | moved | repaired | computed | ms | x sooner than exact | bar |");
    println!("|---|---|---:|---:|---:|---:|---:|---:|");
    let mut missed = Vec::new();
    for case in cases(documents) {
        let mut times: Vec<Vec<Duration>> = vec![Vec::new(); ARMS.len() + 1];
        let mut counts = vec![TokenCounts::default(); ARMS.len() + 1];
        for round in 0..options.rounds {
            let plain = prompt(&case.order);
            let (report, _) = ask(&exact, request(&format!("{}-{round}", case.name), &plain, 1))?;
            times[0].push(ttft(&report));
            counts[0] = report.tokens;
            for (at, (name, repair)) in ARMS.iter().enumerate() {
                let asked = prompt(&case.order);
                let turn = request(&format!("{}-{name}-{round}", case.name), &asked, 1);
                let (report, _) = ask(&moving, TurnRequest { reuse: reuse(*repair), ..turn })?;
                times[at + 1].push(ttft(&report));
                counts[at + 1] = report.tokens;
                settle(&moving);
            }
        }
        let base = median_ms(&times[0]);
        println!("| {} | exact | 0 | 0 | {} | {base:.0} | | |", case.name, counts[0].computed);
        for (at, (name, repair)) in ARMS.iter().enumerate() {
            let (ms, count) = (median_ms(&times[at + 1]), counts[at + 1]);
            let (sooner, bar) = (base / ms, SPEED_BARS[usize::from(options.long)]);
            // A text in front must be computed itself, and one case turns the documents only once.
            let counts_here = is_default(*repair) && case.name == "reversed";
            if counts_here && sooner < bar {
                missed.push(format!("{} with {name}: {sooner:.1} x of {bar:.0}", case.name));
            }
            println!(
                "| {} | {name} | {} | {} | {} | {ms:.0} | {sooner:.1} | {} |",
                case.name,
                count.moved,
                count.repaired,
                count.computed,
                if counts_here { format!("{bar:.0}") } else { String::new() },
            );
        }
    }
    println!();
    exact.shutdown();
    moving.shutdown();
    Ok(missed)
}
