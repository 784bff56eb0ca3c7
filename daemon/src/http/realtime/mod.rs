//! `GET /v1/realtime/events`: the events of an utterance over a WebSocket, named as in OpenAI's
//! Realtime API.
//!
//! Reading order: this file (the socket), `session` (events in), `utterance` (the words that they bring), `sound` (the
//! session's fields about sound), `listening` (sound in), `response` (events and sound out).
//!
//! - A message is bounded, and so is what a session keeps of its messages. A client that sends nothing and answers no ping is disconnected.
//! - Closing the socket cancels its answer and its speculative prefill.
//! - When hobd stops, a running answer gets the time of those over HTTP; then the socket is closed.

mod listening;
mod response;
mod session;
mod sound;
mod utterance;

use std::time::Duration;

use axum::Extension;
use axum::extract::State;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade, close_code};
use axum::response::Response;
use hob_runtime::Residency;
use serde_json::{Value, json};
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::serve::ConnectionPermit;
use crate::error::{ApiError, ErrorKind};
use crate::speech::Speech;
use response::event;
use session::Session;

/// Half a minute of sound, or a session with many tools. A session's fields and its transcript, which come in any
/// number of messages, have the same bound each.
const MAX_MESSAGE_BYTES: usize = 1 << 20;
const PING_EVERY: Duration = Duration::from_secs(20);
/// Three pings without an answer.
const MAX_SILENCE: Duration = Duration::from_secs(65);
const MAX_SEND: Duration = Duration::from_secs(20);
/// The subprotocol that browsers offer beside the one with their token.
const PROTOCOL: &str = "realtime";

/// `GET /v1/realtime/events`
pub async fn events(
    State(speech): State<Speech>,
    Extension(permit): Extension<ConnectionPermit>,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response, ApiError> {
    let upgrade = upgrade.map_err(|error| {
        let message = format!("this path speaks WebSocket: {}", error.body_text());
        ApiError::new(ErrorKind::Invalid, message).code("websocket_required")
    })?;
    let upgrade = upgrade.max_message_size(MAX_MESSAGE_BYTES).max_frame_size(MAX_MESSAGE_BYTES);
    let upgrade = upgrade.protocols([PROTOCOL]);
    Ok(upgrade.on_upgrade(|socket| async move {
        let mut permit = permit;
        let ended = permit.clone().ended();
        tokio::select! {
            () = serve(speech, socket, &mut permit) => {}
            () = ended => {}
        }
    }))
}

async fn serve(speech: Speech, mut socket: WebSocket, permit: &mut ConnectionPermit) {
    let mut residency = speech.chat().engine().residency();
    let mut session = Session::new(speech);
    let mut ping = interval(PING_EVERY);
    ping.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut heard_at = Instant::now();
    let mut out = vec![session.created()];
    let mut is_ending = false;
    loop {
        for event in out.drain(..) {
            if !send(&mut socket, Message::text(event.to_string())).await {
                return;
            }
        }
        if is_ending && !session.is_answering() {
            let reason = "hobd stops".into();
            send(&mut socket, Message::Close(Some(CloseFrame { code: close_code::AWAY, reason })))
                .await;
            return;
        }
        tokio::select! {
            () = permit.stopping(), if !is_ending => is_ending = true,
            message = socket.recv() => {
                let Some(Ok(message)) = message else { return };
                heard_at = Instant::now();
                match message {
                    Message::Text(text) => out = session.receive(&text),
                    Message::Binary(sound) => out = session.receive_sound(&sound),
                    Message::Ping(_) | Message::Pong(_) => {}
                    Message::Close(_) => return,
                }
            }
            event = session.next() => out = event,
            // An error: the engine has stopped, and the socket is about to close.
            Ok(()) = residency.changed() => out = vec![model(*residency.borrow_and_update())],
            _ = ping.tick() => {
                let silent = heard_at.elapsed() > MAX_SILENCE;
                if silent || !send(&mut socket, Message::Ping(Vec::new().into())).await {
                    return;
                }
            }
        }
    }
}

/// Whether the weights are loaded: the first turn after an unload waits for them.
fn model(residency: Residency) -> Value {
    let percent = match residency {
        Residency::Loading { percent } => Some(percent),
        Residency::Resident | Residency::Unloaded => None,
    };
    event("hob.model", json!({"residency": residency.as_str(), "percent": percent}))
}

/// Whether the client took the message in time.
async fn send(socket: &mut WebSocket, message: Message) -> bool {
    matches!(tokio::time::timeout(MAX_SEND, socket.send(message)).await, Ok(Ok(())))
}

/// Events in the order of sending.
type Events = Vec<Value>;
