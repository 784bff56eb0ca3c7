//! The answer of an engine, as it arrives.
//!
//! - The usage comes behind the last piece of every choice: the ends are held back until it is there.
//! - The wait for an event may be cancelled and repeated without a loss.
//! - A stream that ends before every choice did is an error.

use std::collections::{BTreeMap, VecDeque};

use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde_json::Value;
use tokio::time::{Instant, timeout_at};

use super::chunk::{self, Part, TokenLogprobs, Usage};
use super::error::UpstreamError;
use super::lines::Lines;
use super::web::Web;

#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    More {
        choice: usize,
        content: String,
        reasoning: String,
        /// In OpenAI's form of streamed calls.
        tool_calls: Vec<Value>,
        logprobs: Vec<TokenLogprobs>,
    },
    /// Once, behind all text. Zeros where the engine counts nothing.
    Usage(Usage),
    End {
        choice: usize,
        /// OpenAI's `finish_reason`.
        reason: String,
        stop_text: Option<String>,
    },
}

/// Dropping it closes the connection.
pub struct UpstreamAnswer {
    web: Web,
    body: Incoming,
    model: String,
    lines: Lines,
    last_bytes: Instant,
    ready: VecDeque<Event>,
    /// Choices that have begun: whether and why each has ended.
    choices: BTreeMap<usize, Option<Event>>,
    usage: Usage,
    is_over: bool,
}

impl UpstreamAnswer {
    pub(super) fn new(web: Web, body: Incoming, model: String) -> Self {
        Self {
            web,
            body,
            model,
            lines: Lines::default(),
            last_bytes: Instant::now(),
            ready: VecDeque::new(),
            choices: BTreeMap::new(),
            usage: Usage::default(),
            is_over: false,
        }
    }

    /// The model that was asked for, under the engine's name.
    pub fn model(&self) -> &str {
        &self.model
    }

    /// The next event; `None` at the end.
    ///
    /// # Errors
    /// When the engine breaks off, reports an error, or is silent for too long.
    pub async fn next(&mut self) -> Result<Option<Event>, UpstreamError> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Ok(Some(event));
            }
            if self.is_over {
                return Ok(None);
            }
            let too_long = |_| self.web.foreign("a line of its stream does not end");
            match self.lines.next().map_err(too_long)? {
                Some(data) if data == "[DONE]" => self.end()?,
                Some(data) => self.parse_event(&data)?,
                None => self.read().await?,
            }
        }
    }

    async fn read(&mut self) -> Result<(), UpstreamError> {
        let deadline = self.last_bytes + self.web.silence();
        let frame = timeout_at(deadline, self.body.frame()).await;
        match frame.map_err(|_| self.web.silent(self.web.silence()))? {
            None => self.end(),
            Some(Err(error)) => Err(self.web.broken(&error)),
            Some(Ok(frame)) => {
                self.last_bytes = Instant::now();
                if let Some(bytes) = frame.data_ref() {
                    self.lines.push(bytes);
                }
                Ok(())
            }
        }
    }

    fn parse_event(&mut self, data: &str) -> Result<(), UpstreamError> {
        let chunk: Value = serde_json::from_str(data)
            .map_err(|_| self.web.foreign("an event of its stream is no JSON"))?;
        if chunk.get("error").is_some_and(|error| !error.is_null()) {
            let status = chunk["error"]["code"].as_u64().and_then(|code| u16::try_from(code).ok());
            return Err(UpstreamError::of_answer(self.web.url(), status.unwrap_or(500), data));
        }
        self.usage = chunk::usage(&chunk).unwrap_or(self.usage);
        for part in chunk::parts(&chunk) {
            self.add(part);
        }
        Ok(())
    }

    fn add(&mut self, part: Part) {
        let Part { choice, content, reasoning, tool_calls, logprobs, finish_reason, stop_text } =
            part;
        let end = self.choices.entry(choice).or_default();
        if let Some(reason) = finish_reason {
            *end = Some(Event::End { choice, reason, stop_text });
        }
        self.ready.push_back(Event::More { choice, content, reasoning, tool_calls, logprobs });
    }

    fn end(&mut self) -> Result<(), UpstreamError> {
        self.is_over = true;
        let choices = std::mem::take(&mut self.choices);
        let ends: Option<Vec<Event>> = choices.into_values().collect();
        match ends.filter(|ends| !ends.is_empty()) {
            Some(ends) => {
                self.ready.push_back(Event::Usage(self.usage));
                self.ready.extend(ends);
                Ok(())
            }
            None => {
                let url = self.web.url().to_owned();
                Err(UpstreamError::Broken { url, reason: "its stream ended early".to_owned() })
            }
        }
    }
}
