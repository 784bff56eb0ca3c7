//! One HTTP request over a connection of its own.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::measure::time;

/// A whole answer, and the time from the connection to its last byte.
pub struct Answer {
    pub status: u16,
    pub body: String,
    pub took: Duration,
}

/// # Errors
/// A refusal, too.
pub fn request(
    address: &str,
    method: &str,
    path: &str,
    token: Option<&str>,
    body: &[u8],
) -> Result<Answer> {
    let answer = exchange(address, method, path, token, body)?;
    let Answer { status, body, .. } = &answer;
    ensure!(*status < 300, "{method} {path}: {status}: {body}");
    Ok(answer)
}

/// Sends the request; a refusal is an answer.
pub fn exchange(
    address: &str,
    method: &str,
    path: &str,
    token: Option<&str>,
    body: &[u8],
) -> Result<Answer> {
    let authorization = token.map(|token| format!("authorization: Bearer {token}\r\n"));
    let (took, answer) = time(|| -> Result<String> {
        let mut stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: {address}\r\n{}content-type: application/json\r\n\
             content-length: {}\r\nconnection: close\r\n\r\n",
            authorization.unwrap_or_default(),
            body.len()
        );
        stream.write_all(head.as_bytes())?;
        stream.write_all(body)?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        Ok(String::from_utf8_lossy(&answer).into_owned())
    });
    let answer = answer?;
    let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok());
    let status: u16 = status.with_context(|| format!("no status in {answer:?}"))?;
    let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body).to_owned();
    Ok(Answer { status, body, took })
}
