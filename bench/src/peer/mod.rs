//! Time to the first token over HTTP: hobd beside llama-server.
//!
//! - Both serve the same file with the same threads and context, each with its own defaults otherwise;
//!   the other one sleeps meanwhile.
//! - A request asks for one token, so its answer's last byte is its first token's.
//! - The two take turns in each row of each round, the first of them alternates, and no text is used
//!   twice.

mod server;

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::Subject;
use crate::hobd::Hobd;
use crate::http::Answer;
use crate::measure::median_ms;
use server::LlamaServer;

#[derive(clap::Args)]
pub struct Options {
    /// Rounds; each figure is the median of as many samples.
    #[arg(long, default_value_t = 7)]
    rounds: usize,
    /// Words of the first prompt.
    #[arg(long, default_value_t = 400)]
    words: usize,
    /// Compute threads.
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// Measure this model, a path or `smollm2`, without bars; otherwise random weights in the shape of
    /// Qwen2.5-0.5B.
    #[arg(long, value_name = "PATH|NAME", env = "HOB_BENCH_MODEL")]
    model: Option<String>,
    /// Measure the cold prompt only.
    #[arg(long)]
    only_cold: bool,
}

/// Cells of both.
const CONTEXT: usize = 16_384;

/// Words of a question behind a prompt.
const QUESTION: usize = 12;

/// Conversations that are asked between two turns of one.
const OTHERS: usize = 5;

/// Maximum factor of a cold prompt against llama-server.
const COLD_BAR: f64 = 1.02;

/// What both are started with.
pub struct Start<'a> {
    pub directory: &'a Path,
    pub model: &'a Path,
    pub context: usize,
    pub threads: usize,
}

enum Peer {
    Hobd(Hobd),
    LlamaServer(LlamaServer),
}

/// A peer, and what it measured, by row.
struct Side {
    peer: Option<Peer>,
    samples: Vec<Vec<Duration>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Row {
    Cold,
    FollowUp,
    WarmPrefix,
    AfterOthers,
    AfterRestart,
}

impl Row {
    const ALL: [Self; 5] =
        [Self::Cold, Self::FollowUp, Self::WarmPrefix, Self::AfterOthers, Self::AfterRestart];

    fn title(self) -> &'static str {
        match self {
            Self::Cold => "cold",
            Self::FollowUp => "follow-up",
            Self::WarmPrefix => "new conversation, same instructions",
            Self::AfterOthers => "follow-up after 5 other conversations",
            Self::AfterRestart => "follow-up after a restart",
        }
    }
}

pub fn run(options: &Options) -> Result<()> {
    let subject = Subject::of(options.model.as_deref())?;
    let directory = tempfile::tempdir()?;
    let start = Start {
        directory: directory.path(),
        model: &subject.path,
        context: CONTEXT,
        threads: options.threads,
    };
    let mut sides = [true, false].map(|_| Side { peer: None, samples: vec![Vec::new(); 5] });
    for (index, side) in sides.iter_mut().enumerate() {
        side.restart(index, &start)?;
    }
    let mut tokens = 0;
    for round in 0..options.rounds {
        for turn in 0..2 {
            let index = (round + turn) % 2;
            tokens = sides[index].measure(index, round, &start, options)?;
        }
    }
    print(options, &subject.title, tokens, &sides)
}

impl Side {
    fn restart(&mut self, index: usize, start: &Start) -> Result<()> {
        match self.peer.take() {
            Some(Peer::Hobd(hobd)) => hobd.stop()?,
            Some(Peer::LlamaServer(server)) => drop(server),
            None => {}
        }
        let model = start.model.display().to_string();
        let (context, threads) = (start.context.to_string(), start.threads.to_string());
        self.peer = Some(if index == 0 {
            let flags = ["--model", &model, "--ctx", &context, "--threads", &threads];
            let mut hobd = Hobd::start(start.directory, flags)?;
            hobd.wait_until_ready()?;
            Peer::Hobd(hobd)
        } else {
            Peer::LlamaServer(LlamaServer::start(start)?)
        });
        // Unmeasured: the first micro-batches read the weights.
        self.ask(&format!("warm {index}"), &json!([message("user", &text(64, "warm"))])).map(drop)
    }

