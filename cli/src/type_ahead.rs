//! Sends a message to the daemon while the user types it, so that its finished words are computed
//! before it is sent.
//!
//! - One request at a time, one in 300 ms at most, and none while a word is being typed.
//! - A failure ends it, and so does a daemon that does not answer within [`PATIENCE`]: the daemon computes the words
//!   with the message.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::client::Client;
use crate::line::OnKey;

const EVERY: Duration = Duration::from_millis(300);

/// For one request, which the end of the line waits for. A daemon answers it in milliseconds.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// A thread that sends one message as it grows.
pub struct TypeAhead {
    lines: Sender<String>,
    thread: JoinHandle<Option<Client>>,
    path: String,
}

impl TypeAhead {
    /// `path`: `/v1/conversations/{id}/typing`. `fields`: what the message's request asks beside
    /// the words.
    pub fn start(client: Client, path: String, fields: Value) -> Self {
        let (lines, inbox) = channel();
        let to = path.clone();
        let thread = std::thread::spawn(move || send_words(client, &to, &fields, &inbox));
        Self { lines, thread, path }
    }

    pub fn on_key(&self) -> OnKey {
        let lines = self.lines.clone();
        Box::new(move |line| {
            // A command is no message.
            if !line.starts_with('/') {
                drop(lines.send(line.to_owned())); // An error: the thread has ended.
            }
        })
    }

    /// Waits until no request is under way: the daemon would compute words of a sent message.
    pub fn stop(self) {
        self.end();
    }

    /// No message follows: cancels what the daemon computes.
    pub fn leave(self) {
        let path = self.path.clone();
        if let Some(client) = self.end() {
            let _ = client.delete::<Value>(&path);
        }
    }

    /// The client, if words were sent.
    fn end(self) -> Option<Client> {
        drop(self.lines);
        self.thread.join().ok().flatten()
    }
}

fn send_words(
    client: Client,
    path: &str,
    fields: &Value,
    lines: &Receiver<String>,
) -> Option<Client> {
    let (mut sent, mut latest) = (String::new(), None);
    let mut next_at = Instant::now();
    loop {
        let received = match latest {
            None => lines.recv().map_err(RecvTimeoutError::from),
            Some(_) => lines.recv_timeout(next_at.saturating_duration_since(Instant::now())),
        };
        match received {
            Ok(line) => latest = Some(line),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                return Some(client).filter(|_| !sent.is_empty());
            }
        }
        if Instant::now() < next_at {
            continue;
        }
        let line = latest.take().unwrap_or_default();
        let words = finished_words(&line);
        if sent.starts_with(words) {
            continue; // Deleted words may be typed again.
        }
        sent = words.to_owned();
        let mut body = fields.clone();
        body["text"] = words.into();
        let answer = client.post::<Value>(path, &body).ok()?;
        if answer["reason"] == "off" {
            return None;
        }
        next_at = Instant::now() + EVERY;
    }
}

/// Without the letters that may belong to an unfinished word.
fn finished_words(line: &str) -> &str {
    line.trim_end_matches(|letter: char| letter.is_ascii_graphic())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_finished_by_a_space() {
        assert_eq!(finished_words("What is my"), "What is ");
        assert_eq!(finished_words("What is my "), "What is my ");
        assert_eq!(finished_words("/again"), "");
        assert_eq!(finished_words("\u{4eca}\u{5929}"), "\u{4eca}\u{5929}");
    }
}
