//! Answers, token by token.
//!
//! KV that came back wrong shows in how likely the model finds its words, long before it shows in
//! the words. KV that came back right leaves rounding alone: the same tokens were computed in other
//! micro-batches. Rounding may turn the balance where two tokens are equally likely, as "Okay" and
//! "I will remember" are.

use hob_testkit::client::Event;
use serde_json::Value;

/// Of a natural logarithm. Over 300 rounds rounding stayed below 0.017.
const ROUNDING: f64 = 0.05;

/// A token of an answer.
#[derive(Debug)]
pub struct Token {
    bytes: Value,
    logprob: f64,
    /// The likeliest ones, where they were asked for.
    top: Vec<Token>,
}

impl Token {
    /// The tokens of a choice, or of a piece of one.
    pub fn of_choice(choice: &Value) -> Vec<Self> {
        let content = choice["logprobs"]["content"].as_array();
        content.into_iter().flatten().map(Self::of).collect()
    }

    /// The tokens of an answer that came in events.
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
    match expected.len() == heard.len() {
        true => Ok(()),
        false => Err(format!("{} tokens instead of {}", heard.len(), expected.len())),
    }
}
