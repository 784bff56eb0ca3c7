//! Restores a whole conversation from the page cache into the cells.
//!
//! Both sides are warm: one context of llama.cpp, one engine. Each round opens a conversation that
//! the engine has not seen, after a short other one that occupied the only slot.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, ensure};
use hob_runtime::backend::llama::LlamaModel;
use hob_runtime::backend::llama::stock::Stock;
use hob_runtime::backend::{ContextShape, Sequence};
use hob_runtime::{Engine, EngineOptions, Model};
use hob_slots::Token;
use hob_slots::store::{Key, Store};

use super::Row;
use super::fabricate::Fabricator;
use crate::measure::{median_ms, time};
use crate::turns::{self, Words};

/// Tokens, and the maximum factor against llama.cpp's own file.
const SIZES: [(usize, f64); 2] = [(2048, 1.25), (32_768, 1.0)];

pub fn measure(model: &Arc<LlamaModel>, rounds: usize) -> Result<Vec<Row>> {
    let of = |(tokens, bar): (usize, f64)| [(tokens, Some(bar), false), (tokens, None, true)];
    let rows = SIZES.into_iter().flat_map(of);
    rows.map(|(tokens, bar, sealed)| measure_size(model, tokens, bar, sealed, rounds)).collect()
}

/// `sealed`: the store is encrypted.
fn measure_size(
    model: &Arc<LlamaModel>,
    count: usize,
    bar: Option<f64>,
    sealed: bool,
    rounds: usize,
) -> Result<Row> {
    let directory = tempfile::tempdir()?;
    let key = directory.path().join("key");
    let (slots, dump) = (directory.path().join("slots"), directory.path().join("dump"));
    let tokens = Words::new(model.vocabulary().len()).next(count);
    let context_tokens = count + 512;
    let shape = ContextShape { context_tokens, sequences: 3, micro_batch: 512 };
    let mut stock = Stock::new(model, shape)?;
    let open = || -> Result<Store> {
        let store = Store::open(&slots)?;
        Ok(if sealed { store.sealed(&Key::load_or_make(&key)?)? } else { store })
    };
    write(model, &mut stock, &open()?, &dump, &tokens, rounds)?;
    let dump_bytes = fs::metadata(&dump)?.len();
    let options = EngineOptions { context_tokens, slots: 1, ..EngineOptions::default() };
    let engine = turns::start_on(model.clone(), open()?, options)?;

    let (mut own, mut theirs) = (Vec::new(), Vec::new());
    for round in 0..=rounds {
        stock.backend().clear(Sequence(0));
        let (their_time, (read, _)) = time(|| stock.load(Sequence(0), &dump, count));
        ensure!(read as u64 == dump_bytes, "llama.cpp read {read} of {dump_bytes} bytes");
        let own_time = restore(&engine, round, &tokens)?;
        if round > 0 {
            // The first one fills the page cache and the buffers.
            own.push(own_time);
            theirs.push(their_time);
        }
    }
    engine.shutdown();
    let (own, theirs) = (median_ms(&own), median_ms(&theirs));
    Ok(Row {
        what: format!(
            "restore {count} tokens, {} MB, {}verified",
            dump_bytes / 1_000_000,
            if sealed { "encrypted and " } else { "" }
        ),
        measured: format!("{own:.1} ms, llama.cpp's file {theirs:.1} ms"),
        ratio: own / theirs,
        bar,
        unit: " x",
    })
}

/// Writes the same cells for both: as objects, and as one dump.
fn write(
    model: &LlamaModel,
    stock: &mut Stock<'_>,
    store: &Store,
    dump: &Path,
    tokens: &[Token],
    rounds: usize,
) -> Result<()> {
    let (sequence, scratch) = (Sequence(0), Sequence(2));
    let mut kv = Fabricator::new(stock.backend())?;
    for round in 0..=rounds {
        kv.keep(store, model.vocabulary(), &name(round), tokens)?;
    }
    for start in (0..tokens.len()).step_by(64) {
        let range = start..tokens.len().min(start + 64);
        let backend = stock.backend();
        backend.import(scratch, &kv.state(range.clone()))?;
        backend.share(scratch, sequence, range);
        backend.clear(scratch);
    }
    ensure!(stock.save(sequence, dump, tokens) > 0, "llama.cpp could not write its file");
    fs::File::open(dump)?.sync_all()?;
    Ok(())
}

/// Continues a conversation. Returns the time until its KV was in place.
fn restore(engine: &Engine, round: usize, tokens: &[Token]) -> Result<Duration> {
    turns::ask(engine, turns::request("other", &tokens[1..3], 0))?;
    turns::settle(engine);
    let (report, _) = turns::ask(engine, turns::request(&name(round), tokens, 0))?;
    ensure!(report.tokens.disk == tokens.len() - 1, "all of it is restored: {report:?}");
    Ok(Duration::from_secs_f64(report.restore_ms / 1e3))
}

fn name(round: usize) -> String {
    format!("bench-{round}")
}