    /// All rows of a round. Returns the tokens of the cold prompt.
    fn measure(
        &mut self,
        index: usize,
        round: usize,
        start: &Start,
        options: &Options,
    ) -> Result<u64> {
        let name = |name: &str| format!("{name} {round} {index}");
        let instructions = message("system", &text(options.words, &name("instructions")));
        let question = |of: &str| message("user", &text(QUESTION, &name(of)));
        let mut chat = vec![instructions.clone(), question("first")];
        let (answer, tokens) = self.sample(Row::Cold, &name("chat"), &json!(chat))?;
        if options.only_cold {
            return Ok(tokens);
        }
        chat.extend([message("assistant", &answer), question("second")]);
        let (answer, _) = self.sample(Row::FollowUp, &name("chat"), &json!(chat))?;
        let other = json!([instructions, question("other")]);
        self.sample(Row::WarmPrefix, &name("other"), &other)?;
        for other in 0..OTHERS {
            let text = text(options.words / 2, &name(&format!("stranger {other}")));
            self.ask(&name(&format!("stranger {other}")), &json!([message("user", &text)]))?;
        }
        chat.extend([message("assistant", &answer), question("third")]);
        let (answer, _) = self.sample(Row::AfterOthers, &name("chat"), &json!(chat))?;
        self.restart(index, start)?;
        chat.extend([message("assistant", &answer), question("fourth")]);
        self.sample(Row::AfterRestart, &name("chat"), &json!(chat))?;
        Ok(tokens)
    }

    fn sample(&mut self, row: Row, name: &str, messages: &Value) -> Result<(String, u64)> {
        let (answer, took) = self.ask(name, messages)?;
        self.samples[row as usize].push(took);
        let text = answer["choices"][0]["message"]["content"].as_str().unwrap_or_default();
        let tokens = answer["usage"]["prompt_tokens"].as_u64().context("prompt_tokens")?;
        std::thread::sleep(Duration::from_millis(300)); // Hob saves behind the answer.
        Ok((text.to_owned(), tokens))
    }

    fn ask(&self, name: &str, messages: &Value) -> Result<(Value, Duration)> {
        let body = json!({"messages": messages, "max_tokens": 1, "temperature": 0});
        let path = "/v1/chat/completions";
        let Answer { body, took, .. } = match self.peer.as_ref().context("a peer runs")? {
            Peer::LlamaServer(server) => server.post(path, body.to_string().as_bytes())?,
            Peer::Hobd(hobd) => {
                let mut body = body;
                body["conversation"] = name.into();
                hobd.call("POST", path, &body)?
            }
        };
        let answer = serde_json::from_str(&body).with_context(|| format!("{path}: {body}"))?;
        Ok((answer, took))
    }
}

fn message(role: &str, content: &str) -> Value {
    json!({"role": role, "content": content})
}

/// So many words, which begin otherwise for each seed.
fn text(words: usize, seed: &str) -> String {
    const WORDS: [&str; 16] = [
        "river", "stone", "lamp", "north", "paper", "cloud", "seven", "garden", "engine", "salt",
        "window", "copper", "letter", "winter", "bridge", "field",
    ];
    let mut state = seed.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3) // FNV-1a.
    });
    let mut word = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        WORDS[(state >> 60) as usize]
    };
    (0..words).map(|_| word()).collect::<Vec<_>>().join(" ")
}

fn print(options: &Options, model: &str, tokens: u64, sides: &[Side; 2]) -> Result<()> {
    println!(
        "Time to the first token over HTTP, {model};\nprompts of {tokens} tokens, {} threads, medians of \
         {} rounds, interleaved.\n",
        options.threads, options.rounds
    );
    println!("| | hobd, ms | spread | llama-server, ms | spread | ratio | bar |");
    println!("|---|---:|---:|---:|---:|---:|---:|");
    let mut cold = 0.0;
    for row in Row::ALL {
        let [hobd, server] = [0, 1].map(|side: usize| &sides[side].samples[row as usize]);
        if hobd.is_empty() {
            continue;
        }
        let ratio = median_ms(hobd) / median_ms(server);
        let bar = if row == Row::Cold { format!("{COLD_BAR:.2}") } else { String::new() };
        println!(
            "| {} | {:.1} | {} | {:.1} | {} | {ratio:.2} | {bar} |",
            row.title(),
            median_ms(hobd),
            spread(hobd),
            median_ms(server),
            spread(server)
        );
        if row == Row::Cold {
            cold = ratio;
        }
    }
    let has_bars = options.model.is_none();
    ensure!(
        !has_bars || cold <= COLD_BAR,
        "missed: a cold prompt takes {cold:.3} x llama-server's"
    );
    Ok(())
}

/// The least and the most, in milliseconds.
fn spread(samples: &[Duration]) -> String {
    let ms = |sample: Option<&Duration>| sample.map_or(0.0, |it| it.as_secs_f64() * 1e3);
    format!("{:.0} to {:.0}", ms(samples.iter().min()), ms(samples.iter().max()))
}
