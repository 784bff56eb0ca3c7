//! One streamed HTTP request over a connection of its own, and when its first text came.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde_json::Value;

/// Maximum silence of a daemon.
const PATIENCE: Duration = Duration::from_secs(60);

/// A request that is not sent yet.
pub struct Ask<'a> {
    pub address: &'a str,
    pub token: &'a str,
    pub method: &'a str,
    pub path: &'a str,
    pub body: &'a Value,
    /// What the answer contains as soon as it contains text.
    pub mark: &'a str,
    /// Leaves after this many bytes.
    pub max_bytes: usize,
}

/// A response, and when it arrived.
pub struct TimedResponse {
    pub status: u16,
    /// Head and body.
    pub text: String,
    /// From the connection to the mark; `None` without it.
    pub first: Option<Duration>,
    /// From the connection to the last byte.
    pub took: Duration,
}

impl Ask<'_> {
    /// # Errors
    /// Where the daemon closes the connection without a status, or is silent for [`PATIENCE`].
    pub fn send(&self) -> Result<TimedResponse> {
        let began = Instant::now();
        let mut stream = TcpStream::connect(self.address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let body = self.body.to_string();
        let request = format!(
            "{} {} HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {}\r\ncontent-type: \
             application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
            self.method,
            self.path,
            self.address,
            self.token,
            body.len()
        );
        stream.write_all(request.as_bytes())?;
        let (mut received, mut first) = (Vec::new(), None);
        let mut buffer = [0; 4096];
        while received.len() < self.max_bytes {
            let count = match stream.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error).context(format!("{} {}", self.method, self.path)),
            };
            // The mark may begin in what was read before.
            let from = received.len().saturating_sub(self.mark.len());
            received.extend_from_slice(&buffer[..count]);
            let is_marked = || String::from_utf8_lossy(&received[from..]).contains(self.mark);
            if first.is_none() && is_marked() {
                first = Some(began.elapsed());
            }
        }
        let text = String::from_utf8_lossy(&received).into_owned();
        let status = text.split(' ').nth(1).and_then(|status| status.parse().ok());
        let status = status.with_context(|| format!("{}: no status in {text:?}", self.path))?;
        Ok(TimedResponse { status, text, first, took: began.elapsed() })
    }
}
