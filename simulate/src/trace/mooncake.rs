//! Mooncake: `timestamp` in ms, `input_length`, `output_length`, `hash_ids` of blocks of 512 tokens.

use hob_slots::evict::AnswerEnd;
use serde::Deserialize;

use super::{Request, TraceError};

#[derive(Deserialize)]
struct Line {
    timestamp: u64,
    input_length: u64,
    output_length: u64,
    hash_ids: Vec<u64>,
}

pub fn parse(lines: &[String]) -> Result<Vec<Request>, TraceError> {
    let parsed = lines.iter().enumerate().map(|(at, line)| {
        let line: Line = serde_json::from_str(line)
            .map_err(|source| TraceError::Line { line: at + 1, source })?;
        Ok(Request {
            at_millis: line.timestamp,
            think_millis: 0,
            answer_millis: 0,
            input_tokens: line.input_length,
            output_tokens: line.output_length,
            blocks: line.hash_ids,
            ended: AnswerEnd::Unknown,
        })
    });
    parsed.collect()
}
