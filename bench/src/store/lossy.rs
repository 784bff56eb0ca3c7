//! Restores a conversation whose KV was rounded, beside the exact one, and compares their bytes.
//!
//! Two engines over two directories with the same conversations; in one, they have aged. Each round opens a
//! conversation that neither engine has seen, interleaved.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, ensure};
use hob_runtime::backend::llama::LlamaModel;
use hob_runtime::backend::llama::stock::Stock;
use hob_runtime::backend::{ContextShape, Sequence};
use hob_runtime::{Engine, EngineOptions, Model};
use hob_slots::store::Store;
use hob_slots::{
    AdjustedTime, Lifetimes, LiveRefs, Lossy, ModelHash, Quota, Rules, Sweeper, Timestamp, Token,
};

use super::Row;
use super::fabricate::{Fabricator, LAST_USE};
use crate::measure::median_ms;
use crate::turns::{self, Words};

/// 25 MB of exact KV.
const TOKENS: usize = 2048;

/// The restore of rounded KV against that of exact KV, and the bytes on disk.
const BARS: [(Lossy, Option<f64>, Option<f64>); 2] =
    [(Lossy::Q8, Some(1.5), Some(0.55)), (Lossy::Q4, None, Some(0.3))];

pub fn measure(model: &Arc<LlamaModel>, rounds: usize) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for (lossy, restore_bar, bytes_bar) in BARS {
        rows.extend(measure_tier(model, rounds, lossy, restore_bar, bytes_bar)?);
    }
    Ok(rows)
}

fn measure_tier(
    model: &Arc<LlamaModel>,
    rounds: usize,
    lossy: Lossy,
    restore_bar: Option<f64>,
    bytes_bar: Option<f64>,
) -> Result<[Row; 2]> {
    let directories = [tempfile::tempdir()?, tempfile::tempdir()?];
    let tokens = Words::new(model.vocabulary().len()).next(TOKENS);
    let context_tokens = TOKENS + 512;
    for directory in &directories {
        let shape = ContextShape { context_tokens, sequences: 3, micro_batch: 512 };
        let mut stock = Stock::new(model, shape)?;
        stock.backend().clear(Sequence(0));
        let mut kv = Fabricator::new(stock.backend())?;
        let store = Store::open(directory.path())?;
        for round in 0..=rounds {
            kv.keep(&store, model.vocabulary(), &name(round), &tokens)?;
        }
    }
    age(model, directories[1].path(), lossy, rounds)?;
    let bytes = [object_bytes(directories[0].path())?, object_bytes(directories[1].path())?];
    let start = |directory: &Path| {
        let lossy = Some(lossy);
        let options = EngineOptions { context_tokens, slots: 1, lossy, ..EngineOptions::default() };
        turns::start_on(model.clone(), Store::open(directory)?, options)
    };
    let engines = [start(directories[0].path())?, start(directories[1].path())?];
    let mut times = [Vec::new(), Vec::new()];
    for round in 0..=rounds {
        for (at, engine) in engines.iter().enumerate() {
            let time = restore(engine, round, &tokens, at == 1)?;
            if round > 0 {
                times[at].push(time); // The first one fills the page cache and the buffers.
            }
        }
    }
    for engine in engines {
        engine.shutdown();
    }
    let [exact, rounded] = times.map(|times| median_ms(&times));
    Ok([
        Row {
            what: format!("restore {TOKENS} tokens, 25 MB, rounded to {lossy}"),
            measured: format!("{rounded:.1} ms, exact {exact:.1} ms"),
            ratio: rounded / exact,
            bar: restore_bar,
            unit: " x",
        },
        Row {
            what: format!("bytes of {TOKENS} tokens on disk, rounded to {lossy}"),
            measured: format!("{} bytes, exact {}", bytes[1], bytes[0]),
            ratio: bytes[1] as f64 / bytes[0] as f64,
            bar: bytes_bar,
            unit: " x",
        },
    ])
}

/// Sweeps the directory two hours after the last use of its conversations.
fn age(model: &Arc<LlamaModel>, slots: &Path, lossy: Lossy, rounds: usize) -> Result<()> {
    let day = Duration::from_secs(24 * 3_600);
    let rules = Rules {
        lifetimes: Lifetimes { long: day, ..Lifetimes::default() },
        quota: Quota::Bytes(u64::MAX),
        lossy: Some(lossy),
        grace: Duration::ZERO,
        max_rounded_bytes: u64::MAX,
        max_compressed_bytes: 0,
        ..Rules::default()
    };
    let now = AdjustedTime::from(Timestamp(LAST_USE.0 + 2 * 3_600_000));
    let store = Store::open(slots)?;
    let swept = Sweeper::new(rules).sweep(&store, &now, &Rounder(model.clone()));
    ensure!(swept.errors.is_empty(), "{:?}", swept.errors);
    ensure!(swept.rounded == rounds + 1, "all conversations are rounded: {swept:?}");
    Ok(())
}

/// An engine without open conversations.
struct Rounder(Arc<LlamaModel>);

impl LiveRefs for Rounder {
    fn can_round(&self, _: ModelHash) -> bool {
        true
    }

    fn rounded(&self, payload: &[u8], lossy: Lossy) -> Option<Vec<u8>> {
        self.0.round_state(payload, lossy).ok()
    }

    hob_slots::as_without_engine!(
        is_open,
        is_stopping,
        slot_file_removed,
        slot_file_replaced,
        while_none_reads,
        objects_lost,
        block_renamed,
        with_unreferenced
    );
}

/// Continues a conversation. Returns the time until its KV was in place.
fn restore(engine: &Engine, round: usize, tokens: &[Token], rounded: bool) -> Result<Duration> {
    turns::ask(engine, turns::request("other", &tokens[1..3], 0))?;
    turns::settle(engine);
    let (report, _) = turns::ask(engine, turns::request(&name(round), tokens, 0))?;
    ensure!(report.tokens.disk == tokens.len() - 1, "all of it is restored: {report:?}");
    ensure!((report.tokens.lossy > 0) == rounded, "from the tier that is measured: {report:?}");
    Ok(Duration::from_secs_f64(report.restore_ms / 1e3))
}

fn object_bytes(slots: &Path) -> Result<u64> {
    let mut bytes = 0;
    let mut waiting = vec![slots.to_owned()];
    while let Some(directory) = waiting.pop() {
        for entry in fs::read_dir(directory)? {
            let (path, facts) = entry.and_then(|entry| Ok((entry.path(), entry.metadata()?)))?;
            if facts.is_dir() {
                waiting.push(path);
            } else if path.extension().is_some_and(|extension| extension == "kv") {
                bytes += facts.len();
            }
        }
    }
    Ok(bytes)
}

fn name(round: usize) -> String {
    format!("bench-{round}")
}
