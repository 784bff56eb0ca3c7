//! The sweep over a directory that is full of conversations, alone and beside a running answer.

use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use hob_runtime::backend::llama::LlamaModel;
use hob_runtime::{Engine, EngineOptions, Model, TurnEvent};
use hob_slots::Moment;
use hob_slots::store::Store;
use hob_slots::sweep::{Nobody, Rules, Sweeper};

use super::Row;
use super::fabricate::LAST_USE;
use super::listing::{CONVERSATIONS, fill};
use crate::measure::median_ms;
use crate::turns::{self, FINGERPRINT, Words};

/// Processor time that one sweep may take.
const CPU_BAR_MS: f64 = 300.0;

/// A stall that is longer than what the machine's own noise makes of one token.
const STALL_BAR: f64 = 1.25;

/// Tokens of the answer that runs meanwhile; the sweep begins at the first of them.
const TOKENS: usize = 24;

pub fn measure(model: &Arc<LlamaModel>, rounds: usize) -> Result<Vec<Row>> {
    let directory = tempfile::tempdir()?;
    fill(directory.path())?;
    let objects = fill_objects(directory.path())?;
    Ok(vec![alone(directory.path(), objects, rounds)?, beside(model, directory.path(), rounds)?])
}

fn alone(directory: &Path, objects: usize, rounds: usize) -> Result<Row> {
    let store = Store::open(directory)?;
    let mut times = Vec::new();
    for round in 0..=rounds {
        let before = cpu_time()?;
        let swept = Sweeper::new(Rules::default()).sweep(&store, &now(), &Nobody);
        let took = cpu_time()?.saturating_sub(before);
        ensure!(swept.errors.is_empty() && swept.expired + swept.collected == 0, "{swept:?}");
        if round > 0 {
            times.push(took); // The first one fills the page cache.
        }
    }
    Ok(Row {
        what: format!("a sweep over {CONVERSATIONS} slot files, CPU"),
        measured: format!("with {objects} objects"),
        ratio: median_ms(&times),
        bar: CPU_BAR_MS,
        unit: " ms",
    })
}

/// The longest gap between two tokens of an answer, with a sweep and without, interleaved.
fn beside(model: &Arc<LlamaModel>, directory: &Path, rounds: usize) -> Result<Row> {
    let options = EngineOptions { context_tokens: 4096, slots: 2, ..EngineOptions::default() };
    let engine = turns::start(model.clone(), directory, options)?;
    let prompt = Words::new(model.vocabulary().len()).next(256);
    let (mut quiet, mut swept) = (Vec::new(), Vec::new());
    for round in 0..=rounds {
        let without = longest_gap(&engine, &prompt, false)?;
        let with = longest_gap(&engine, &prompt, true)?;
        if round > 0 {
            quiet.push(without);
            swept.push(with);
        }
    }
    engine.shutdown();
    let (quiet, swept) = (median_ms(&quiet), median_ms(&swept));
    Ok(Row {
        what: "longest gap between two tokens while it sweeps".to_owned(),
        measured: format!("{swept:.1} ms, without a sweep {quiet:.1} ms"),
        ratio: swept / quiet,
        bar: STALL_BAR,
        unit: " x",
    })
}

fn longest_gap(engine: &Engine, prompt: &[hob_slots::Token], sweeps: bool) -> Result<Duration> {
    turns::settle(engine);
    let request = turns::request("speaker", prompt, TOKENS);
    let mut turn = engine.submit(request)?;
    let (mut last, mut longest) = (None::<Instant>, Duration::ZERO);
    std::thread::scope(|scope| {
        while let Some(event) = turn.next_blocking() {
            if !matches!(event, TurnEvent::Token { .. }) {
                continue;
            }
            if last.is_none() && sweeps {
                let sweeper = Arc::new(Mutex::new(Sweeper::new(Rules::default())));
                scope.spawn(|| turns::wait_for(engine.sweep(sweeper, now())));
            }
            let now = Instant::now();
            longest = longest.max(last.map_or(Duration::ZERO, |last| now - last));
            last = Some(now);
        }
    });
    Ok(longest)
}

/// Every object that a slot file names, as an empty file: a sweep looks at names alone.
fn fill_objects(directory: &Path) -> Result<usize> {
    let store = Store::open(directory)?;
    let needed = store.needed_objects(FINGERPRINT)?;
    let objects = directory.join(FINGERPRINT.to_string()).join("objects");
    for id in &needed {
        let name = id.to_string();
        let shelf = objects.join(&name[..2]);
        fs::create_dir_all(&shelf)?;
        fs::write(shelf.join(format!("{name}.kv")), "")?;
    }
    Ok(needed.len())
}

/// When the fabricated conversations were last used: none of them is old.
fn now() -> Moment {
    LAST_USE.into()
}

/// Processor time of all threads of this process, in steps of 10 ms.
fn cpu_time() -> Result<Duration> {
    let stat = fs::read_to_string("/proc/self/stat").context("processor time is read on Linux")?;
    // The second field may contain spaces; it ends with the last parenthesis.
    let fields = stat.rsplit_once(')').context("stat has a name")?.1;
    let ticks: Vec<i64> = fields.split_whitespace().filter_map(|f| f.parse().ok()).collect();
    // `utime` and `stime` are fields 14 and 15; the state, field 3, is no number.
    let (user, system) = (ticks.get(10), ticks.get(11));
    let ticks = user.zip(system).map(|(user, system)| user + system).context("stat has times")?;
    let ticks = u64::try_from(ticks).context("time only grows")?;
    Ok(Duration::from_millis(ticks * 10)) // 100 ticks a second on every Linux.
}
