//! A document that was read before a restart: the time to the first token of a question about it, against
//! the same question computed cold. And the time of a list of documents, the second against the first.
//!
//! A built hobd. Each round starts it anew over what was saved. A question in a new chat restores the
//! document from disk; the same question with `hob.cold` computes the whole prompt. So that a round
//! takes minutes and not hours, only the first rounds measure cold.

use std::fmt::Write;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::bars::{BarFlags, is_below};
use crate::hobd::Hobd;
use crate::measure::median_ms;
use crate::{Subject, SubjectFlags};

#[derive(clap::Args)]
pub struct Options {
    /// Tokens of the documents, about.
    #[arg(long, value_delimiter = ',', default_values_t = [1000, 7000])]
    tokens: Vec<usize>,
    /// Rounds; each figure is the median of as many samples.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Rounds that measure cold, too.
    #[arg(long, default_value_t = 2)]
    cold_rounds: usize,
    /// Documents of the list.
    #[arg(long, default_value_t = 200)]
    listed: usize,
    #[command(flatten)]
    subject: SubjectFlags,
    #[command(flatten)]
    bars: BarFlags,
}

/// Minimum speed-up against cold.
const COLD_BAR: f64 = 10.0;
/// Minimum speed-up of a list against the first one, which tokenizes every text.
const LIST_BAR: f64 = 3.0;
/// Tokens of each listed document, about.
const LISTED_TOKENS: usize = 2000;

/// Room for the largest document, the question and the answer.
const CONTEXT: &str = "8192";

pub fn run(options: &Options) -> Result<()> {
    let subject = Subject::of(options.subject.model.as_deref())?;
    let has_bars = options.subject.model.is_none();
    println!(
        "Time to first token of a question about a document that was read before, {}.\nMedians of \
         {} rounds, each after a restart of hobd.\n",
        subject.title, options.rounds
    );
    println!("| tokens of the document | cold, ms | from disk, ms | x faster than cold | bar |");
    println!("|---:|---:|---:|---:|---:|");
    let bar = |bar: f64| if has_bars { format!("{bar:.0}") } else { String::new() };
    let mut missed = Vec::new();
    for &tokens in &options.tokens {
        let AnswerTimes { tokens, cold_ms, disk_ms } = ask_all(&subject, tokens, options)?;
        let factor = cold_ms / disk_ms;
        println!("| {tokens} | {cold_ms:.1} | {disk_ms:.1} | {factor:.0} | {} |", bar(COLD_BAR));
        if is_below(factor, COLD_BAR) {
            missed.push(format!("{tokens} tokens: {factor:.1} x faster than cold"));
        }
    }
    let ListTimes { added_ms, list_ms } = list_all(&subject, options.listed)?;
    let factor = added_ms / list_ms;
    println!(
        "\nA list of {} documents of {LISTED_TOKENS} tokens: {list_ms:.1} ms. The first list under other \
         instructions, which tokenizes\nevery text: {added_ms:.1} ms, {factor:.0} x{}.",
        options.listed,
        if has_bars { format!(" (bar {LIST_BAR:.0})") } else { String::new() }
    );
    if is_below(factor, LIST_BAR) {
        missed.push(format!("a list: {factor:.1} x faster than the first"));
    }
    options.bars.check_on(options.subject.model.as_deref(), &missed)
}

struct AnswerTimes {
    tokens: u64,
    cold_ms: f64,
    disk_ms: f64,
}

