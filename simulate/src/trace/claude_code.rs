//! Claude Code sessions: `s` session, `th` thread, `t` seconds, `in`, `out` tokens, `stop`, `think`
//! and `api` seconds, and the blocks of 64 tokens: `keep` of the thread's last ones, and ranges to
//! `add`.
//!
//! - Block names chain, so the eighth of eight small blocks names the large one.
//! - Block names differ between sessions, so sessions share nothing.

use std::collections::HashMap;

use hob_slots::evict::AnswerEnd;
use serde::Deserialize;

use super::{Request, TraceError};
use crate::BLOCK_TOKENS;

const SMALL_BLOCKS: usize = BLOCK_TOKENS as usize / 64;

#[derive(Deserialize)]
struct Line {
    s: String,
    th: String,
    t: f64,
    r#in: u64,
    out: u64,
    keep: usize,
    add: Vec<(u64, u64)>,
    stop: String,
    #[serde(default)]
    think: Option<f64>,
    #[serde(default)]
    api: Option<f64>,
}

pub fn parse(lines: &[String]) -> Result<Vec<Vec<Request>>, TraceError> {
    let mut sessions: Vec<Vec<Request>> = Vec::new();
    let mut session = String::new();
    let mut threads: HashMap<String, Vec<u64>> = HashMap::new();
    for (at, line) in lines.iter().enumerate() {
        let line: Line = serde_json::from_str(line)
            .map_err(|source| TraceError::Line { line: at + 1, source })?;
        if line.s != session || sessions.is_empty() {
            session.clone_from(&line.s);
            sessions.push(Vec::new());
            threads.clear();
        }
        let small = threads.entry(line.th).or_default();
        if line.keep > small.len() {
            let (kept, before) = (line.keep, small.len());
            return Err(TraceError::Keeps { line: at + 1, kept, before });
        }
        small.truncate(line.keep);
        small.extend(line.add.iter().flat_map(|&(first, count)| first..first + count));
        let number = (sessions.len() as u64) << 32;
        let large = small.chunks_exact(SMALL_BLOCKS).map(|small| number + small[SMALL_BLOCKS - 1]);
        let requests = sessions.last_mut().expect("a session was begun");
        requests.push(Request {
            at_millis: millis(line.t),
            think_millis: millis(line.think.unwrap_or(0.0)),
            answer_millis: millis(line.api.unwrap_or(0.0)),
            input_tokens: line.r#in,
            output_tokens: line.out,
            blocks: large.collect(),
            ended: match line.stop.as_str() {
                "tool_use" => AnswerEnd::ToolCall,
                "end_turn" => AnswerEnd::Turn,
                _ => AnswerEnd::Unknown,
            },
        });
    }
    Ok(sessions)
}

fn millis(secs: f64) -> u64 {
    (secs.max(0.0) * 1_000.0) as u64
}
