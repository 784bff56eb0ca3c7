//! How many greedy answers with drafts are those without, token by token.
//!
//! - Three engines over the same weights answer the same prompts: with drafts, without, and once more without.
//!   The last is the measure: what differs there does so for reasons other than drafts.
//! - The prompts ask for a text again, so that much is drafted and right for a while.
//! - Where an answer first differs, the margin is how much likelier the token without drafts was than
//!   the other one, by the engine without.

use std::sync::Arc;

use anyhow::{Result, bail, ensure};
use hob_runtime::{DraftCounts, Engine, EngineOptions, Logprobs, Model, TurnEvent, TurnRequest};
use hob_slots::Token;
use tempfile::TempDir;

use super::with_those_of_heads;
use crate::turns::{request, start};

const TOPICS: [&str; 8] = [
    "the harbour master writes the names of the boats into a long green book",
    "a baker on the hill counts loaves before the bells of the town begin to ring",
    "the train to the coast leaves at seven and stops in every village on its way",
    "our neighbour repairs clocks, and each of them shows another time of the day",
    "in the garden behind the school grow beans, onions and three kinds of mint",
    "the letter said that the bridge will be closed until the river has gone down",
    "two engineers measured the old tower and found that it leans to the north",
    "she keeps the seeds of last summer in small jars with the year on the lid",
];

/// The prompts that are answered.
#[derive(Clone, Copy)]
pub struct Prompts {
    /// One for each answer.
    pub answers: usize,
    /// Words of the shortest text that one shows.
    pub shown: usize,
    /// Tokens of an answer.
    pub tokens: usize,
}

/// How alike the answers of two engines are.
#[derive(Default)]
struct Likeness {
    equal: usize,
    answers: usize,
    /// The largest margin of a first difference.
    margin: f32,
}

struct Answer {
    tokens: Vec<Token>,
    logprobs: Vec<Logprobs>,
    drafts: DraftCounts,
}

/// Prints a row for the model. Returns how many answers with drafts differ, and how many without do.
pub fn compare(name: &str, model: &Arc<dyn Model>, prompts: Prompts) -> Result<(usize, usize)> {
    let Prompts { answers, shown: words, tokens } = prompts;
    let start_with = |drafts| -> Result<(Engine, TempDir)> {
        let directory = tempfile::tempdir()?;
        let options = EngineOptions { drafts, ..EngineOptions::default() };
        Ok((start(model.clone(), directory.path(), options)?, directory))
    };
    let (without, _directory) = start_with(false)?;
    let mut engines = Vec::new();
    for drafts in [true, false] {
        engines.push((start_with(drafts)?, Likeness::default()));
    }
    let mut counts = DraftCounts::default();
    for number in 0..answers {
        let prompt = model.tokenize(&shown(words, number), true, true);
        let request = request(&format!("answer-{number}"), &prompt, tokens);
        let request = TurnRequest { logprobs: Some(4), ..request };
        let expected = answer(&without, &request)?;
        for (at, ((engine, _), likeness)) in engines.iter_mut().enumerate() {
            let said = answer(engine, &request)?;
            likeness.add(&expected, &said);
            if at == 0 {
                counts += said.drafts;
            }
        }
        let equal: Vec<usize> = engines.iter().map(|(_, likeness)| likeness.equal).collect();
        eprintln!("{name}: answer {number}: {equal:?} equal");
    }
    let told: Vec<String> = engines.iter().map(|(_, likeness)| likeness.told()).collect();
    let drafted = with_those_of_heads(counts.drafted, counts.mtp_drafted);
    let accepted = with_those_of_heads(counts.accepted, counts.mtp_accepted);
    println!("| {name} | {answers} x {tokens} | {} | {drafted} | {accepted} |", told.join(" | "));
    let differ = |at: usize| answers - engines[at].1.equal;
    let differ = (differ(0), differ(1));
    for ((engine, _), _) in engines {
        engine.shutdown();
    }
    without.shutdown();
    Ok(differ)
}

pub fn print_heading() {
    println!(
        "| greedy answers | tokens | equal with drafts | once more without drafts | drafted | accepted |"
    );
    println!("|---|---|---|---|---:|---:|");
}

impl Likeness {
    fn add(&mut self, expected: &Answer, said: &Answer) {
        self.answers += 1;
        if expected.tokens == said.tokens {
            self.equal += 1;
            return;
        }
        let mut pairs = expected.tokens.iter().zip(&said.tokens);
        let Some(at) = pairs.position(|(one, other)| one != other) else {
            self.margin = f32::INFINITY; // One of them ends earlier.
            return;
        };
        let likely = &expected.logprobs[at];
        let other = likely.top.iter().find(|token| token.token == said.tokens[at]);
        let margin = other.map_or(f32::INFINITY, |it| likely.chosen.logprob - it.logprob);
        self.margin = self.margin.max(margin);
    }

    fn told(&self) -> String {
        let Self { equal, answers, margin } = self;
        if equal == answers {
            return format!("{equal} of {answers}");
        }
        format!("{equal} of {answers} (margins up to {margin:.3})")
    }
}

fn answer(engine: &Engine, request: &TurnRequest) -> Result<Answer> {
    let mut turn = engine.submit(request.clone())?;
    let (mut tokens, mut all) = (Vec::new(), Vec::new());
    while let Some(event) = turn.next_blocking() {
        match event {
            TurnEvent::Progress(_) | TurnEvent::Moved(_) | TurnEvent::Started(_) => {}
            TurnEvent::Token { token, logprobs, .. } => {
                tokens.push(token);
                all.extend(logprobs);
            }
            TurnEvent::Finished { drafts, .. } => {
                ensure!(all.len() == tokens.len(), "each token has log-probabilities");
                return Ok(Answer { tokens, logprobs: all, drafts });
            }
            TurnEvent::Failed(error) => bail!(error),
        }
    }
    bail!("the engine stopped")
}

/// A prompt that shows a text and asks for it again.
fn shown(words: usize, number: usize) -> String {
    let text = (0..).flat_map(|turn: usize| {
        let topic = TOPICS[(number + turn * (number % 3 + 1)) % TOPICS.len()];
        topic.split(' ').chain(std::iter::once("and then"))
    });
    let text: Vec<&str> = text.take(words + number % 7 * 20).collect();
    format!(
        "<|im_start|>user\nNote {number}: {}.\nRepeat the note, then write what happens next.<|im_end|>\n\
         <|im_start|>assistant\n",
        text.join(" ")
    )
}
