//! One client of a long run: one request after the other, of every protocol, about conversations of its own.
//!
//! - A conversation has [`TURNS`] turns; then it is deleted and begins anew. So text and KV have a bound, and what
//!   grows beyond it is a leak.
//! - Turns come by different protocols, some are left in the middle, and between them clients read, type and speak.

use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use serde_json::{Value, json};
use tungstenite::client::IntoClientRequest;
use tungstenite::{Message, WebSocket};

use crate::hobd::Access;
use crate::stream::{Ask, TimedResponse};

/// Turns of a conversation, until it is deleted.
pub const TURNS: usize = 6;
const ANSWER_TOKENS: usize = 24;
/// Maximum silence of a WebSocket.
const PATIENCE: Duration = Duration::from_secs(60);

/// Requests to one daemon.
struct Daemon(Access);

/// What became of one request.
#[derive(Debug)]
pub enum Outcome {
    /// A turn, and the time to its first text.
    Turn(Duration),
    /// Something else that was answered.
    Answered,
    /// 503: busy.
    Refused,
    Failed(String),
}

pub struct Client {
    pub access: Access,
    pub conversations: Vec<usize>,
    /// Between the beginnings of two requests, unless one takes longer.
    pub every: Duration,
    pub seed: u64,
}

impl Client {
    /// Sends until `ends`. Goes through its conversations in order, so that each rests equally long.
    pub fn run(self, ends: &AtomicBool, outcomes: &Sender<Outcome>) {
        let mut random = Random(self.seed);
        let daemon = Daemon(self.access);
        // The first lives are cut short differently, so that deletions are spread over time.
        let mut turns: Vec<usize> = self.conversations.iter().map(|name| name % TURNS).collect();
        let mut next = Instant::now();
        while !ends.load(Ordering::Relaxed) {
            for (&number, turn) in self.conversations.iter().zip(&mut turns) {
                if ends.load(Ordering::Relaxed) {
                    return;
                }
                thread::sleep(next.saturating_duration_since(Instant::now()));
                next = Instant::now().max(next) + self.every.mul_f64(random.part() * 2.0);
                let name = format!("soak-{number}");
                let outcome = if *turn == TURNS {
                    *turn = 0;
                    daemon.request("DELETE", &format!("/v1/conversations/{name}"), &json!({}))
                } else {
                    *turn += 1;
                    daemon.act(&name, *turn, &mut random)
                };
                let outcome = outcome.unwrap_or_else(|error| Outcome::Failed(format!("{error:#}")));
                if outcomes.send(outcome).is_err() {
                    return;
                }
            }
        }
    }
}

