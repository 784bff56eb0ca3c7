//! A typed HTTP client of the daemon.
//!
//! - Address and token come from the settings, else from the announcement of the daemon that runs on
//!   this data directory.
//! - Answers are the types of `hob-api`; `--json` prints them as [`Value`]s, with the fields that
//!   only a newer daemon knows.
//! - An error object of the daemon becomes a [`Failure`] with its message.

use std::fs::{self, File};
use std::io::{self, BufReader, Read};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hob_api::Status;
use hob_config::{Key, Origin, RunningDaemon};
use serde::de::DeserializeOwned;
use serde_json::Value;
use ureq::http::request::Builder;
use ureq::http::{Method, Request, Response};
use ureq::{Agent, Body};

use crate::context::Context;
use crate::failure::Failure;
use crate::sse::Events;

const MAX_ANSWER_BYTES: u64 = 64 << 20;

/// They are in memory until they are sent.
const MAX_PIPED_BYTES: u64 = 64 << 20;

/// The value of the header `expect`, by which a body is sent once hobd reads it. hobd refuses a body by its length or
/// for the token, and closes the connection: a client that is still sending does not see the answer.
const WAITS: &str = "100-continue";

/// A shorter body is sent at once: hobd reads what it refuses of it.
const MIN_WAITING_BYTES: usize = 1 << 20;

/// The time for the beginning of an answer that the daemon sends within milliseconds unless it hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// The address and the token of one daemon.
pub struct Client {
    agent: Agent,
    base: String,
    token: String,
    patience: Duration,
}

impl Client {
    /// Finds the daemon and reads its token, without connecting.
    pub fn find(context: &Context) -> Result<Self, Failure> {
        Self::find_within(context, None)
    }

    /// [`Self::find`] with a timeout for a whole answer.
    pub fn find_within(context: &Context, timeout: Option<Duration>) -> Result<Self, Failure> {
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
        Self::at(address, token_file, timeout)
    }

    /// The daemon of an announcement. `timeout`: for a whole answer.
    pub fn of(running: &RunningDaemon, timeout: Option<Duration>) -> Result<Self, Failure> {
        Self::at(running.address, running.token_file.clone(), timeout)
    }

    fn at(
        address: SocketAddr,
        token_file: PathBuf,
        timeout: Option<Duration>,
    ) -> Result<Self, Failure> {
        let token = read_token(&token_file)
            .map_err(|source| Failure::Token { path: token_file, source })?;
        let agent = Agent::config_builder()
            .http_status_as_error(false)
            .proxy(None) // A proxy would see the token.
            .timeout_connect(Some(timeout.unwrap_or(Duration::from_secs(5))))
            .timeout_global(timeout)
            .build()
            .into();
        Ok(Self { agent, base: format!("http://{address}"), token, patience: PATIENCE })
    }

    pub fn address(&self) -> &str {
        self.base.trim_start_matches("http://")
    }

    /// The address of the daemon's page, which contains the token.
    pub fn page(&self) -> String {
        format!("{}/#token={}", self.base, self.token)
    }

    pub fn status(&self) -> Result<Status, Failure> {
        self.get("/v1/status")
    }

    pub fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, Failure> {
        json(self.fetch(path, Some(self.patience))?)
    }

    /// An answer that is not JSON.
    pub fn text(&self, path: &str) -> Result<String, Failure> {
        let bytes = read(self.fetch(path, Some(self.patience))?)?;
        String::from_utf8(bytes).map_err(|error| broken(&error))
    }

    /// An answer of any length, however long the daemon takes: it writes an archive before it answers.
    pub fn reader(&self, path: &str) -> Result<impl Read + use<>, Failure> {
        Ok(self.fetch(path, None)?.into_body().into_reader())
    }

    pub fn post<T: DeserializeOwned>(&self, path: &str, body: &Value) -> Result<T, Failure> {
        json(self.send(Method::POST, path, Some(body))?)
    }

