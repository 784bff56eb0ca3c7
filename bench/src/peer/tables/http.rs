//! What HTTP adds: hobd against its engine in this process, over the same file with the same settings.
//!
//! - The engine gets random tokens, as many as hobd's prompt has.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use hob_runtime::backend::llama::{LlamaModel, LlamaOptions};
use hob_runtime::{Engine, EngineOptions, Model};
use hob_slots::Token;
use serde_json::Value;

use crate::measure::time;
use crate::peer::bench::{Bench, Sheet, order};
use crate::peer::side::{Ask, Side};
use crate::peer::text::{message, text};
use crate::record::{Row, Unit, Who};
use crate::turns::{self, Words, request, settle};

/// Words of a prompt, and of a question behind it.
const WORDS: usize = 200;
const QUESTION: usize = 12;
/// Tokens of an answer.
const ANSWER: usize = 32;

/// Maximum ratio to the engine.
const BAR: f64 = 1.05;

pub fn measure(bench: &Bench) -> Result<Sheet> {
    let row = |key, title: &str| Row::lower(key, title, Unit::Ms).bar(BAR).against("its engine");
    let mut sheet = Sheet::new(
        "What HTTP adds",
        bench.rounds,
        vec![
            row("cold", "first token, cold"),
            row("follow-up", "first token of a follow-up"),
            row("answer", &format!("an answer of {ANSWER} tokens")),
        ],
    );
    let [mut side, _] = bench.sides("http")?;
    side.start_warm(&bench.setup)?;
    let llama = LlamaOptions { threads: bench.setup.threads, ..LlamaOptions::default() };
    let model: Arc<dyn Model> = Arc::new(LlamaModel::load(&bench.setup.model, llama)?);
    let mut words = Words::new(model.vocabulary().len());
    let options = EngineOptions { context_tokens: bench.setup.context, ..EngineOptions::default() };
    let engine = turns::start(model, &bench.directory.join("http/engine"), options)?;
    turns::ask(&engine, request("warm", &words.next(64), 1))?;
    // Unmeasured: all rounds have prompts of these lengths.
    let lengths = over_http(&side, "warm", bench)?.map(|step| step.prompt_tokens);
    for round in 0..bench.rounds {
        for index in order(round) {
            settle(&engine);
            let name = format!("chat {round}");
            let who = [Who::Hobd, Who::Other][index];
            let took = match who {
                Who::Hobd => over_http(&side, &name, bench)?.map(|step| step.ms),
                Who::Other => in_process(&engine, &name, lengths, &mut words)?,
            };
            for (key, ms) in ["cold", "follow-up", "answer"].into_iter().zip(took) {
                sheet.push(key, who, ms);
            }
        }
    }
    engine.shutdown();
    sheet.conditions = format!(
        "Prompts of {} to {} tokens; whole answers over a connection each, of one token and of {ANSWER}.",
        lengths[0], lengths[2]
    );
    Ok(sheet)
}

/// One request of a conversation.
struct Step {
    ms: f64,
    prompt_tokens: usize,
}

/// A cold prompt, a follow-up, and a follow-up with a longer answer.
fn over_http(side: &Side, name: &str, bench: &Bench) -> Result<[Step; 3]> {
    let mut chat: Vec<Value> = Vec::new();
    let mut say = |words: usize, max_tokens: usize| -> Result<Step> {
        let seed = format!("{name} {}", chat.len());
        chat.push(message("user", &text(bench.words(words), &seed)));
        let ask = Ask { max_tokens, ..Ask::one_token(name, &chat) };
        let said = side.ask(&ask)?;
        chat.push(message("assistant", &said.text));
        std::thread::sleep(Duration::from_millis(300)); // Hob saves behind the answer.
        let prompt_tokens = usize::try_from(said.prompt_tokens)?;
        Ok(Step { ms: said.took.as_secs_f64() * 1e3, prompt_tokens })
    };
    Ok([say(WORDS, 1)?, say(QUESTION, 1)?, say(QUESTION, ANSWER)?])
}

/// The same lengths, in milliseconds.
fn in_process(
    engine: &Engine,
    name: &str,
    lengths: [usize; 3],
    words: &mut Words,
) -> Result<[f64; 3]> {
    let mut timeline: Vec<Token> = Vec::new();
    let mut say = |length: usize, max_tokens: usize| -> Result<f64> {
        timeline.extend(words.next(length.saturating_sub(timeline.len()).max(1)));
        let (took, answer) = time(|| turns::ask(engine, request(name, &timeline, max_tokens)));
        timeline = answer?.1;
        settle(engine);
        Ok(took.as_secs_f64() * 1e3)
    };
    Ok([say(lengths[0], 1)?, say(lengths[1], 1)?, say(lengths[2], ANSWER)?])
}
