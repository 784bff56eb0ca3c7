//! Time to the first token.

use std::time::Duration;

use anyhow::Result;
use hob_runtime::TokenCounts;
use hob_slots::Token;
use hob_slots::content::Repair;

use super::pair::{FirstToken, Pair};
use super::server::{Answer, Server};
use super::{
    COMPACTED_BAR, Case, NEW_BAR, Options, PUBLISHED, Part, QUESTION, Shape, arms, cases,
    is_default,
};
use crate::Subject;
use crate::bars::is_below;
use crate::measure::median_ms;
use crate::turns::Words;

/// Words of a long document.
const LONG: usize = 2000;

/// Minimum speed-up of the default strategy where four long documents are reversed.
const LONG_BAR: f64 = 40.0;

/// Tokens of documents of different lengths.
const MIXED: [usize; 8] = [512, 1024, 256, 768, 384, 896, 320, 640];

/// Minimum speed-up of the default strategy where eight documents are reversed.
const SHORT_BAR: f64 = 10.0;

/// A call of an agent before a file, in tokens.
const CALL: usize = 12;

/// The case in which nothing can be reused.
const NEW: &str = "all new";

/// The samples of one arm over all rounds.
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
    let equal = |documents, tokens, bar| Shape::new(vec![tokens; documents], bar);
    if options.published {
        let of_prototype = |(words, sooner): &(usize, f64)| Shape {
            published: Some(*sooner),
            ..equal(4, words * 13 / 10, (*words == LONG).then_some(LONG_BAR))
        };
        return PUBLISHED.iter().map(of_prototype).collect();
    }
    vec![if options.long {
        equal(4, LONG * 13 / 10, Some(LONG_BAR))
    } else if options.mixed {
        Shape::new(MIXED.to_vec(), Some(SHORT_BAR))
    } else {
        equal(options.documents, options.tokens, Some(SHORT_BAR))
    }]
}

fn of_shape(options: &Options, shape: &Shape) -> Result<Vec<String>> {
    let mut comparison = Comparison::start(options, shape)?;
    println!(
        "First token of {} documents of {} tokens at other places, {}; {} threads; medians of {} rounds.\n",
        shape.lengths.len(),
        shape.tokens(),
        comparison.pair.title(),
        comparison.pair.threads,
        options.rounds
    );
    Pair::print_head();
    let mut missed = Vec::new();
    for case in compared_cases(options, shape) {
        missed.extend(comparison.of_case(&case)?);
    }
    println!();
    comparison.pair.shutdown();
    Ok(missed)
}

fn compared_cases(options: &Options, shape: &Shape) -> Vec<Case> {
    let mut cases = cases(shape.lengths.len());
    cases.push(Case { name: NEW, order: vec![Part::New(1); shape.lengths.len()] });
    if shape.published.is_some() {
        cases.truncate(1);
    }
    cases.retain(|case| options.case.as_deref().is_none_or(|wanted| case.name.starts_with(wanted)));
    cases
}

/// The engines, which have read the documents in their order, and the words of prompts.
struct Comparison<'o> {
    options: &'o Options,
    shape: &'o Shape,
    pair: Pair,
    server: Option<Server>,
    words: Words,
    texts: Vec<Vec<Token>>,
    /// The prompt with the documents in their order.
    source: Vec<Token>,
}

impl<'o> Comparison<'o> {
    fn start(options: &'o Options, shape: &'o Shape) -> Result<Self> {
        let lengths = &shape.lengths;
        let subject = Subject::of(options.model.as_deref())?;
        let pair = Pair::new(options, subject, (lengths.iter().sum::<usize>() + shape.mean()) * 3)?;
        let mut words = Words::new(pair.vocabulary());
        let texts: Vec<Vec<Token>> = lengths.iter().map(|tokens| words.next(*tokens)).collect();
        let (server, source) = (None, Vec::new());
        let mut comparison = Self { options, shape, pair, server, words, texts, source };
        let order: Vec<Part> = (0..lengths.len()).map(Part::Known).collect();
        comparison.source = comparison.prompt(&order);
        let Self { pair, source, .. } = &comparison;
        pair.read("source", source)?;
        let shortest = shape.lengths.iter().min().copied().unwrap_or(0);
        comparison.server = Server::start(&pair.subject, pair.threads, source.len() * 2, shortest)?;
        Ok(comparison)
    }

    fn prompt(&mut self, order: &[Part]) -> Vec<Token> {
        let mut prompt = self.words.next(8); // So that nothing of an earlier prompt is its beginning.
        for part in order {
            match part {
                Part::Known(number) => prompt.extend(&self.texts[*number]),
                Part::New(part) => prompt.extend(self.words.next(self.shape.mean() / part)),
                Part::Call => prompt.extend(self.words.next(CALL)),
            }
        }
        prompt.extend(self.words.next(QUESTION));
        prompt
    }

    /// Prints a row for each arm. Returns the bars that were missed.
    fn of_case(&mut self, case: &Case) -> Result<Vec<String>> {
        let options = self.options;
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
            let prompt = self.prompt(&case.order);
            exact.add(self.pair.exact("exact", &prompt)?);
            for ((name, repair), sample) in arms.iter().zip(&mut moved) {
                let name = format!("arm-{round}-{name}");
                let prompt = self.prompt(&case.order);
                sample.add(self.pair.moved(&name, &prompt, *repair)?);
            }
            let prompt = self.server.is_some().then(|| self.prompt(&case.order));
            if let (Some(server), Some(prompt)) = (&self.server, prompt) {
                server.ask(&self.source)?;
                served.push(server.ask(&prompt)?);
            }
        }
        let mut missed = Vec::new();
        let base = median_ms(&exact.times);
        exact.print(case.name, "exact", options.rounds, base, None);
        for ((name, repair), sample) in arms.iter().zip(&moved) {
            let bar = bar(case.name, self.shape).filter(|_| is_default(*repair));
            let sooner = sample.print(case.name, name, options.rounds, base, bar);
            if let Some(bar) = bar.filter(|bar| is_below(sooner, *bar)) {
                missed.push(format!("{} with {name}: {sooner:.1} x of {bar}", case.name));
            }
        }
        if let Some(published) = self.shape.published {
            println!(
                "| {} | mistral.rs' prototype, published | | | | | | {published} | |",
                case.name
            );
        }
        print_served(case.name, &served, base);
        Ok(missed)
    }
}

/// `base`: milliseconds of the exact answer.
fn print_served(case: &str, served: &[Answer], base: f64) {
    let Some(last) = served.last() else { return };
    let times: Vec<Duration> = served.iter().map(|answer| answer.took).collect();
    let (ms, computed) = (median_ms(&times), last.computed);
    println!(
        "| {case} | llama-server --cache-reuse | {} | 0 | {computed} | | {ms:.0} | {:.1} | |",
        last.prompt.saturating_sub(computed),
        base / ms,
    );
}

impl Shape {
    fn new(lengths: Vec<usize>, bar: Option<f64>) -> Self {
        Self { lengths, bar, published: None }
    }

    /// Tokens of a document, for a title.
    fn tokens(&self) -> String {
        let [least, most] = [self.lengths.iter().min(), self.lengths.iter().max()]
            .map(|it| it.copied().unwrap_or(0));
        if least == most { least.to_string() } else { format!("{least} to {most}") }
    }

    /// Tokens of a document in the mean.
    fn mean(&self) -> usize {
        self.lengths.iter().sum::<usize>() / self.lengths.len().max(1)
    }
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