    pub fn patch<T: DeserializeOwned>(&self, path: &str, body: &Value) -> Result<T, Failure> {
        json(self.send(Method::PATCH, path, Some(body))?)
    }

    pub fn delete<T: DeserializeOwned>(&self, path: &str) -> Result<T, Failure> {
        json(self.send(Method::DELETE, path, None)?)
    }

    /// `POST` of a whole file, or of what a pipe gives.
    pub fn upload<T: DeserializeOwned>(
        &self,
        path: &str,
        content_type: &str,
        file: &File,
    ) -> Result<T, Failure> {
        let request = self
            .request(Method::POST, path)
            .header("content-type", content_type)
            .header("expect", WAITS);
        let result = if file.metadata().is_ok_and(|facts| facts.is_file()) {
            request.body(file).map(|request| self.agent.run(request))
        } else {
            // A pipe has no length, which ureq takes for 0.
            request.body(piped(file)?).map(|request| self.agent.run(request))
        };
        let sent = result.map_err(|error| broken(&error))?;
        json(accepted(sent.map_err(|error| self.unreachable(error))?)?)
    }

    /// `POST`, answered by a stream of events.
    pub fn events<T: DeserializeOwned>(
        &self,
        path: &str,
        body: Option<&Value>,
    ) -> Result<impl Iterator<Item = Result<T, Failure>> + use<T>, Failure> {
        let response = self.send(Method::POST, path, body)?;
        let events = Events::new(BufReader::new(response.into_body().into_reader()));
        Ok(events.map(|event| event_of(&event.map_err(|e| broken(&e))?)))
    }

    /// Interrupts its requests, also those of other threads; later ones fail.
    pub fn stop(&self) {
        self.agent.clone().shutdown();
    }

    /// `GET`. `patience`: for the beginning of the answer.
    fn fetch(&self, path: &str, patience: Option<Duration>) -> Result<Response<Body>, Failure> {
        let request = self.request(Method::GET, path).body(()).map_err(|error| broken(&error))?;
        let request = self.agent.configure_request(request).timeout_recv_response(patience);
        accepted(self.agent.run(request.build()).map_err(|error| self.unreachable(error))?)
    }

    fn request(&self, method: Method, path: &str) -> Builder {
        Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.base))
            .header("authorization", format!("Bearer {}", self.token))
    }

    fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Response<Body>, Failure> {
        let request = self.request(method, path);
        let result = match body.map(Value::to_string) {
            Some(body) => {
                let request = request.header("content-type", "application/json");
                let is_long = body.len() >= MIN_WAITING_BYTES;
                let request = if is_long { request.header("expect", WAITS) } else { request };
                request.body(body).map(|request| self.agent.run(request))
            }
            None => request.body(()).map(|request| self.agent.run(request)),
        };
        let sent = result.map_err(|error| broken(&error))?;
        accepted(sent.map_err(|error| self.unreachable(error))?)
    }

    fn unreachable(&self, error: ureq::Error) -> Failure {
        if matches!(error, ureq::Error::Timeout(ureq::Timeout::RecvResponse)) {
            let (address, seconds) = (self.address().to_owned(), self.patience.as_secs());
            return Failure::Hangs { address, seconds };
        }
        let not_running = match &error {
            ureq::Error::Io(error) => error.kind() == io::ErrorKind::ConnectionRefused,
            ureq::Error::ConnectionFailed | ureq::Error::HostNotFound => true,
            ureq::Error::Timeout(ureq::Timeout::Connect) => true,
            _ => false,
        };
        if not_running {
            Failure::NotRunning { address: self.address().to_owned() }
        } else {
            broken(&error)
        }
    }
}

/// The token of a file. hobd, too, takes visible letters of ASCII alone.
fn read_token(path: &Path) -> io::Result<String> {
    let text = fs::read_to_string(path)?;
    let token = text.trim();
    if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "it holds no token"));
    }
    Ok(token.to_owned())
}

