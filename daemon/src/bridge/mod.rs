//! elizaOS's device bridge: an agent at another place generates with this daemon's model.
//!
//! Reading order: this file (the connection, and what each message does), [`messages`] (their form), `dial`
//! (the socket), [`device`] (the description of this machine that the agent gets).
//!
//! - The daemon dials out, so the agent needs no way to it. It dials again after a failure, with a pause that
//!   doubles up to a minute.
//! - A prompt is the message of a user in a chat. It belongs to a conversation where the message names one, as in every
//!   other request; else nothing of it is stored.
//! - Requests run side by side. A lost connection cancels them: the agent sends them again. A stop of the daemon waits
//!   for them as long as for those over HTTP.
//! - A message opens no file: `load` loads the weights of the daemon's own model, whichever path it names.

pub mod device;
mod dial;
pub mod messages;

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::{SinkExt, StreamExt};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::sync::watch;
use tokio::task::{JoinError, JoinSet};
use tokio::time::{sleep, timeout};
use tokio_tungstenite::tungstenite::Message;

use crate::chat::Chat;
use crate::chat::identity::Session;
use crate::error::ApiError;
use crate::wire::completion::Prompt;
use crate::wire::embedding::Embeddings;
use dial::{Socket, dial};
use messages::{AgentMessage, Generate, Loaded, Request, Response};

const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// The agent pings every 15 seconds.
const MAX_SILENCE: Duration = Duration::from_secs(60);
const MAX_SEND: Duration = Duration::from_secs(20);

/// Generated tokens where the agent sets no limit.
const DEFAULT_TOKENS: u64 = 2048;

/// The agent's address, and what this daemon presents there.
pub struct Place {
    /// `ws://` or `wss://`, with the path.
    pub url: String,
    /// The agent's pairing token.
    pub token: Option<String>,
    /// Stays the same from start to start.
    pub device_id: String,
}

pub struct Options {
    pub chat: Chat,
    pub place: Place,
    /// The file of the daemon's model, or its name.
    pub model: String,
}

/// The bridge as `/v1/status` shows it. Clones share everything.
#[derive(Clone)]
pub struct Bridge {
    url: String,
    state: Arc<Mutex<State>>,
    /// Messages of the connected agent without an answer.
    unanswered: Arc<watch::Sender<usize>>,
}

#[derive(Default)]
struct State {
    is_connected: bool,
    error: Option<String>,
}

impl Bridge {
    /// Dials until the runtime ends.
    pub fn start(options: Options) -> Self {
        let url = options.place.url.clone();
        let bridge = Self { url, state: Arc::default(), unanswered: Arc::default() };
        tokio::spawn(bridge.clone().run(options));
        bridge
    }

    pub fn to_api(&self) -> hob_api::status::DeviceBridge {
        let State { is_connected, error } = &*self.state.lock();
        hob_api::status::DeviceBridge {
            url: self.url.clone(),
            connected: *is_connected,
            error: error.clone().map(Into::into),
        }
    }

    /// Waits until the agent has the answers to all that it has asked.
    pub async fn all_answered(&self) {
        let mut unanswered = self.unanswered.subscribe();
        // An error is impossible: `self` has the sender.
        let _ = unanswered.wait_for(|&count| count == 0).await;
    }

