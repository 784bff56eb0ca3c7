//! `GET /v1/realtime/events`: the events of somebody who speaks, over a WebSocket, in the names that
//! OpenAI's Realtime API gives them.
//!
//! Reading order: this file (the socket), `session` (events in), `response` (events out).
//!
//! - A message is bounded; a client that neither speaks nor answers pings is left.
//! - When the socket closes its answer is cancelled, and what was computed ahead of it ends.

mod response;
mod session;

use std::time::Duration;

use axum::extract::State;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade};
use axum::response::Response;
use hob_runtime::Residency;
use serde_json::{Value, json};
use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::error::{ApiError, ErrorKind};
use crate::service::Service;
use response::event;
use session::Session;

/// Half a minute of sound, or a session with many tools.
const MESSAGE_BYTES: usize = 1 << 20;
const PING_EVERY: Duration = Duration::from_secs(20);
/// Three pings without any answer.
const LONGEST_SILENCE: Duration = Duration::from_secs(65);
const LONGEST_SEND: Duration = Duration::from_secs(20);
/// What browsers offer beside the one that carries their token.
const PROTOCOL: &str = "realtime";

/// `GET /v1/realtime/events`
pub async fn events(
    State(service): State<Service>,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response, ApiError> {
    let upgrade = upgrade.map_err(|error| {
        let message = format!("this path speaks WebSocket: {}", error.body_text());
        ApiError::new(ErrorKind::Invalid, message).code("websocket_required")
    })?;
    let upgrade = upgrade.max_message_size(MESSAGE_BYTES).max_frame_size(MESSAGE_BYTES);
    let upgrade = upgrade.protocols([PROTOCOL]);
    Ok(upgrade.on_upgrade(|socket| serve(service, socket)))
}

async fn serve(service: Service, mut socket: WebSocket) {
    let mut residency = service.engine().residency();
    let mut session = Session::new(service);
    let mut ping = interval(PING_EVERY);
    ping.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut heard_at = Instant::now();
    let mut out = vec![session.created()];
    loop {
        for event in out.drain(..) {
            if !send(&mut socket, Message::text(event.to_string())).await {
                return;
            }
        }
        tokio::select! {
            message = socket.recv() => {
                let Some(Ok(message)) = message else { return };
                heard_at = Instant::now();
                match message {
                    Message::Text(text) => out = session.take(&text),
                    Message::Binary(sound) => out = session.hear(&sound),
                    Message::Ping(_) | Message::Pong(_) => {}
                    Message::Close(_) => return,
                }
            }
            event = session.next() => out = event,
            // An error: the engine has stopped, and the socket is about to close.
            Ok(()) = residency.changed() => out = vec![model(*residency.borrow_and_update())],
            _ = ping.tick() => {
                let silent = heard_at.elapsed() > LONGEST_SILENCE;
                if silent || !send(&mut socket, Message::Ping(Vec::new().into())).await {
                    return;
                }
            }
        }
    }
}

/// Where the model's weights are: who speaks first after they left waits for them.
fn model(residency: Residency) -> Value {
    let percent = match residency {
        Residency::Loading { percent } => Some(percent),
        Residency::Resident | Residency::Unloaded => None,
    };
    event("hob.model", json!({"residency": residency.as_str(), "percent": percent}))
}

/// Whether it went out. Who takes nothing any longer is gone.
async fn send(socket: &mut WebSocket, message: Message) -> bool {
    matches!(tokio::time::timeout(LONGEST_SEND, socket.send(message)).await, Ok(Ok(())))
}

/// Events, in the order in which they go out.
type Events = Vec<Value>;
