//! The 20th turn of a conversation: the time that the engine's thread spends on saving it, and the
//! bytes that it adds to the disk.
//!
//! The first 19 turns are fabricated; the engine computes, generates and saves the 20th. It ends,
//! like every turn of a chat, with the end-of-turn token.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use hob_runtime::backend::ContextShape;
use hob_runtime::backend::llama::LlamaModel;
use hob_runtime::backend::llama::stock::Stock;
use hob_runtime::sample::Sampling;
use hob_runtime::{EngineCounters, EngineOptions, Model, TurnRequest};
use hob_slots::Token;
use hob_slots::store::Store;

use super::Row;
use super::fabricate::Fabricator;
use crate::measure::median_ms;
use crate::turns::{self, Words};

const TOKENS: usize = 4096;
const TURNS: usize = 20;
const CONTEXT_TOKENS: usize = TOKENS + 1024;

/// Maximum time of the engine's thread for 100 tokens.
const STALL_BAR_MS: f64 = 1.0;
/// Maximum bytes that a turn writes: a multiple of its KV, and a constant.
const WRITTEN_BAR: f64 = 1.1;
const WRITTEN_BAR_BYTES: f64 = 16.0 * 1024.0;

pub fn measure(model: &Arc<LlamaModel>, rounds: usize) -> Result<[Row; 2]> {
    let directory = tempfile::tempdir()?;
    let vocabulary = model.vocabulary();
    let end = *vocabulary.eog_tokens().first().context("the vocabulary has an end of turn")?;
    let timeline = earlier_turns(&mut Words::new(vocabulary.len()), end);
    let shape = ContextShape { context_tokens: 1024, sequences: 3, micro_batch: 512 };
    let mut kv = Fabricator::new(Stock::new(model, shape)?.backend())?;
    // Each round has other words.
    let mut words = Words::new(vocabulary.len() - 1);
    let (mut stalls, mut written) = (Vec::new(), 0);
    for _ in 0..rounds {
        kv.keep(&Store::open(directory.path())?, vocabulary, "bench", &timeline)?;
        let prompt = [&timeline[..], &words.next(TOKENS - timeline.len() - 1)].concat();
        let counters = last_turn(model, directory.path(), &prompt, timeline.len(), end)?;
        stalls.push(Duration::from_micros(counters.keeping_micros));
        written = written.max(counters.written_bytes);
    }
    let new = TOKENS - timeline.len();
    let stall_ms = median_ms(&stalls);
    Ok([
        Row {
            what: "stall of the engine by saving 100 tokens".to_owned(),
            measured: format!("{stall_ms:.2} ms for {new} tokens"),
            ratio: stall_ms / new as f64 * 100.0,
            bar: Some(STALL_BAR_MS),
            unit: " ms",
        },
        Row {
            what: format!("written by turn {TURNS} of {TOKENS} tokens, less 16 KiB"),
            measured: format!("{written} bytes for {new} tokens"),
            ratio: (written as f64 - WRITTEN_BAR_BYTES) / (new * kv.token_bytes()) as f64,
            bar: Some(WRITTEN_BAR),
            unit: " x KV",
        },
    ])
}

/// The turn that the engine serves. Returns its counters.
fn last_turn(
    model: &Arc<LlamaModel>,
    slots: &Path,
    prompt: &[Token],
    kept: usize,
    end: Token,
) -> Result<EngineCounters> {
    let options =
        EngineOptions { context_tokens: CONTEXT_TOKENS, slots: 2, ..EngineOptions::default() };
    let engine = turns::start(model.clone(), slots, options)?;
    let (report, whole) = turns::ask(&engine, ending(prompt, end))?;
    turns::settle(&engine);
    let counters = turns::status(&engine).counters;
    engine.shutdown();
    ensure!(report.tokens.disk == kept, "19 turns come from disk: {report:?}");
    ensure!(whole.len() == TOKENS && whole.last() == Some(&end), "the turn ends as it should");
    Ok(counters)
}

fn earlier_turns(words: &mut Words, end: Token) -> Vec<Token> {
    let mut timeline = Vec::new();
    for turn in 1..TURNS {
        let length = TOKENS * turn / TURNS - timeline.len();
        timeline.extend(words.next(length - 1));
        timeline.push(end);
    }
    timeline
}

/// A turn whose answer is the end-of-turn token.
pub(super) fn ending(prompt: &[Token], end: Token) -> TurnRequest {
    let sampling = Sampling { logit_bias: vec![(end, 1e6)], ..Sampling::greedy() };
    TurnRequest { sampling, ignore_eog: false, ..turns::request("bench", prompt, 8) }
}