    async fn run(self, options: Options) {
        let mut pause = FIRST_PAUSE;
        loop {
            let ended = self.serve(&options).await;
            self.unanswered.send_replace(0);
            if std::mem::take(&mut self.state.lock().is_connected) {
                pause = FIRST_PAUSE;
            }
            let reason = ended.to_string();
            tracing::warn!(url = self.url, reason, "the device bridge is not connected");
            self.state.lock().error = Some(reason);
            sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Serves one connection; returns why it has ended.
    async fn serve(&self, options: &Options) -> dial::ConnectionError {
        let mut socket = match dial(&options.place.url, options.place.token.as_deref()).await {
            Ok(socket) => socket,
            Err(error) => return error,
        };
        let register = device::register(options).await;
        if let Err(ended) = send(&mut socket, &register).await {
            return ended;
        }
        let (answers, mut answered) = unbounded_channel();
        let mut requests = JoinSet::new();
        loop {
            tokio::select! {
                message = timeout(MAX_SILENCE, socket.next()) => {
                    let text = match message {
                        Err(_) => return dial::ConnectionError::Silent(MAX_SILENCE.as_secs()),
                        Ok(message) => match dial::text_of(message) {
                            Ok(Some(text)) => text,
                            Ok(None) => continue,
                            Err(error) => return error,
                        },
                    };
                    self.connected();
                    let Some(message) = AgentMessage::parse(&text) else {
                        tracing::debug!("a message of the device bridge was not understood");
                        continue;
                    };
                    self.unanswered.send_modify(|count| *count += 1);
                    requests.spawn(answer(options.chat.clone(), message, answers.clone()));
                }
                Some(answer) = answered.recv() => {
                    if let Err(error) = send(&mut socket, &answer).await {
                        return error;
                    }
                    self.answered();
                }
                Some(ended) = requests.join_next() => self.request_ended(&ended),
            }
        }
    }

    fn answered(&self) {
        self.unanswered.send_modify(|count| *count = count.saturating_sub(1));
    }

    /// A request that has panicked gets no answer: a stop must not wait for it.
    fn request_ended(&self, ended: &Result<(), JoinError>) {
        if let Err(error) = ended {
            tracing::error!(%error, "a request of the device bridge has failed");
            self.answered();
        }
    }

    /// The first message shows that the agent took the registration: it refuses a wrong token by closing.
    fn connected(&self) {
        let mut state = self.state.lock();
        if !state.is_connected {
            tracing::info!(url = self.url, "the device bridge is connected");
            *state = State { is_connected: true, error: None };
        }
    }
}

async fn send(socket: &mut Socket, message: &Value) -> Result<(), dial::ConnectionError> {
    let sent = timeout(MAX_SEND, socket.send(Message::text(message.to_string()))).await;
    let sent = sent.map_err(|_| dial::ConnectionError::Stalled(MAX_SEND.as_secs()))?;
    sent.map_err(|error| dial::ConnectionError::Failed(error.to_string()))
}

/// Answers one message of the agent.
async fn answer(chat: Chat, message: AgentMessage, answers: UnboundedSender<Value>) {
    let AgentMessage { id, request } = message;
    let answer = match request {
        Request::Ping { at } => messages::pong(at),
        Request::Load { path } => {
            let loaded = chat.load_weights().await.map(|()| Response::Loaded(Loaded { path }));
            messages::result("loadResult", &id, loaded)
        }
        Request::Unload => {
            chat.free_weights().await;
            messages::result("unloadResult", &id, Ok(Response::Unloaded))
        }
        Request::Generate(generate) => {
            messages::result("generateResult", &id, generated(&chat, generate).await)
        }
        Request::Embed { input } => {
            let embedded = chat.embed(None, &[Prompt::Text(input)]).await;
            let embedded = embedded.map(|Embeddings { mut vectors, tokens, .. }| {
                Response::Embedded { embedding: vectors.pop().unwrap_or_default(), tokens }
            });
            messages::result("embedResult", &id, embedded)
        }
    };
    answers.send(answer).ok(); // An error: the connection is lost.
}

async fn generated(chat: &Chat, generate: Generate) -> Result<Response, ApiError> {
    let began = Instant::now();
    let (_, mut answer) = chat.answer(&generate.body(DEFAULT_TOKENS), &Session::default()).await?;
    let choices = answer.collect().await?;
    let usage = answer.usage();
    Ok(Response::Generated {
        text: choices.first().map(|choice| choice.message.text().to_owned()).unwrap_or_default(),
        prompt_tokens: usage.prompt,
        output_tokens: usage.completion,
        duration: began.elapsed(),
    })
}

#[cfg(test)]
mod tests {
    use tokio_tungstenite::WebSocketStream;
    use tokio_tungstenite::tungstenite::protocol::Role;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_stop_does_not_wait_for_a_request_that_has_panicked() {
        let bridge =
            Bridge { url: String::new(), state: Arc::default(), unanswered: Arc::default() };
        bridge.unanswered.send_replace(1);
        let mut requests: JoinSet<()> = JoinSet::new();
        requests.spawn(async { panic!("on purpose") });
        bridge.request_ended(&requests.join_next().await.unwrap());
        timeout(MAX_SILENCE, bridge.all_answered()).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn an_agent_that_takes_no_message_ends_the_connection() {
        let (ours, _theirs) = tokio::io::duplex(64);
        let ours: Box<dyn dial::Stream> = Box::new(ours);
        let mut socket = WebSocketStream::from_raw_socket(ours, Role::Client, None).await;
        let sent = send(&mut socket, &Value::String("x".repeat(1 << 10))).await;
        assert!(matches!(sent, Err(dial::ConnectionError::Stalled(_))), "{sent:?}");
    }
}
