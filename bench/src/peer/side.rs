//! One of the two: starts, answers, ends, and what can be read of it from outside.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicUsize;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::server::{self, LlamaServer};
use super::setup::Setup;
use super::stream::{Arrivals, stream};
use super::text::{message, text};
use crate::hobd::{Access, Hobd};
use crate::http;
use crate::measure::bytes_below;
use crate::record::Who;

/// hobd's metric of what it has written.
const WRITTEN: &str = "hob_disk_written_bytes_total";

const CHAT: &str = "/v1/chat/completions";

/// Maximum time until a server that is idle has freed its weights.
const PATIENCE: Duration = Duration::from_secs(60);

enum Peer {
    Hobd(Hobd),
    LlamaServer(LlamaServer),
}

/// A server, or none yet, over a directory of its own.
pub struct Side {
    pub who: Who,
    directory: PathBuf,
    peer: Option<Peer>,
    /// By llama-server.
    written_bytes: u64,
}

/// A request for an answer.
#[derive(Clone)]
pub struct Ask<'a> {
    /// Names the conversation for hobd.
    pub conversation: &'a str,
    pub messages: &'a [Value],
    pub max_tokens: usize,
    /// Pins the request for llama-server.
    pub slot: Option<usize>,
}

pub struct Answer {
    pub text: String,
    /// From the connection to the last byte: with one token, the time of the first.
    pub took: Duration,
    pub prompt_tokens: u64,
    /// Tokens of the prompt that were computed.
    pub computed_tokens: u64,
}

impl Ask<'_> {
    pub fn one_token<'a>(conversation: &'a str, messages: &'a [Value]) -> Ask<'a> {
        Ask { conversation, messages, max_tokens: 1, slot: None }
    }
}

impl Side {
    pub fn new(who: Who, directory: &Path) -> Result<Self> {
        let directory = directory.join(match who {
            Who::Hobd => "hobd",
            Who::Other => "llama-server",
        });
        fs::create_dir_all(&directory)?;
        Ok(Self { who, directory, peer: None, written_bytes: 0 })
    }

    /// Both, in the order in which a round asks them.
    pub fn pair(directory: &Path) -> Result<[Self; 2]> {
        Ok([Self::new(Who::Hobd, directory)?, Self::new(Who::Other, directory)?])
    }

    /// Ends it if it runs, and starts it. Returns the time from the start of the process until it is ready.
    pub fn start(&mut self, setup: &Setup) -> Result<Duration> {
        self.stop()?;
        let began = Instant::now();
        self.peer = Some(match self.who {
            Who::Hobd => {
                let mut hobd = Hobd::start(&self.directory, setup.hobd_flags())?;
                hobd.wait_until_ready()?;
                while is_loading(&hobd)? {
                    std::thread::sleep(Duration::from_millis(5));
                }
                Peer::Hobd(hobd)
            }
            Who::Other => Peer::LlamaServer(LlamaServer::start(&self.directory, setup)?),
        });
        Ok(began.elapsed())
    }

    /// Starts the server and sends an unmeasured request: the first micro-batches read the weights.
    pub fn start_warm(&mut self, setup: &Setup) -> Result<()> {
        self.start(setup)?;
        let warm = [message("user", &text(64, "warm"))];
        self.ask(&Ask::one_token("warm", &warm)).map(drop)
    }

    /// hobd saves what is not saved yet.
    pub fn stop(&mut self) -> Result<()> {
        match self.peer.take() {
            Some(Peer::Hobd(hobd)) => hobd.stop(),
            Some(Peer::LlamaServer(server)) => {
                drop(server);
                Ok(())
            }
            None => Ok(()),
        }
    }

    pub fn ask(&self, ask: &Ask) -> Result<Answer> {
        let body = self.body(ask, json!({"temperature": 0}));
        let answer = match self.peer()? {
            Peer::Hobd(hobd) => hobd.call("POST", CHAT, &body)?,
            Peer::LlamaServer(server) => server.post(CHAT, &body)?,
        };
        let said: Value = serde_json::from_str(&answer.body)
            .with_context(|| format!("{CHAT}: {}", answer.body))?;
        let number = |value: &Value| value.as_u64().with_context(|| format!("in {said}"));
        let computed = match self.who {
            Who::Hobd => &said["hob"]["tokens"]["computed"],
            Who::Other => &said["timings"]["prompt_n"],
        };
        let text = said["choices"][0]["message"]["content"].as_str().unwrap_or_default();
        Ok(Answer {
            text: text.to_owned(),
            took: answer.took,
            prompt_tokens: number(&said["usage"]["prompt_tokens"])?,
            computed_tokens: number(computed)?,
        })
    }

