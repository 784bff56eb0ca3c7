//! Follows a stream of the daemon until it ends, or Ctrl-C.
//!
//! - A thread reads it, so that Ctrl-C is seen before the first event.
//! - Leaving closes the connection, which the daemon takes for a cancellation.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::client::Client;
use crate::failure::Failure;
use crate::signals::Interrupt;

/// How long Ctrl-C goes unnoticed at most.
const POLL: Duration = Duration::from_millis(50);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamEnd {
    Whole,
    /// By Ctrl-C.
    Interrupted,
}

/// Gives each event of a `POST` to `take`.
///
/// # Errors
/// Of the request, of an event, or of `take`.
pub fn follow<T: DeserializeOwned + Send>(
    client: &Client,
    path: &str,
    body: Option<&Value>,
    interrupt: Option<&Interrupt>,
    take: impl FnMut(T) -> Result<(), Failure>,
) -> Result<StreamEnd, Failure> {
    if let Some(interrupt) = interrupt {
        interrupt.take(); // One that was pressed before the request.
    }
    let (sender, events) = channel();
    std::thread::scope(|scope| {
        scope.spawn(move || forward(client, path, body, &sender));
        let ended = receive(&events, interrupt, take);
        if !matches!(ended, Ok(StreamEnd::Whole)) {
            client.stop(); // The thread may wait for the next event.
        }
        ended
    })
}

/// Reads the stream, until it ends or the receiver is gone.
fn forward<T: DeserializeOwned>(
    client: &Client,
    path: &str,
    body: Option<&Value>,
    sender: &Sender<Result<T, Failure>>,
) {
    match client.events(path, body) {
        Ok(events) => {
            for event in events {
                if sender.send(event).is_err() {
                    return;
                }
            }
        }
        Err(failure) => drop(sender.send(Err(failure))),
    }
}

fn receive<T>(
    events: &Receiver<Result<T, Failure>>,
    interrupt: Option<&Interrupt>,
    mut take: impl FnMut(T) -> Result<(), Failure>,
) -> Result<StreamEnd, Failure> {
    loop {
        let event = match events.recv_timeout(POLL) {
            Ok(event) => Some(event?),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => return Ok(StreamEnd::Whole),
        };
        if interrupt.is_some_and(Interrupt::take) {
            return Ok(StreamEnd::Interrupted);
        }
        if let Some(event) = event {
            take(event)?;
        }
    }
}
