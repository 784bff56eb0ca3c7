//! Talks to the daemon: plain HTTP, one request a connection's turn.
//!
//! - Finds address and token by itself: what was set, else what the daemon of this data directory
//!   wrote about itself.
//! - An error object of the daemon becomes a [`Failure`] with its message.

use std::fs::{self, File};
use std::io::{BufReader, Read};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use hob_config::{Key, Origin, RunningDaemon};
use serde_json::Value;
use ureq::http::{Method, Request, Response};
use ureq::{Agent, Body};

use crate::context::Context;
use crate::failure::Failure;
use crate::sse::Events;

const ANSWER_BYTES: u64 = 64 << 20;

/// A connection to one daemon.
pub struct Client {
    agent: Agent,
    base: String,
    token: String,
}

impl Client {
    /// Finds the daemon and its token. Does not talk to it yet.
    pub fn find(context: &Context) -> Result<Self, Failure> {
        let settings = &context.settings;
        let running = RunningDaemon::read(&settings.data_dir).ok().flatten();
        let (address, token_file) = match (settings.address, running) {
            (Some(address), Some(running)) if running.address == address => {
                (address, running.token_file)
            }
            (Some(address), _) => (address, settings.token_file.clone()),
            (None, Some(running)) => (running.address, running.token_file),
            (None, None) => {
                return Err(Failure::NotRunning { address: settings.listen.to_string() });
            }
        };
        let token_file = match context.resolved.origin(Key::TokenFile) {
            Origin::Default => token_file,
            _ => settings.token_file.clone(),
        };
        Self::at(address, token_file, None)
    }

    /// A daemon that described itself. `patience`: how long a whole answer may take.
    pub fn of(running: &RunningDaemon, patience: Option<Duration>) -> Result<Self, Failure> {
        Self::at(running.address, running.token_file.clone(), patience)
    }

    fn at(
        address: SocketAddr,
        token_file: PathBuf,
        patience: Option<Duration>,
    ) -> Result<Self, Failure> {
        let token = fs::read_to_string(&token_file)
            .map_err(|source| Failure::Token { path: token_file, source })?;
        let agent = Agent::config_builder()
            .http_status_as_error(false)
            .proxy(None) // The daemon is nearby; nobody else may see the token.
            .timeout_connect(Some(patience.unwrap_or(Duration::from_secs(5))))
            .timeout_global(patience)
            .build()
            .into();
        Ok(Self { agent, base: format!("http://{address}"), token: token.trim().to_owned() })
    }

    /// Where the daemon is.
    pub fn address(&self) -> &str {
        self.base.trim_start_matches("http://")
    }

    /// The daemon's page, signed in: whoever has this address has the token.
    pub fn page(&self) -> String {
        format!("{}/#token={}", self.base, self.token)
    }

    /// `GET`, answered by JSON.
    pub fn get(&self, path: &str) -> Result<Value, Failure> {
        json(self.send(Method::GET, path, None)?)
    }

    /// `POST`, answered by JSON.
    pub fn post(&self, path: &str, body: &Value) -> Result<Value, Failure> {
        json(self.send(Method::POST, path, Some(body))?)
    }

    /// `POST` of a whole file, answered by JSON.
    pub fn upload(&self, path: &str, kind: &str, file: &File) -> Result<Value, Failure> {
        let request = Request::builder()
            .method(Method::POST)
            .uri(format!("{}{path}", self.base))
            .header("authorization", format!("Bearer {}", self.token))
            .header("content-type", kind)
            .body(file)
            .map_err(|error| broken(&error))?;
        let response = self.agent.run(request).map_err(|error| self.unreachable(error))?;
        match response.status().is_success() {
            true => json(response),
            false => Err(refused(response)),
        }
    }

    /// `PATCH`, answered by JSON.
    pub fn patch(&self, path: &str, body: &Value) -> Result<Value, Failure> {
        json(self.send(Method::PATCH, path, Some(body))?)
    }

    /// `DELETE`, answered by JSON.
    pub fn delete(&self, path: &str) -> Result<Value, Failure> {
        json(self.send(Method::DELETE, path, None)?)
    }

    /// `POST`, answered by a stream of JSON objects.
    pub fn stream(
        &self,
        path: &str,
        body: &Value,
    ) -> Result<impl Iterator<Item = Result<Value, Failure>>, Failure> {
        let response = self.send(Method::POST, path, Some(body))?;
        let events = Events::new(BufReader::new(response.into_body().into_reader()));
        Ok(events.map(|event| event_of(&event.map_err(|e| broken(&e))?)))
    }

    fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Response<Body>, Failure> {
        let request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.base))
            .header("authorization", format!("Bearer {}", self.token));
        let result = match body {
            Some(body) => request
                .header("content-type", "application/json")
                .body(body.to_string())
                .map(|request| self.agent.run(request)),
            None => request.body(()).map(|request| self.agent.run(request)),
        };
        let sent = result.map_err(|error| broken(&error))?;
        let response = sent.map_err(|error| self.unreachable(error))?;
        match response.status().is_success() {
            true => Ok(response),
            false => Err(refused(response)),
        }
    }

    fn unreachable(&self, error: ureq::Error) -> Failure {
        let not_running = match &error {
            ureq::Error::Io(error) => error.kind() == std::io::ErrorKind::ConnectionRefused,
            ureq::Error::ConnectionFailed | ureq::Error::HostNotFound => true,
            ureq::Error::Timeout(ureq::Timeout::Connect) => true,
            _ => false,
        };
        match not_running {
            true => Failure::NotRunning { address: self.address().to_owned() },
            false => broken(&error),
        }
    }
}

/// The id as a part of a path.
pub fn path_part(id: &str) -> String {
    let keep = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'~');
    id.bytes()
        .map(|byte| if keep(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

fn json(response: Response<Body>) -> Result<Value, Failure> {
    let mut bytes = Vec::new();
    let mut reader = response.into_body().into_reader().take(ANSWER_BYTES);
    reader.read_to_end(&mut bytes).map_err(|error| broken(&error))?;
    serde_json::from_slice(&bytes).map_err(|error| broken(&error))
}

fn refused(response: Response<Body>) -> Failure {
    let status = response.status().as_u16();
    let message = json(response).ok().and_then(|body| message_of(&body));
    Failure::Refused { status, message: message.unwrap_or_else(|| format!("HTTP status {status}")) }
}

fn event_of(data: &str) -> Result<Value, Failure> {
    let event: Value = serde_json::from_str(data).map_err(|error| broken(&error))?;
    match message_of(&event) {
        Some(message) => Err(Failure::Refused { status: 500, message }),
        None => Ok(event),
    }
}

fn message_of(body: &Value) -> Option<String> {
    let error = body.get("error").filter(|error| !error.is_null())?;
    let message = error.get("message").and_then(Value::as_str);
    Some(message.map_or_else(|| error.to_string(), str::to_owned))
}

fn broken(error: &dyn std::fmt::Display) -> Failure {
    Failure::BrokenAnswer(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_cannot_leave_its_part_of_the_path() {
        assert_eq!(path_part("room-1"), "room-1");
        assert_eq!(path_part("../a?b#ü"), "%2E%2E%2Fa%3Fb%23%C3%BC");
    }
}