    /// Sampled as llama-server does by default; both get it said.
    pub fn stream(&self, ask: &Ask, seed: usize, seen: &AtomicUsize) -> Result<Arrivals> {
        let sampling = json!({
            "stream": true, "ignore_eos": true, "temperature": 0.8, "top_k": 40, "top_p": 0.95,
            "min_p": 0.05, "seed": seed,
        });
        let body = self.body(ask, sampling);
        match self.peer()? {
            Peer::Hobd(hobd) => {
                let Access { address, token } = hobd.access()?;
                stream(&address, Some(&token), &body, seen)
            }
            Peer::LlamaServer(server) => stream(&server.address, None, &body, seen),
        }
    }

    fn body(&self, ask: &Ask, mut body: Value) -> Value {
        body["messages"] = ask.messages.into();
        body["max_tokens"] = ask.max_tokens.into();
        match self.who {
            Who::Hobd => body["conversation"] = ask.conversation.into(),
            Who::Other => {
                if let Some(slot) = ask.slot {
                    body["id_slot"] = slot.into();
                }
            }
        }
        body
    }

    /// Waits until it has freed its weights.
    pub fn wait_until_unloaded(&self) -> Result<()> {
        let began = Instant::now();
        loop {
            let is_unloaded = match self.peer()? {
                Peer::Hobd(hobd) => health(hobd)? == "unloaded",
                Peer::LlamaServer(server) => server.sleeps()?,
            };
            if is_unloaded {
                return Ok(());
            }
            ensure!(began.elapsed() < PATIENCE, "{} does not free its weights", self.name());
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Has llama-server save this slot under this name; hobd saves by itself.
    pub fn save(&mut self, slot: usize, name: &str) -> Result<()> {
        let Peer::LlamaServer(server) = self.peer()? else { return Ok(()) };
        let answer =
            server.post(&format!("/slots/{slot}?action=save"), &json!({"filename": name}))?;
        let saved: Value = serde_json::from_str(&answer.body)?;
        let bytes = saved["n_written"].as_u64().with_context(|| format!("n_written in {saved}"))?;
        self.written_bytes += bytes;
        Ok(())
    }

    /// The bytes on disk, once all is written.
    pub fn saved_bytes(&self) -> Result<u64> {
        match self.peer()? {
            Peer::Hobd(_) => self.settled_bytes(),
            Peer::LlamaServer(_) => bytes_below(&server::saved(&self.directory)),
        }
    }

    /// The bytes that it has written since it was started.
    pub fn written_bytes(&self) -> Result<u64> {
        let Peer::Hobd(hobd) = self.peer()? else { return Ok(self.written_bytes) };
        let metrics = hobd.call("GET", "/metrics", &Value::Null)?.body;
        let line = metrics.lines().find(|line| line.starts_with(WRITTEN));
        let bytes = line.and_then(|line| line.rsplit(' ').next()?.parse().ok());
        bytes.with_context(|| format!("/metrics has no {WRITTEN}"))
    }

    /// hobd writes behind the answer.
    fn settled_bytes(&self) -> Result<u64> {
        let slots = self.directory.join("data/slots");
        let mut before = bytes_below(&slots)?;
        loop {
            std::thread::sleep(Duration::from_millis(300));
            let now = bytes_below(&slots)?;
            if now == before {
                return Ok(now);
            }
            before = now;
        }
    }

    pub fn hobd(&self) -> Result<&Hobd> {
        match self.peer()? {
            Peer::Hobd(hobd) => Ok(hobd),
            Peer::LlamaServer(_) => anyhow::bail!("only hobd can do this"),
        }
    }

    /// The id of its process.
    pub fn id(&self) -> Result<String> {
        Ok(match self.peer()? {
            Peer::Hobd(hobd) => hobd.id(),
            Peer::LlamaServer(server) => server.id(),
        })
    }

    pub fn name(&self) -> &'static str {
        match self.who {
            Who::Hobd => "hobd",
            Who::Other => "llama-server",
        }
    }

    fn peer(&self) -> Result<&Peer> {
        self.peer.as_ref().context("no server runs")
    }
}

fn is_loading(hobd: &Hobd) -> Result<bool> {
    Ok(health(hobd)? == "loading")
}

fn health(hobd: &Hobd) -> Result<String> {
    let Access { address, .. } = hobd.access()?;
    let answer = http::exchange(&address, "GET", "/health", None, b"")?;
    let health: Value = serde_json::from_str(&answer.body).context("/health")?;
    health["status"].as_str().map(str::to_owned).context("/health without a status")
}