impl Daemon {
    /// One turn of the conversation, or something beside it.
    fn act(&self, name: &str, turn: usize, random: &mut Random) -> Result<Outcome> {
        let text =
            format!("Say this: {name} has turn {turn}, {}", "and the kettle boils ".repeat(8));
        let messages = json!([{"role": "user", "content": text}]);
        let body = json!({
            "conversation": name, "hob": {"append": true}, "temperature": 0, "messages": messages,
            "max_tokens": ANSWER_TOKENS, "stream": true,
        });
        match random.below(20) {
            0..=6 => self.turn("/v1/chat/completions", &body, r#""delta":{"content""#),
            7 => {
                let mut body = body;
                body["stream"] = false.into();
                self.turn("/v1/chat/completions", &body, r#""content""#)
            }
            8..=10 => self.turn("/v1/messages", &body, "text_delta"),
            11..=13 => {
                let body = json!({
                    "conversation": name, "input": text, "max_output_tokens": ANSWER_TOKENS,
                    "stream": true, "temperature": 0,
                });
                self.turn("/v1/responses", &body, "response.output_text.delta")
            }
            14 | 15 => {
                let options = json!({"temperature": 0, "num_predict": ANSWER_TOKENS});
                let body = json!({"model": "any", "messages": messages, "options": options});
                self.turn("/api/chat", &body, r#""done":false"#)
            }
            16 => self.leave(&body, random),
            17 => self.speak(name, &text),
            18 => self.type_words(name, &text),
            _ => self.read(name, random),
        }
    }

    fn send(&self, method: &str, path: &str, body: &Value, mark: &str) -> Result<TimedResponse> {
        let Access { address, token } = &self.0;
        Ask { address, token, method, path, body, mark, max_bytes: usize::MAX }.send()
    }

    fn turn(&self, path: &str, body: &Value, mark: &str) -> Result<Outcome> {
        let response = self.send("POST", path, body, mark)?;
        if is_busy(&response) {
            return Ok(Outcome::Refused);
        }
        ensure!(response.status == 200, "{path}: {}", response.text);
        let first =
            response.first.with_context(|| format!("{path}: no text in {}", response.text))?;
        Ok(Outcome::Turn(first))
    }

    /// Any request whose conversation may not exist yet.
    fn request(&self, method: &str, path: &str, body: &Value) -> Result<Outcome> {
        let response = self.send(method, path, body, "\r\n\r\n")?;
        if is_busy(&response) {
            return Ok(Outcome::Refused);
        }
        ensure!(
            response.status < 300 || response.status == 404,
            "{method} {path}: {}",
            response.text
        );
        Ok(Outcome::Answered)
    }

    /// Closes the connection in the middle of an answer.
    fn leave(&self, body: &Value, random: &mut Random) -> Result<Outcome> {
        let Access { address, token } = &self.0;
        let path = "/v1/chat/completions";
        let max_bytes = 1 + random.below(3_000) as usize;
        let ask = Ask { address, token, method: "POST", path, body, mark: "\r\n\r\n", max_bytes };
        let response = ask.send()?;
        ensure!(response.status == 200 || is_busy(&response), "{path}: {}", response.text);
        Ok(Outcome::Answered)
    }

    /// An utterance over a WebSocket, and its answer.
    fn speak(&self, name: &str, text: &str) -> Result<Outcome> {
        let mut socket = self.socket()?;
        let transcript = "conversation.item.input_audio_transcription.completed";
        for event in [
            json!({"type": "session.update", "session": {"conversation": name, "max_tokens": ANSWER_TOKENS}}),
            json!({"type": "input_audio_buffer.speech_started"}),
            json!({"type": transcript, "transcript": text}),
            json!({"type": "input_audio_buffer.speech_stopped"}),
        ] {
            socket.send(Message::text(event.to_string()))?;
        }
        let asked = Instant::now();
        let mut first = None;
        loop {
            let Message::Text(event) = socket.read()? else { continue };
            let event: Value = serde_json::from_str(&event)?;
            match event["type"].as_str().unwrap_or_default() {
                "error" if event["error"]["code"] == "queue_full" => return Ok(Outcome::Refused),
                "error" => bail!("/v1/realtime/events: {event}"),
                "response.output_text.delta" if first.is_none() => first = Some(asked.elapsed()),
                "response.done" => break,
                _ => {}
            }
        }
        socket.close(None)?;
        Ok(first.map_or(Outcome::Refused, Outcome::Turn))
    }

    fn socket(&self) -> Result<WebSocket<TcpStream>> {
        let mut request =
            format!("ws://{}/v1/realtime/events", self.0.address).into_client_request()?;
        let bearer = format!("Bearer {}", self.0.token).parse()?;
        request.headers_mut().insert("authorization", bearer);
        let stream = TcpStream::connect(&self.0.address)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let opened = tungstenite::client(request, stream);
        let (socket, _) = opened.map_err(|error| anyhow!("no WebSocket: {error}"))?;
        Ok(socket)
    }

    /// A message that is typed and never sent.
    fn type_words(&self, name: &str, text: &str) -> Result<Outcome> {
        let path = format!("/v1/conversations/{name}/typing");
        for end in [text.len() / 3, text.len() / 2, text.len()] {
            let body = json!({"text": &text[..end]});
            self.request("POST", &path, &body)?;
        }
        self.request("DELETE", &path, &json!({}))
    }

    fn read(&self, name: &str, random: &mut Random) -> Result<Outcome> {
        let own = format!("/v1/conversations/{name}");
        let context = format!("{own}/context");
        let paths = [
            own.as_str(),
            context.as_str(),
            "/v1/conversations",
            "/v1/conversations?q=kettle",
            "/v1/status",
            "/v1/memory",
            "/v1/memory/map",
            "/v1/slots",
            "/v1/turns",
            "/metrics",
            "/v1/models",
        ];
        self.request("GET", paths[random.below(paths.len() as u64) as usize], &json!({}))
    }
}

/// Anthropic's API has a status of its own for it.
fn is_busy(response: &TimedResponse) -> bool {
    [503, 529].contains(&response.status)
}

/// SplitMix64 (Steele, Lea and Flood, 2014).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }

    /// From 0 to 1.
    fn part(&mut self) -> f64 {
        self.below(1 << 20) as f64 / f64::from(1 << 20)
    }
}
