//! Time to the first token.

use std::time::Duration;

use anyhow::Result;
use hob_runtime::TokenCounts;
use hob_slots::Token;
use hob_slots::content::Repair;

use super::pair::{FirstToken, NewTable, Pair};
use super::server::Server;
use super::{
    COMPACTED_BAR, Case, NEW_BAR, Options, PUBLISHED, Part, QUESTION, Shape, arms, cases,
    is_default,
};
use crate::measure::median_ms;
use crate::turns::Words;

/// Words of a long document.
const LONG: usize = 2000;

/// Minimum speed-up of the default strategy where four long documents are reversed.
const LONG_BAR: f64 = 40.0;

/// A call of an agent before a file, in tokens.
const CALL: usize = 12;

/// The case in which nothing can be reused.
const NEW: &str = "all new";

/// Of one arm over all rounds.
#[derive(Default)]
struct Sample {
    times: Vec<Duration>,
    processor: Duration,
    counts: TokenCounts,
}

/// Returns the bars that were missed.
pub fn run(options: &Options) -> Result<Vec<String>> {
    let mut missed = Vec::new();
    for shape in shapes(options) {
        missed.extend(of_shape(options, &shape)?);
    }
    Ok(missed)
}

fn shapes(options: &Options) -> Vec<Shape> {
    let documents = |documents, tokens, bar| Shape { documents, tokens, bar, published: None };
    let mut shapes = vec![documents(options.documents, options.tokens, Some(10.0))];
    if options.long {
        shapes = vec![documents(4, LONG * 13 / 10, Some(LONG_BAR))];
    }
    if options.published {
        let of_prototype = |(words, sooner): &(usize, f64)| Shape {
            published: Some(*sooner),
            ..documents(4, words * 13 / 10, (*words == LONG).then_some(LONG_BAR))
        };
        shapes = PUBLISHED.iter().map(of_prototype).collect();
    }
    shapes
}

fn of_shape(options: &Options, shape: &Shape) -> Result<Vec<String>> {
    let Shape { documents, tokens, .. } = *shape;
    let pair = Pair::new(options, (documents + 1) * tokens * 3)?;
    let mut words = Words::new(pair.vocabulary());
    let texts: Vec<Vec<Token>> = (0..documents).map(|_| words.next(tokens)).collect();
    let mut prompt = |order: &[Part]| -> Vec<Token> {
        let mut prompt = words.next(8); // So that nothing of an earlier prompt is its beginning.
        for part in order {
            match part {
                Part::Known(number) => prompt.extend(&texts[*number]),
                Part::New(part) => prompt.extend(words.next(tokens / part)),
                Part::Call => prompt.extend(words.next(CALL)),
            }
        }
        prompt.extend(words.next(QUESTION));
        prompt
    };
    let source: Vec<Part> = (0..documents).map(Part::Known).collect();
    let source = prompt(&source);
    pair.read("source", &source)?;
    let server = Server::start(&pair.subject, pair.threads, source.len() * 2, shape.tokens)?;

    println!(
        "First token of {documents} documents of {tokens} tokens at other places, {}; {} threads; medians of {} rounds.\n",
        pair.title(),
        pair.threads,
        options.rounds
    );
    pair.print_head(&NewTable { first: "case" });
    let mut missed = Vec::new();
    let mut cases = cases(documents);
    cases.push(Case { name: NEW, order: vec![Part::New(1); documents] });
    if shape.published.is_some() {
        cases.truncate(1);
    }
    cases.retain(|case| options.case.as_deref().is_none_or(|wanted| case.name.starts_with(wanted)));
    for case in cases {
        let is_compared = |(_, repair): &(String, Repair)| {
            !options.strategies.is_empty()
                || is_default(*repair)
                || (case.name != NEW && *repair == Repair::None)
        };
        let arms: Vec<_> = arms(options).into_iter().filter(is_compared).collect();
        let mut exact = Sample::default();
        let mut moved: Vec<Sample> = arms.iter().map(|_| Sample::default()).collect();
        let mut served = Vec::new();
        for round in 0..options.rounds {
            exact.add(pair.exact("exact", &prompt(&case.order))?);
            for ((name, repair), sample) in arms.iter().zip(&mut moved) {
                let name = format!("arm-{round}-{name}");
                sample.add(pair.moved(&name, &prompt(&case.order), *repair)?);
            }
            if let Some(server) = &server {
                server.ask(&source)?;
                served.push(server.ask(&prompt(&case.order))?);
            }
        }
        let base = median_ms(&exact.times);
        exact.print(case.name, "exact", options.rounds, base, None);
        for ((name, repair), sample) in arms.iter().zip(&moved) {
            let bar = bar(case.name, shape).filter(|_| is_default(*repair));
            let sooner = sample.print(case.name, name, options.rounds, base, bar);
            if let Some(bar) = bar.filter(|bar| sooner < *bar) {
                missed.push(format!("{} with {name}: {sooner:.1} x of {bar}", case.name));
            }
        }
        if let Some(published) = shape.published {
            println!(
                "| {} | mistral.rs' prototype, published | | | | | | {published} | |",
                case.name
            );
        }
        if let Some(last) = served.last() {
            let times: Vec<Duration> = served.iter().map(|said| said.took).collect();
            let (ms, computed) = (median_ms(&times), last.computed);
            println!(
                "| {} | llama-server --cache-reuse | {} | 0 | {computed} | | {ms:.0} | {:.1} | |",
                case.name,
                last.prompt.saturating_sub(computed),
                base / ms,
            );
        }
    }
    println!();
    pair.shutdown();
    Ok(missed)
}

impl Sample {
    fn add(&mut self, first: FirstToken) {
        self.times.push(first.took);
        self.processor += first.processor;
        self.counts = first.tokens;
    }

    /// Returns how many times sooner than `base` it is.
    fn print(&self, case: &str, name: &str, rounds: usize, base: f64, bar: Option<f64>) -> f64 {
        let ms = median_ms(&self.times);
        println!(
            "| {case} | {name} | {} | {} | {} | {:.1} | {ms:.0} | {:.1} | {} |",
            self.counts.moved,
            self.counts.repaired,
            self.counts.computed,
            self.processor.as_secs_f64() / rounds as f64,
            base / ms,
            bar.map_or_else(String::new, |bar| bar.to_string()),
        );
        base / ms
    }
}

fn bar(case: &str, shape: &Shape) -> Option<f64> {
    match case {
        "reversed" => shape.bar,
        NEW => Some(NEW_BAR),
        _ if case.starts_with("compacted") => Some(COMPACTED_BAR),
        _ => None,
    }
}
