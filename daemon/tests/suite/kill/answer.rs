//! Compares answers token by token.
//!
//! Wrong KV changes the probabilities of tokens long before it changes the chosen tokens. Right KV
//! leaves rounding only: the same tokens were computed in other micro-batches. Rounding may decide
//! between two equally likely tokens.

use hob_testkit::client::Event;
use serde_json::Value;

/// Maximum difference of natural logarithms. The largest in 300 rounds was below 0.017.
const ROUNDING: f64 = 0.05;

/// A token of an answer.
#[derive(Debug)]
pub struct Token {
    bytes: Value,
    logprob: f64,
    /// The most likely tokens, if the request asks for them.
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

/// `Err` names the first difference between the answers that exceeds [`ROUNDING`].
pub fn agree(expected: &[Token], received: &[Token]) -> Result<(), String> {
    for (expected, received) in expected.iter().zip(received) {
        let close = |one: &Token, other: &Token| (one.logprob - other.logprob).abs() < ROUNDING;
        match expected.top.iter().find(|likely| likely.bytes == received.bytes) {
            Some(same) if close(same, received) && close(same, expected) => {}
            _ => return Err(format!("{received:?} instead of {expected:?}")),
        }
        if expected.bytes != received.bytes {
            return Ok(()); // A tie: the answers diverge from here on.
        }
    }
    if expected.len() == received.len() {
        return Ok(());
    }
    Err(format!("{} tokens instead of {}", received.len(), expected.len()))
}