/// What a pipe gives until its end.
fn piped(pipe: &File) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    let read = pipe.take(MAX_PIPED_BYTES + 1).read_to_end(&mut bytes);
    read.map_err(|error| Failure::Usage(format!("cannot read the pipe: {error}")))?;
    if bytes.len() as u64 > MAX_PIPED_BYTES {
        let message = "the pipe gives more than 64 MiB: write them into a file, and name that";
        return Err(Failure::Usage(message.to_owned()));
    }
    Ok(bytes)
}

/// The id, escaped as one segment of a path.
pub fn path_segment(id: &str) -> String {
    let keep = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'~');
    id.bytes()
        .map(|byte| if keep(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

/// Reads a type from an answer that `--json` prints as it is.
pub fn parse<T: DeserializeOwned>(answer: Value) -> Result<T, Failure> {
    serde_json::from_value(answer).map_err(|error| broken(&error))
}

fn json<T: DeserializeOwned>(response: Response<Body>) -> Result<T, Failure> {
    serde_json::from_slice(&read(response)?).map_err(|error| broken(&error))
}

fn read(response: Response<Body>) -> Result<Vec<u8>, Failure> {
    whole(response.into_body().into_reader(), MAX_ANSWER_BYTES)
}

/// All bytes. A longer answer is a failure: a part of a text would pass for the whole.
fn whole(reader: impl Read, max_bytes: u64) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    reader.take(max_bytes + 1).read_to_end(&mut bytes).map_err(|error| broken(&error))?;
    if bytes.len() as u64 > max_bytes {
        return Err(broken(&format!("it has more than {} MiB", max_bytes >> 20)));
    }
    Ok(bytes)
}

fn accepted(response: Response<Body>) -> Result<Response<Body>, Failure> {
    if response.status().is_success() {
        return Ok(response);
    }
    let status = response.status().as_u16();
    let body = json(response).ok().unwrap_or_default();
    let message = message_of(&body).unwrap_or_else(|| format!("HTTP status {status}"));
    Err(Failure::Refused { status, message, code: code_of(&body) })
}

fn event_of<T: DeserializeOwned>(data: &str) -> Result<T, Failure> {
    let event: Value = serde_json::from_str(data).map_err(|error| broken(&error))?;
    match message_of(&event) {
        Some(message) => {
            Err(Failure::Refused { status: status_of(&event), message, code: code_of(&event) })
        }
        None => parse(event),
    }
}

/// The status of an error that comes within a stream, by its type.
fn status_of(event: &Value) -> u16 {
    match event["error"]["type"].as_str() {
        Some("invalid_request_error" | "exceed_context_size_error") => 400,
        Some("overloaded_error") => 503,
        _ => 500,
    }
}

fn code_of(body: &Value) -> Option<String> {
    body["error"]["code"].as_str().map(str::to_owned)
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
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_daemon_that_hangs_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let token_file = directory.path().join("token");
        fs::write(&token_file, "secret").unwrap();
        // The system accepts connections to it, and no one answers.
        let hung = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = hung.local_addr().unwrap();
        let client = Client::at(address, token_file, None).unwrap();
        let client = Client { patience: Duration::from_millis(50), ..client };
        let failure = client.status().unwrap_err();
        assert!(matches!(&failure, Failure::Hangs { .. }), "{failure}");
        assert!(failure.to_string().contains(&address.to_string()), "{failure}");
    }

    #[test]
    fn an_id_cannot_leave_its_segment_of_the_path() {
        assert_eq!(path_segment("room-1"), "room-1");
        assert_eq!(path_segment("../a?b#ü"), "%2E%2E%2Fa%3Fb%23%C3%BC");
    }

    #[test]
    fn an_answer_is_read_whole_or_not_at_all() {
        assert_eq!(whole(&b"1234"[..], 4).unwrap(), b"1234");
        let longer = whole(&b"12345"[..], 4).unwrap_err().to_string();
        assert!(longer.contains("broke off: it has more than"), "{longer}");
    }
}
