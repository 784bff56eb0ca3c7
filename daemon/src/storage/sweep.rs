//! The loop around the sweep: when it runs, and the jumps of wall time.
//!
//! - A sweep runs at start, when the quota changes, and then at the configured interval; one that
//!   left work runs again after five seconds.
//! - New KV makes a sweep due as soon as it exceeds the quota by a sixteenth, five seconds after the
//!   last sweep at the earliest.
//! - Every 30 seconds the loop compares wall time with the process's own time. It notices a jump
//!   before a sweep takes it for age, and writes it down for the next start.

use std::sync::Arc;
use std::time::Duration;

use hob_config::{LossyChoice, Settings};
use hob_runtime::Engine;
use hob_slots::store::Store;
use hob_slots::sweep::{Rules, Sweeper, Swept};
use hob_slots::{AdjustedTime, ClockTracker, Lifetimes, Lossy, TtlClass};

use super::quota::DiskQuota;
use crate::clock::ProcessTime;
use parking_lot::Mutex;

/// Between two comparisons of the clocks.
const CLOCK_INTERVAL: Duration = Duration::from_secs(30);

/// After a sweep that left work, and before one that new KV makes due.
const NEXT_AFTER: Duration = Duration::from_secs(5);

/// New KV may exceed the quota by this fraction of it, so that a directory at its quota is not swept
/// after each turn; and by [`MIN_EXCESS_BYTES`].
const EXCESS_FRACTION: u64 = 16;

const MIN_EXCESS_BYTES: u64 = 64 << 10;

pub fn rules(settings: &Settings) -> Rules {
    Rules {
        lifetimes: lifetimes(settings),
        compress_after: settings.compress_after,
        lossy: lossy(settings),
        max_removals: settings.sweep_removals,
        ..Rules::default()
    }
}

/// How the KV of aged conversations is rounded.
pub fn lossy(settings: &Settings) -> Option<Lossy> {
    match settings.slots_lossy {
        LossyChoice::Off => None,
        LossyChoice::Q8 => Some(Lossy::Q8),
        LossyChoice::Q4 => Some(Lossy::Q4),
    }
}

pub fn lifetimes(settings: &Settings) -> Lifetimes {
    Lifetimes {
        short: settings.ttl_short,
        long: settings.ttl_long,
        extended: settings.ttl_extended,
    }
}

/// The class of conversations with stored text for which none was asked.
pub fn default_class(settings: &Settings) -> TtlClass {
    match settings.default_ttl {
        hob_config::TtlClass::Short => TtlClass::Short,
        hob_config::TtlClass::Long => TtlClass::Long,
        hob_config::TtlClass::Extended => TtlClass::Extended,
        hob_config::TtlClass::Permanent => TtlClass::Permanent,
    }
}

/// What the loop works with.
pub struct Options {
    pub engine: Engine,
    pub store: Arc<Store>,
    pub sweeper: Arc<Mutex<Sweeper>>,
    pub interval: Duration,
    pub quota: DiskQuota,
    pub time: ProcessTime,
}

/// Sweeps until the engine stops.
pub async fn run(options: Options) {
    let Options { engine, store, sweeper, interval, quota, time } = options;
    let mut clocks = store.clock_tracker();
    let (mut next, mut earliest) = (Duration::ZERO, Duration::ZERO);
    let mut written = engine.written_bytes();
    let mut max_written = u64::MAX;
    loop {
        let known = clocks.clone();
        let (wall, ran) = time.read();
        let now = clocks.observe(wall, ran);
        let is_due = ran >= next;
        if is_due || clocks.jumps() != known.jumps() {
            write_clocks(&store, clocks.clone()).await;
        }
        if is_due {
            sweeper.lock().set_quota(quota.get());
            let left = match sweep(&engine, &sweeper, now).await {
                Ok(swept) => {
                    max_written = written.borrow().saturating_add(max_growth(&swept));
                    quota.observe(swept.no_room);
                    swept.left
                }
                Err(_) if engine.is_stopping() => return,
                Err(error) => {
                    tracing::error!(%error, "the sweep failed");
                    false
                }
            };
            earliest = time.read().1 + NEXT_AFTER;
            next = if left { earliest } else { ran + interval };
        }
        let until_due = next.saturating_sub(time.read().1);
        tokio::select! {
            () = quota.changed() => next = Duration::ZERO,
            Ok(_) = written.wait_for(|bytes| *bytes > max_written) => {
                next = next.min(earliest);
                max_written = u64::MAX; // Until the next sweep.
            }
            () = tokio::time::sleep(time.sleep(until_due.min(CLOCK_INTERVAL))) => {}
        }
    }
}

/// How many bytes may be written after a sweep before the next one is due.
fn max_growth(swept: &Swept) -> u64 {
    let excess = (swept.quota_bytes / EXCESS_FRACTION).max(MIN_EXCESS_BYTES);
    swept.quota_bytes.saturating_sub(swept.used_bytes).saturating_add(excess)
}

/// Sweeps once and logs what was removed.
///
/// # Errors
/// When the engine has stopped, or when the sweep panicked.
pub async fn sweep(
    engine: &Engine,
    sweeper: &Arc<Mutex<Sweeper>>,
    now: AdjustedTime,
) -> Result<Swept, hob_runtime::TurnError> {
    let swept = engine.sweep(sweeper.clone(), now).await?;
    for error in &swept.errors {
        tracing::warn!(%error, "part of the sweep failed");
    }
    let Swept { expired, evicted, collected, compressed, rounded, .. } = swept;
    if expired + evicted + collected + compressed + rounded > 0 {
        let (freed_bytes, used_bytes) = (swept.freed_bytes, swept.used_bytes);
        tracing::info!(
            expired,
            evicted,
            collected,
            compressed,
            rounded,
            freed_bytes,
            used_bytes,
            "swept"
        );
    }
    Ok(swept)
}

async fn write_clocks(store: &Arc<Store>, clocks: ClockTracker) {
    let store = store.clone();
    let written = tokio::task::spawn_blocking(move || store.write_clock_tracker(&clocks)).await;
    if let Ok(Err(error)) = written {
        tracing::warn!(%error, "the jumps of wall time could not be written for the next start");
    }
}
