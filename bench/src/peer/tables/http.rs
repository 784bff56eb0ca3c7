//! What HTTP adds: hobd against its engine in this process, over the same file with the same settings.
//!
//! - The engine gets the tokens of hobd's cold prompts: both have computed the template's own system message in an
//!   earlier conversation, and reuse it. Questions behind them are random tokens, as many as hobd computed in the
//!   conversation that it answered last: one token more or less takes 1 % of a follow-up's time.
//! - Neither guesses tokens: the answers differ, and so does how often guesses are right.

use std::sync::Arc;

use anyhow::{Context, Result};
use hob_runtime::backend::llama::{LlamaModel, LlamaOptions};
use hob_runtime::{Engine, EngineOptions, Model};
use hob_slots::Token;
use serde_json::{Value, json};

use crate::measure::time;
use crate::peer::bench::{Bench, Sheet, order};
use crate::peer::setup::Setup;
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
    side.start_warm(&Setup { drafts: false, ..bench.setup.clone() })?;
    let llama = LlamaOptions { threads: bench.setup.threads, ..LlamaOptions::default() };
    let model: Arc<dyn Model> = Arc::new(LlamaModel::load(&bench.setup.model, llama)?);
    let mut words = Words::new(model.vocabulary().len());
    let context_tokens = bench.setup.context;
    let options = EngineOptions { context_tokens, drafts: false, ..EngineOptions::default() };
    let engine = turns::start(model, &bench.directory.join("http/engine"), options)?;
    turns::ask(&engine, request("warm", &words.next(64), 1))?;
    // Unmeasured: both sides have the template's beginning from it.
    let warm = over_http(&side, "warm", bench)?;
    let lengths = warm.map(|step| step.prompt_tokens);
    let mut newest = warm.map(|step| step.computed_tokens);
    let mut in_engine = |name: &str, side: &Side, computed: [usize; 3]| -> Result<[Step; 3]> {
        let (cold, [_, questions @ ..]) = (tokens_of(side, &opening(name, bench))?, computed);
        in_process(&engine, name, cold, questions, &mut words)
    };
    in_engine("warm", &side, newest)?;
    let mut computed = [[0; 3]; 2];
    for round in 0..bench.rounds {
        for index in order(round) {
            settle(&engine);
            let name = format!("chat {round}");
            let who = [Who::Hobd, Who::Other][index];
            let steps = match who {
                Who::Hobd => over_http(&side, &name, bench)?,
                Who::Other => in_engine(&name, &side, newest)?,
            };
            let counts = steps.map(|step| step.computed_tokens);
            if who == Who::Hobd {
                newest = counts;
            }
            for (sum, count) in computed[index].iter_mut().zip(counts) {
                *sum += count;
            }
            for (key, step) in ["cold", "follow-up", "answer"].into_iter().zip(steps) {
                sheet.push(key, who, step.ms);
            }
        }
    }
    engine.shutdown();
    let mean = |sum: usize| sum as f64 / bench.rounds as f64;
    let [hobd, engine] = computed.map(|sums| sums.map(mean));
    sheet.conditions = format!(
        "Prompts of {} to {} tokens; of a cold one hobd computes {:.1} on average, and its engine {:.1}, of a follow-up \
         {:.1} and {:.1}; whole answers over a connection each, of one token and of {ANSWER}.",
        lengths[0], lengths[2], hobd[0], engine[0], hobd[1], engine[1]
    );
    Ok(sheet)
}

/// One request of a conversation.
#[derive(Clone, Copy)]
struct Step {
    ms: f64,
    prompt_tokens: usize,
    /// Tokens of the prompt that were computed.
    computed_tokens: usize,
}

/// The first message of a conversation.
fn opening(name: &str, bench: &Bench) -> Value {
    message("user", &text(bench.words(WORDS), &format!("{name} 0")))
}

/// The prompt that hobd makes of a conversation's first message.
fn tokens_of(side: &Side, opening: &Value) -> Result<Vec<Token>> {
    let hobd = side.hobd()?;
    let rendered = hobd.post("/apply-template", &json!({"messages": [opening]}))?;
    let prompt = rendered["prompt"].as_str().with_context(|| format!("no prompt: {rendered}"))?;
    let answer = hobd.post("/tokenize", &json!({"content": prompt}))?;
    let tokens = answer["tokens"].as_array().with_context(|| format!("no tokens: {answer}"))?;
    let token = |token: &Value| Some(Token(i32::try_from(token.as_i64()?).ok()?));
    tokens.iter().map(token).collect::<Option<_>>().with_context(|| format!("tokens: {answer}"))
}

/// A cold prompt, a follow-up, and a follow-up with a longer answer.
fn over_http(side: &Side, name: &str, bench: &Bench) -> Result<[Step; 3]> {
    let mut chat: Vec<Value> = Vec::new();
    let mut say = |asked: Value, max_tokens: usize| -> Result<Step> {
        chat.push(asked);
        let ask = Ask { max_tokens, ..Ask::one_token(name, &chat) };
        let said = side.ask(&ask)?;
        chat.push(message("assistant", &said.text));
        side.saved_bytes()?; // As `settle` does of the engine: hobd saves behind the answer.
        Ok(Step {
            ms: said.took.as_secs_f64() * 1e3,
            prompt_tokens: usize::try_from(said.prompt_tokens)?,
            computed_tokens: usize::try_from(said.computed_tokens)?,
        })
    };
    let question =
        |number: usize| message("user", &text(bench.words(QUESTION), &format!("{name} {number}")));
    Ok([say(opening(name, bench), 1)?, say(question(1), 1)?, say(question(2), ANSWER)?])
}

/// Measures in the engine, without HTTP: a `cold` prompt, and follow-ups that compute as many tokens as `questions` says.
fn in_process(
    engine: &Engine,
    name: &str,
    cold: Vec<Token>,
    questions: [usize; 2],
    words: &mut Words,
) -> Result<[Step; 3]> {
    let mut timeline = cold;
    let mut say = |added: usize, max_tokens: usize| -> Result<Step> {
        timeline.extend(words.next(added));
        let (took, answer) = time(|| turns::ask(engine, request(name, &timeline, max_tokens)));
        let (report, whole) = answer?;
        let prompt_tokens = timeline.len();
        timeline = whole;
        settle(engine);
        let computed_tokens = report.tokens.computed;
        Ok(Step { ms: took.as_secs_f64() * 1e3, prompt_tokens, computed_tokens })
    };
    Ok([say(0, 1)?, say(questions[0], 1)?, say(questions[1], ANSWER)?])
}
