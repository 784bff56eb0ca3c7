//! What a turn of a model with windows or running states writes, and what its snapshots cost.
//!
//! - Bytes: of a turn behind 1,024 tokens, less one snapshot of the rest, against the KV of its new
//!   tokens; of a model without attention, against the snapshot.
//! - Time of the engine's thread: for the rest from which "regenerate" continues, what stands in
//!   front of the first token (a running state is marked) and behind it (it is copied).
//!
//! The models are fixtures with random weights: the ratios are those of any model of the family, the
//! times are not.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result};
use hob_runtime::backend::llama::{LlamaModel, LlamaOptions};
use hob_runtime::backend::{Backend, ContextShape, Sequence};
use hob_runtime::{EngineOptions, Model};
use hob_slots::Token;

use super::Row;
use crate::measure::median_ms;
use crate::turns::{self, Words};

const FAMILIES: [&str; 3] = ["gemma3", "lfm2", "mamba"];
const BEFORE: usize = 1024;
const NEW: usize = 512;
const MICRO_BATCH: usize = 128;

/// Maximum bytes of a turn, less one snapshot: a multiple of the KV of its new tokens.
const WRITTEN_BAR: f64 = 1.2;

pub fn measure(rounds: usize) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for name in FAMILIES {
        let assets = Path::new(env!("CARGO_MANIFEST_DIR")).join("../assets/fixtures");
        let path = assets.join(name).with_extension("gguf");
        let model = Arc::new(LlamaModel::load(&path, LlamaOptions::default())?);
        let sizes = sizes(&model, rounds)?;
        let (written, new) = one_turn(&model)?;
        let kv = sizes.token_bytes * new as f64;
        let (of, unit) = if kv > 0.0 { (kv, " x KV") } else { (sizes.rest_bytes as f64, " x it") };
        rows.push(Row {
            what: format!("written by a turn of {new} tokens of {name}, less a snapshot"),
            measured: format!("{written} bytes; KV {kv:.0}, a snapshot {}", sizes.rest_bytes),
            ratio: (written as f64 - sizes.rest_bytes as f64) / of,
            bar: (kv > 0.0).then_some(WRITTEN_BAR),
            unit,
        });
        for (when, ms) in [("in front of", sizes.mark_ms), ("behind", sizes.copy_ms)] {
            rows.push(Row {
                what: format!("of {name}, {when} the first token"),
                measured: format!("a snapshot of {} bytes", sizes.rest_bytes),
                ratio: ms,
                bar: None,
                unit: " ms",
            });
        }
    }
    Ok(rows)
}

#[derive(Default)]
struct Sizes {
    /// Size of one token's cells, as far as they are saved in blocks.
    token_bytes: f64,
    rest_bytes: usize,
    mark_ms: f64,
    copy_ms: f64,
}

fn sizes(model: &Arc<LlamaModel>, rounds: usize) -> Result<Sizes> {
    let shape = ContextShape { context_tokens: 2 * BEFORE, sequences: 3, micro_batch: MICRO_BATCH };
    let mut sizes = Err(anyhow::anyhow!("no context"));
    model.with_context(shape, &mut |backend| sizes = sizes_in(backend, model, rounds))?;
    sizes
}

fn sizes_in(backend: &mut dyn Backend, model: &Arc<LlamaModel>, rounds: usize) -> Result<Sizes> {
    let (sequence, scratch) = (Sequence(0), Sequence(1));
    let tokens = Words::new(model.vocabulary().len()).next(BEFORE + rounds);
    let row = |position: usize| hob_runtime::backend::Row {
        token: tokens[position],
        position,
        sequence,
        wants_logits: false,
    };
    for start in (0..BEFORE).step_by(MICRO_BATCH) {
        backend.decode(&(start..start + MICRO_BATCH).map(row).collect::<Vec<_>>())?;
    }
    let mut sizes = Sizes::default();
    if backend.has_ranges() {
        let mut bytes = |end: usize| {
            backend.share(sequence, scratch, 0..end);
            let state = backend.export_cells(scratch, Vec::new());
            backend.clear(scratch);
            state.map(|state| state.len() as f64)
        };
        sizes.token_bytes = (bytes(BEFORE)? - bytes(BEFORE / 2)?) / (BEFORE / 2) as f64;
    }
    let marks_before = !model.facts().memory.can_drop_newest();
    let (mut marks, mut copies) = (Vec::new(), Vec::new());
    for position in BEFORE..BEFORE + rounds {
        let began = Instant::now();
        if marks_before {
            backend.share(sequence, scratch, 0..position);
        }
        marks.push(began.elapsed());
        backend.decode(&[row(position)])?;
        let began = Instant::now();
        if !marks_before {
            backend.share(sequence, scratch, 0..position);
        }
        sizes.rest_bytes = backend.export_rest(scratch)?.len();
        backend.clear(scratch);
        copies.push(began.elapsed());
    }
    sizes.mark_ms = median_ms(&marks);
    sizes.copy_ms = median_ms(&copies);
    Ok(sizes)
}

/// The bytes that a turn writes, and its new tokens.
fn one_turn(model: &Arc<LlamaModel>) -> Result<(u64, usize)> {
    let vocabulary = model.vocabulary();
    let end = *vocabulary.eog_tokens().first().context("the vocabulary has an end of turn")?;
    let mut words = Words::new(vocabulary.len() - 1);
    let directory = tempfile::tempdir()?;
    let options =
        EngineOptions { context_tokens: 4 * BEFORE, slots: 2, ..EngineOptions::default() };
    let engine = turns::start(model.clone(), directory.path(), options)?;
    let first: Vec<Token> = words.next(BEFORE);
    let (_, whole) = turns::ask(&engine, super::saving::ending(&first, end))?;
    turns::settle(&engine);
    let before = turns::status(&engine).counters.written_bytes;
    let prompt = [&whole[..], &words.next(NEW)].concat();
    let (_, longer) = turns::ask(&engine, super::saving::ending(&prompt, end))?;
    turns::settle(&engine);
    let written = turns::status(&engine).counters.written_bytes - before;
    engine.shutdown();
    Ok((written, longer.len() - whole.len()))
}
