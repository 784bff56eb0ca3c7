//! Answers, token by token.
//!
//! Wrong KV changes the probabilities of tokens long before it changes the chosen tokens. Right KV
//! leaves rounding only: the same tokens were computed in other micro-batches. Rounding may decide
//! between two equally likely tokens.

use hob_testkit::client::Event;
use serde_json::Value;

/// Difference of natural logarithms. It stayed below 0.017 over 300 rounds.
const ROUNDING: f64 = 0.05;

/// A token of an answer.
#[derive(Debug)]
pub struct Token {
    bytes: Value,
    logprob: f64,
    /// The most likely ones, if the request asks for them.
    top: Vec<Token>,
}

impl Token {
    /// The tokens of a choice or of a chunk.
    pub fn of_choice(choice: &Value) -> Vec<Self> {
        let content = choice["logprobs"]["content"].as_array();
        content.into_iter().flatten().map(Self::of).collect()
    }

    /// The tokens of a streamed answer.
    pub fn of_events(events: &[Event]) -> Vec<Self> {
        let choice = |event: &Event| match event {
            Event::Data(chunk) => Self::of_choice(&chunk["choices"][0]),
            Event::Done => Vec::new(),
        };
        events.iter().flat_map(choice).collect()
    }

    fn of(entry: &Value) -> Self {
        let top = entry["top_logprobs"].as_array().into_iter().flatten();
        Self {
            bytes: entry["bytes"].clone(),
            logprob: entry["logprob"].as_f64().unwrap(),
            top: top.map(Self::of).collect(),
        }
    }
}

/// Whether `heard` is the answer that was expected, up to rounding.
pub fn agree(expected: &[Token], heard: &[Token]) -> Result<(), String> {
    for (expected, heard) in expected.iter().zip(heard) {
        let close = |one: &Token, other: &Token| (one.logprob - other.logprob).abs() < ROUNDING;
        match expected.top.iter().find(|likely| likely.bytes == heard.bytes) {
            Some(same) if close(same, heard) && close(same, expected) => {}
            _ => return Err(format!("{heard:?} instead of {expected:?}")),
        }
        if expected.bytes != heard.bytes {
            return Ok(()); // A tie: from here on these are different answers.
        }
    }
    if expected.len() == heard.len() {
        return Ok(());
    }
    Err(format!("{} tokens instead of {}", heard.len(), expected.len()))
}
