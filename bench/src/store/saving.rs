//! One more turn of a conversation: what the engine's thread spends on keeping it, and what it adds
//! to the disk.
//!
//! The conversation's first 19 turns are fabricated; the 20th is computed, generated and kept by the
//! engine. It ends, like every turn of a chat, with the end-of-turn token.

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use hob_runtime::backend::ContextShape;
use hob_runtime::backend::llama::LlamaModel;
use hob_runtime::backend::llama::stock::Stock;
use hob_runtime::sample::Sampling;
use hob_runtime::{EngineOptions, Model, TurnRequest};
use hob_slots::Token;
use hob_slots::store::Store;

use super::fabricate::Fabricator;
use super::{KV_BYTES, Row};
use crate::turns::{self, Words};

const TOKENS: usize = 4096;
const TURNS: usize = 20;
const CONTEXT_TOKENS: usize = TOKENS + 1024;

/// The most that keeping 100 tokens may cost the engine's thread.
const STALL_BAR_MS: f64 = 1.0;
/// The most that a turn may write: of its KV, and beyond that.
const WRITTEN_BAR: f64 = 1.1;
const WRITTEN_BAR_BYTES: f64 = 16.0 * 1024.0;

pub fn measure(model: &Arc<LlamaModel>) -> Result<[Row; 2]> {
    let directory = tempfile::tempdir()?;
    let vocabulary = model.vocabulary();
    let end = *vocabulary.eog_tokens().first().context("the vocabulary has an end of turn")?;
    let mut timeline = earlier_turns(&mut Words::new(vocabulary.len()), end);
    let before = timeline.len();
    {
        let shape = ContextShape { context_tokens: 1024, sequences: 3, micro_batch: 512 };
        let mut kv = Fabricator::new(Stock::new(model, shape)?.backend())?;
        kv.keep(&Store::open(directory.path())?, vocabulary, "bench", &timeline)?;
    }
    timeline.extend(Words::new(vocabulary.len() - 1).next(TOKENS - before - 1));

    let options =
        EngineOptions { context_tokens: CONTEXT_TOKENS, slots: 2, ..EngineOptions::default() };
    let engine = turns::start(model.clone(), directory.path(), options)?;
    let (report, whole) = turns::ask(&engine, ending(&timeline, end))?;
    turns::settle(&engine);
    let counters = turns::status(&engine).counters;
    engine.shutdown();
    ensure!(report.tokens.disk == before, "19 turns come from disk: {report:?}");
    ensure!(whole.len() == TOKENS && whole.last() == Some(&end), "the turn ends as it should");

    let new = TOKENS - before;
    let kv_bytes = (new * KV_BYTES) as f64;
    let stall_ms = counters.keeping_micros as f64 / 1e3;
    Ok([
        Row {
            what: "stall of the engine by keeping 100 tokens".to_owned(),
            measured: format!("{stall_ms:.2} ms for {new} tokens"),
            ratio: stall_ms / new as f64 * 100.0,
            bar: STALL_BAR_MS,
            unit: " ms",
        },
        Row {
            what: format!("written by turn {TURNS} of {TOKENS} tokens, less 16 KiB"),
            measured: format!("{} bytes for {new} tokens", counters.written_bytes),
            ratio: (counters.written_bytes as f64 - WRITTEN_BAR_BYTES) / kv_bytes,
            bar: WRITTEN_BAR,
            unit: " x KV",
        },
    ])
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
fn ending(prompt: &[Token], end: Token) -> TurnRequest {
    let sampling = Sampling { logit_bias: vec![(end, 100.0)], ..Sampling::greedy() };
    TurnRequest { sampling, ignore_eog: false, ..turns::request("bench", prompt, 8) }
}
