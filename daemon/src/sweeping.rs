//! The loop around the sweep: when it runs, and what it knows of time.
//!
//! - It runs at start, then at the set interval; a sweep that left something goes on soon.
//! - Wall time is compared with the time that this process ran more often than that: a jump is
//!   noticed before anything is thought too old. What was noticed is written down.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use hob_config::Settings;
use hob_runtime::Engine;
use hob_slots::store::Store;
use hob_slots::sweep::{Quota, Rules, Sweeper, Swept};
use hob_slots::{AdjustedTime, ClockTracker, Lifetimes};

use crate::clock::Clock;

/// Between two looks at the clocks.
const LOOK_EVERY: Duration = Duration::from_secs(30);

/// Until a sweep that left something goes on.
const GO_ON_AFTER: Duration = Duration::from_secs(5);

/// What the settings ask of a sweep.
pub fn rules(settings: &Settings) -> Rules {
    Rules {
        lifetimes: Lifetimes {
            short: settings.ttl_short,
            long: settings.ttl_long,
            extended: settings.ttl_extended,
        },
        quota: match settings.slots_quota_bytes {
            0 => Quota::Automatic,
            bytes => Quota::Bytes(bytes),
        },
        compress_after: settings.compress_after,
        most_removals: settings.sweep_removals,
        ..Rules::default()
    }
}

/// Sweeps until the engine stops.
pub async fn run(
    engine: Engine,
    store: Arc<Store>,
    sweeper: Arc<Mutex<Sweeper>>,
    interval: Duration,
    clock: Clock,
) {
    let started = Instant::now();
    let mut timekeeper = store.timekeeper();
    let mut next = started;
    loop {
        let known = timekeeper.clone();
        let moment = timekeeper.look(clock(), started.elapsed());
        let due = Instant::now() >= next;
        if due || timekeeper.jumps() != known.jumps() {
            write_down(&store, timekeeper.clone()).await;
        }
        if due {
            let Ok(swept) = sweep(&engine, &sweeper, moment).await else { return };
            next = Instant::now() + if swept.left { GO_ON_AFTER } else { interval };
        }
        let until_due = next.saturating_duration_since(Instant::now());
        tokio::time::sleep(until_due.min(LOOK_EVERY)).await;
    }
}

/// Sweeps once and logs what was done.
pub async fn sweep(
    engine: &Engine,
    sweeper: &Arc<Mutex<Sweeper>>,
    moment: AdjustedTime,
) -> Result<Swept, hob_runtime::TurnError> {
    let swept = engine.sweep(sweeper.clone(), moment).await?;
    for error in &swept.errors {
        tracing::warn!(%error, "part of the sweep failed");
    }
    let Swept { expired, evicted, collected, compressed, .. } = swept;
    if expired + evicted + collected + compressed > 0 {
        let (freed_bytes, kept_bytes) = (swept.freed_bytes, swept.kept_bytes);
        tracing::info!(expired, evicted, collected, compressed, freed_bytes, kept_bytes, "swept");
    }
    Ok(swept)
}

async fn write_down(store: &Arc<Store>, timekeeper: ClockTracker) {
    let store = store.clone();
    let written = tokio::task::spawn_blocking(move || store.write_timekeeper(&timekeeper)).await;
    if let Ok(Err(error)) = written {
        tracing::warn!(%error, "the next start will not know how wall time jumped");
    }
}
