//! A streamed answer, and when each piece of it arrived.
//!
//! - A piece is an event with content. A server that sends two tokens in one event has sent one piece.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

/// No answer is silent for longer.
const PATIENCE: Duration = Duration::from_secs(300);

/// When the pieces arrived.
#[derive(Debug)]
pub struct Arrivals(pub Vec<Instant>);

impl Arrivals {
    /// Milliseconds between two.
    pub fn gaps(&self) -> impl Iterator<Item = f64> + '_ {
        self.0.windows(2).map(|pair| (pair[1] - pair[0]).as_secs_f64() * 1e3)
    }

    /// How many came from `start` on and before `end`.
    pub fn between(&self, start: Instant, end: Instant) -> usize {
        self.0.iter().filter(|&&at| at >= start && at < end).count()
    }
}

/// Posts `body`, and counts the pieces in `seen` as they arrive.
pub fn stream(
    address: &str,
    token: Option<&str>,
    body: &Value,
    seen: &AtomicUsize,
) -> Result<Arrivals> {
    let mut connection = TcpStream::connect(address)?;
    connection.set_nodelay(true)?;
    connection.set_read_timeout(Some(PATIENCE))?;
    let body = body.to_string();
    let authorization =
        token.map_or(String::new(), |token| format!("authorization: Bearer {token}\r\n"));
    let head = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: {address}\r\n{authorization}content-type: \
         application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    connection.write_all(head.as_bytes())?;
    connection.write_all(body.as_bytes())?;
    read(BufReader::new(connection), seen)
}

fn read(mut answer: impl BufRead, seen: &AtomicUsize) -> Result<Arrivals> {
    let (status, is_chunked) = read_head(&mut answer)?;
    if !status.contains(" 200 ") {
        let mut rest = String::new();
        answer.read_to_string(&mut rest)?;
        bail!("refused: {status}\n{rest}");
    }
    ensure!(is_chunked, "an answer that is not streamed in chunks");
    let (mut arrivals, mut text) = (Vec::new(), Vec::new());
    while let Some(chunk) = read_chunk(&mut answer)? {
        let now = Instant::now();
        text.extend(chunk);
        while let Some(end) = text.iter().position(|&byte| byte == b'\n') {
            let line: Vec<u8> = text.drain(..=end).collect();
            if is_piece(&line)? {
                arrivals.push(now);
                seen.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
    Ok(Arrivals(arrivals))
}

/// The first line, and whether chunks follow.
fn read_head(answer: &mut impl BufRead) -> Result<(String, bool)> {
    let mut status = String::new();
    answer.read_line(&mut status)?;
    let mut is_chunked = false;
    loop {
        let mut line = String::new();
        ensure!(answer.read_line(&mut line)? > 0, "the answer ends in its head: {status:?}");
        let line = line.trim_end().to_ascii_lowercase();
        is_chunked |= line == "transfer-encoding: chunked";
        if line.is_empty() {
            return Ok((status.trim_end().to_owned(), is_chunked));
        }
    }
}

fn read_chunk(answer: &mut impl BufRead) -> Result<Option<Vec<u8>>> {
    let mut size = String::new();
    answer.read_line(&mut size)?;
    let bytes =
        usize::from_str_radix(size.trim(), 16).with_context(|| format!("chunk {size:?}"))?;
    let mut chunk = vec![0; bytes + 2]; // A line end follows.
    answer.read_exact(&mut chunk)?;
    chunk.truncate(bytes);
    Ok((bytes > 0).then_some(chunk))
}

/// Whether this line of an event has content. An error is an error.
fn is_piece(line: &[u8]) -> Result<bool> {
    let Some(data) = line.strip_prefix(b"data: ") else { return Ok(false) };
    if data.starts_with(b"[DONE]") {
        return Ok(false);
    }
    let event: Value = serde_json::from_slice(data).context("an event that is no JSON")?;
    ensure!(event.get("error").is_none(), "the answer fails: {event}");
    let delta = &event["choices"][0]["delta"];
    let has = |field: &str| delta[field].as_str().is_some_and(|text| !text.is_empty());
    Ok(has("content") || has("reasoning_content"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_of(head: &str, chunks: &[&str]) -> Result<(usize, usize)> {
        let mut answer = head.to_owned();
        for chunk in chunks.iter().chain(&[""]) {
            answer += &format!("{:x}\r\n{chunk}\r\n", chunk.len());
        }
        let seen = AtomicUsize::new(0);
        let arrivals = read(answer.as_bytes(), &seen)?;
        Ok((arrivals.0.len(), seen.into_inner()))
    }

    const HEAD: &str = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";

    #[test]
    fn pieces_are_counted_also_where_a_chunk_cuts_an_event() {
        let chunks = [
            "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n",
            "data: {\"choices\":[{\"delta\":{\"con",
            "tent\":\"a\"}}]}\n\ndata: {\"choices\":[{\"delta\":{\"content\":\"b\"}}]}\n\n",
            "data: [DONE]\n\n",
        ];
        assert_eq!(read_of(HEAD, &chunks).expect("an answer"), (2, 2));
    }

    #[test]
    fn a_refusal_and_an_error_within_the_answer_are_errors() {
        let refused = read_of("HTTP/1.1 503 Busy\r\n\r\n", &["no"]).expect_err("refused");
        assert!(refused.to_string().contains("503"), "{refused}");
        let failed =
            read_of(HEAD, &["data: {\"error\":{\"message\":\"no\"}}\n"]).expect_err("it fails");
        assert!(failed.to_string().contains("fails"), "{failed}");
    }
}