fn ask_all(subject: &Subject, tokens: usize, options: &Options) -> Result<AnswerTimes> {
    let directory = tempfile::tempdir()?;
    let model = subject.path.display().to_string();
    let start = || -> Result<Hobd> {
        let mut hobd = Hobd::start(directory.path(), ["--model", &model, "--ctx", CONTEXT])?;
        hobd.wait_until_ready()?;
        Ok(hobd)
    };
    let hobd = start()?;
    let text = text(&hobd, tokens)?;
    let document = hobd.upload("/v1/documents?name=castle.txt", text.as_bytes())?;
    let id = document["id"].as_str().context("the id of the document")?;
    hobd.call("POST", &format!("/v1/documents/{id}/read"), &Value::Null)?;
    let tokens = document["tokens"].as_u64().context("its tokens")?;
    hobd.stop()?;

    let (mut cold, mut disk) = (Vec::new(), Vec::new());
    for round in 0..options.rounds {
        let hobd = start()?;
        // Another question each time: no answer before has computed it.
        let question = format!("In which year had it {} doors?", round * 7 + 7);
        let answer = ask(&hobd, id, &question, false)?;
        let from_disk = answer["hob"]["tokens"]["disk"].as_u64().context("from disk")?;
        ensure!(from_disk >= tokens, "the document is restored: {answer}");
        disk.push(first_token(&answer)?);
        if round < options.cold_rounds.max(1) {
            let answer = ask(&hobd, id, &question, true)?;
            let computed = answer["hob"]["tokens"]["computed"].as_u64().context("computed")?;
            ensure!(computed > tokens, "cold computes everything: {answer}");
            cold.push(first_token(&answer)?);
        }
        hobd.stop()?;
    }
    Ok(AnswerTimes { tokens, cold_ms: median_ms(&cold), disk_ms: median_ms(&disk) })
}

/// Lines that all differ, of about this many tokens.
fn text(hobd: &Hobd, tokens: usize) -> Result<String> {
    let line = |n: usize| format!("In the year {n} the castle had {} doors and a tower.\n", n * 7);
    let sample: String = (1000..1050).map(line).collect();
    let lines = tokens * 50 / hobd.count_tokens(&sample)?.max(1);
    Ok((1000..1000 + lines.max(1)).map(line).collect())
}

fn ask(hobd: &Hobd, id: &str, question: &str, cold: bool) -> Result<Value> {
    let message = json!({"role": "user", "content": question, "hob": {"documents": [id]}});
    let body = json!({"max_tokens": 1, "hob": {"cold": cold}, "messages": [message]});
    hobd.post("/v1/chat/completions", &body)
}

fn first_token(answer: &Value) -> Result<Duration> {
    let ms = answer["hob"]["ttft_ms"].as_f64().context("the time to the first token")?;
    Ok(Duration::from_secs_f64(ms / 1e3))
}

struct ListTimes {
    /// Time of the first list under a profile.
    added_ms: f64,
    list_ms: f64,
}

fn list_all(subject: &Subject, documents: usize) -> Result<ListTimes> {
    let directory = tempfile::tempdir()?;
    let profiles = directory.path().join("profiles");
    std::fs::create_dir_all(&profiles)?;
    std::fs::write(
        profiles.join("clerk.toml"),
        "[[segment]]\nlayer = 'rules'\ntext = 'Be brief.'\n",
    )?;
    let model = subject.path.display().to_string();
    let profiles = profiles.display().to_string();
    let arguments = ["--model", &model, "--ctx", CONTEXT, "--profiles-dir", &profiles];
    let mut hobd = Hobd::start(directory.path(), arguments)?;
    hobd.wait_until_ready()?;
    let body = text(&hobd, LISTED_TOKENS)?;
    for n in 0..documents {
        let mut text = format!("Castle {n}.\n");
        write!(text, "{body}")?;
        hobd.upload(&format!("/v1/documents?name=castle-{n}.txt"), text.as_bytes())?;
    }
    let list = || -> Result<Duration> {
        let answer = hobd.call("GET", "/v1/documents?profile=clerk", &Value::Null)?;
        let list: Value = serde_json::from_str(&answer.body)?;
        let length = list["data"].as_array().map_or(0, Vec::len);
        ensure!(length == documents, "{length} documents are listed");
        Ok(answer.took)
    };
    let first = list()?;
    let again = (0..15).map(|_| list()).collect::<Result<Vec<_>>>()?;
    Ok(ListTimes { added_ms: median_ms(&[first]), list_ms: median_ms(&again) })
}
