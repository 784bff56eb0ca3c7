//! A sweep over 10,000 conversations, alone and beside a running answer.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use hob_runtime::backend::llama::LlamaModel;
use hob_runtime::{Engine, EngineOptions, Model, TurnEvent};
use hob_slots::AdjustedTime;
use hob_slots::store::Store;
use hob_slots::sweep::{NoEngine, Rules, Sweeper};
use parking_lot::Mutex;

use super::Row;
use super::fabricate::LAST_USE;
use super::listing::{CONVERSATIONS, fill};
use crate::measure::{cpu_time, median_ms};
use crate::turns::{self, FINGERPRINT, Words, wait_for};

/// Maximum processor time of one sweep.
const CPU_BAR_MS: f64 = 300.0;

/// Maximum time of a token during a sweep, as a multiple of its time otherwise: as much as the same
/// measurement varies from one run to the next.
const STALL_BAR: f64 = 1.10;

/// Tokens of the running answer.
const TOKENS: usize = 160;

pub fn measure(model: &Arc<LlamaModel>, rounds: usize) -> Result<Vec<Row>> {
    let directory = tempfile::tempdir()?;
    fill(directory.path())?;
    let objects = fill_objects(directory.path())?;
    Ok(vec![alone(directory.path(), objects, rounds)?, beside(model, directory.path())?])
}

fn alone(directory: &Path, objects: usize, rounds: usize) -> Result<Row> {
    let store = Store::open(directory)?;
    let mut times = Vec::new();
    for round in 0..=rounds {
        let before = cpu_time("self")?;
        let swept = Sweeper::new(Rules::default()).sweep(&store, &now(), &NoEngine);
        let took = cpu_time("self")?.saturating_sub(before);
        ensure!(swept.errors.is_empty() && swept.expired + swept.collected == 0, "{swept:?}");
        if round > 0 {
            times.push(took); // The first one fills the page cache.
        }
    }
    Ok(Row {
        what: format!("a sweep over {CONVERSATIONS} slot files, CPU"),
        measured: format!("with {objects} objects"),
        ratio: median_ms(&times),
        bar: Some(CPU_BAR_MS),
        unit: " ms",
    })
}

fn beside(model: &Arc<LlamaModel>, directory: &Path) -> Result<Row> {
    let (during, otherwise) = token_times(model, directory)?;
    Ok(Row {
        what: "a token of a running answer, during a sweep".to_owned(),
        measured: format!("{during:.1} ms, otherwise {otherwise:.1} ms"),
        ratio: during / otherwise,
        bar: Some(STALL_BAR),
        unit: " x",
    })
}

/// Median times of one token: during sweeps, and between them.
fn token_times(model: &Arc<LlamaModel>, directory: &Path) -> Result<(f64, f64)> {
    let options = EngineOptions { context_tokens: 1024, slots: 2, ..EngineOptions::default() };
    let engine = turns::start(model.clone(), directory, options)?;
    let prompt = Words::new(model.vocabulary().len()).next(64);
    let mut turn = engine.submit(turns::request("speaker", &prompt, TOKENS))?;
    let mut arrivals = Vec::new();
    let sweeps = std::thread::scope(|scope| -> Result<Vec<(Instant, Instant)>> {
        let mut sweeping = None;
        loop {
            match turn.next_blocking() {
                Some(TurnEvent::Token { .. }) => arrivals.push(Instant::now()),
                Some(TurnEvent::Started(_)) => {
                    sweeping = Some(scope.spawn(|| sweep_now_and_then(&engine)));
                }
                Some(TurnEvent::Progress(_) | TurnEvent::Moved(_)) => {}
                Some(TurnEvent::Finished { .. }) => break,
                Some(TurnEvent::Failed(error)) => bail!(error),
                None => bail!("the engine stopped"),
            }
        }
        let sweeping = sweeping.expect("a turn starts before it finishes");
        sweeping.join().expect("sweeping does not panic")
    })?;
    engine.shutdown();
    let (mut during, mut otherwise) = (Vec::new(), Vec::new());
    for pair in arrivals.windows(2) {
        let meets = |&(start, end): &(Instant, Instant)| start < pair[1] && pair[0] < end;
        let times = if sweeps.iter().any(meets) { &mut during } else { &mut otherwise };
        times.push(pair[1] - pair[0]);
    }
    ensure!(during.len() > 4 && otherwise.len() > 4, "both happen while the answer runs");
    Ok((median_ms(&during), median_ms(&otherwise)))
}

/// Six sweeps with pauses between them. Returns when each began and ended.
fn sweep_now_and_then(engine: &Engine) -> Result<Vec<(Instant, Instant)>> {
    let mut sweeps = Vec::new();
    for _ in 0..6 {
        std::thread::sleep(Duration::from_millis(400));
        let began = Instant::now();
        wait_for(engine.sweep(Arc::new(Mutex::new(Sweeper::new(Rules::default()))), now()))?;
        sweeps.push((began, Instant::now()));
    }
    Ok(sweeps)
}

/// Every object that a slot file names, as an empty file: a sweep reads only names.
fn fill_objects(directory: &Path) -> Result<usize> {
    let store = Store::open(directory)?;
    let needed = store.needed_objects(FINGERPRINT)?;
    let objects = directory.join(FINGERPRINT.to_string()).join("objects");
    for id in &needed {
        let name = id.to_string();
        let directory = objects.join(&name[..2]);
        fs::create_dir_all(&directory)?;
        fs::write(directory.join(format!("{name}.kv")), "")?;
    }
    Ok(needed.len())
}

/// The last use of the fabricated conversations: none has expired.
fn now() -> AdjustedTime {
    LAST_USE.into()
}
