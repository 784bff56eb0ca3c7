//! The progress of the engine's thread, which other threads read without its command queue.
//!
//! - The thread names its activity and counts its progress: every round of its loop, every node of
//!   a micro-batch's graph, every step of a load. Slow machines take minutes for a micro-batch of a
//!   large model, and milliseconds for a node.
//! - An engine is *dead* once its thread has panicked, or has made no progress for as long as its
//!   activity allows. Waiting for a command has no limit.
//! - A silent engine that makes progress again is alive again; one that panicked is not.

use std::fmt;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::watch;

use crate::attention::Attention;
use crate::status::Residency;
use crate::watcher::Watcher;

/// Without progress in a micro-batch, between two, and in housekeeping.
const MAX_COMPUTING: Duration = Duration::from_secs(30);

/// The same where devices compute layers: llama.cpp queues the nodes of a graph there, and reports none
/// until all are computed. The first micro-batches also wait for the driver's compiler: Mesa's software
/// device took more than 30 s for one.
const MAX_QUEUED: Duration = Duration::from_secs(300);

/// Without a report from a load, while a context is made, and while the writer empties its queue:
/// slow disks and first compilations of GPU programs take minutes.
const MAX_LOADING: Duration = Duration::from_secs(600);

/// Between two looks of the watchdog.
const CHECK_EVERY: Duration = Duration::from_millis(500);

/// How long a micro-batch that runs at the stop may go on. Most end before.
const STOP_AFTER: Duration = Duration::from_secs(1);

/// What the engine's thread does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activity {
    /// It waits for a command.
    Waiting,
    /// It computes, imports or exports.
    Computing,
    /// It loads the weights or makes a context.
    Loading,
    /// It waits for the writer.
    Flushing,
}

/// Why the engine answers no more.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Death {
    #[error("the engine's thread panicked")]
    Panicked,
    #[error("the engine has made no progress for {} s while {activity}", silence.as_secs())]
    Silent { activity: Activity, silence: Duration },
}

/// Whether the engine can answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Health {
    Ok,
    /// A request waits for the weights.
    Loading {
        percent: u8,
    },
    /// The next request loads the weights.
    Unloaded,
    Dead(Death),
}

#[derive(Debug)]
pub struct Heartbeat {
    activity: AtomicU8,
    /// Grows with every sign of progress.
    beats: AtomicU64,
    /// Devices compute layers, see [`MAX_QUEUED`].
    is_queued: AtomicBool,
    pub(crate) attention: Attention,
    pub(crate) watcher: Watcher,
    stop: OnceLock<Instant>,
    death: watch::Sender<Option<Death>>,
}

/// The heartbeat in the hands of the engine's thread. Dropping it in a panic reports the death,
/// before the thread's other values are dropped.
#[derive(Debug)]
pub(crate) struct Pulse {
    heartbeat: Arc<Heartbeat>,
    /// Dropping it ends the watchdog.
    _watchdog: mpsc::Sender<()>,
}

impl Activity {
    fn of(number: u8) -> Self {
        let all = [Self::Waiting, Self::Computing, Self::Loading, Self::Flushing];
        all.into_iter().find(|&it| it as u8 == number).expect("only activities are stored")
    }

    /// `None`: no limit.
    /// `is_queued`: devices compute layers.
    fn max_silence(self, is_queued: bool) -> Option<Duration> {
        match self {
            Self::Waiting => None,
            Self::Computing if is_queued => Some(MAX_QUEUED),
            Self::Computing => Some(MAX_COMPUTING),
            Self::Loading | Self::Flushing => Some(MAX_LOADING),
        }
    }
}

impl fmt::Display for Activity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Waiting => "waiting",
            Self::Computing => "computing",
            Self::Loading => "loading",
            Self::Flushing => "waiting for the disk",
        })
    }
}

impl Default for Heartbeat {
    fn default() -> Self {
        Self {
            activity: AtomicU8::new(Activity::Waiting as u8),
            beats: AtomicU64::new(0),
            is_queued: AtomicBool::new(false),
            attention: Attention::default(),
            watcher: Watcher::default(),
            stop: OnceLock::new(),
            death: watch::Sender::new(None),
        }
    }
}

impl Heartbeat {
    /// Starts the watchdog's thread.
    pub(crate) fn start(self: &Arc<Self>) -> Pulse {
        let (alive, ended) = mpsc::channel();
        let watched = self.clone();
        let watchdog = thread::Builder::new().name("hob-watchdog".to_owned());
        let watchdog = watchdog.spawn(move || {
            let mut watchdog = Watchdog::default();
            while ended.recv_timeout(CHECK_EVERY) == Err(RecvTimeoutError::Timeout) {
                watchdog.look(&watched);
            }
        });
        watchdog.expect("the system can start a thread");
        Pulse { heartbeat: self.clone(), _watchdog: alive }
    }

    pub fn begin(&self, activity: Activity) {
        self.activity.store(activity as u8, Ordering::Relaxed);
        self.beat();
    }

    pub fn activity(&self) -> Activity {
        Activity::of(self.activity.load(Ordering::Relaxed))
    }

    /// Whether devices compute layers from here on.
    pub fn set_queued(&self, is_queued: bool) {
        self.is_queued.store(is_queued, Ordering::Relaxed);
    }

    /// A sign of progress. Cheap: called for every node of a graph.
    pub fn beat(&self) {
        let before = self.beats.fetch_add(1, Ordering::Relaxed);
        self.watcher.call(before + 1);
    }

    /// Signs of progress so far.
    pub fn beats(&self) -> u64 {
        self.beats.load(Ordering::Relaxed)
    }

    /// The engine is to stop: what takes long is interrupted.
    pub fn stop(&self) {
        self.stop.get_or_init(Instant::now);
    }

    pub fn is_stopping(&self) -> bool {
        self.stop.get().is_some()
    }

    /// Whether a micro-batch must end now.
    pub fn interrupts(&self) -> bool {
        self.attention.cuts() || self.stop.get().is_some_and(|at| at.elapsed() >= STOP_AFTER)
    }

    /// `None` while the engine is alive.
    pub fn death(&self) -> watch::Receiver<Option<Death>> {
        self.death.subscribe()
    }

    pub(crate) fn health(&self, residency: Residency) -> Health {
        match (self.death.borrow().clone(), residency) {
            (Some(death), _) => Health::Dead(death),
            (None, Residency::Resident) => Health::Ok,
            (None, Residency::Loading { percent }) => Health::Loading { percent },
            (None, Residency::Unloaded) => Health::Unloaded,
        }
    }

    fn report(&self, death: Option<Death>) {
        self.death.send_if_modified(|known| {
            let changes = *known != Some(Death::Panicked) && *known != death;
            if changes {
                *known = death;
            }
            changes
        });
    }
}

impl Deref for Pulse {
    type Target = Heartbeat;

    fn deref(&self) -> &Heartbeat {
        &self.heartbeat
    }
}

impl Pulse {
    pub fn shared(&self) -> Arc<Heartbeat> {
        self.heartbeat.clone()
    }
}

impl Drop for Pulse {
    fn drop(&mut self) {
        if thread::panicking() {
            self.report(Some(Death::Panicked));
        }
    }
}

/// Waits for a death. Pending for ever once the engine is gone without one.
pub(crate) async fn died(death: &mut watch::Receiver<Option<Death>>) -> Death {
    let found = death.wait_for(Option::is_some).await.map(|found| found.clone());
    match found {
        Ok(found) => found.expect("it was waited for"),
        Err(_) => std::future::pending().await,
    }
}

/// Counts its own looks, not the clock: a process that was stopped for an hour, or a machine that
/// slept, was not silent.
#[derive(Default)]
struct Watchdog {
    beats: u64,
    silence: Duration,
}

impl Watchdog {
    /// Called every [`CHECK_EVERY`].
    fn look(&mut self, heartbeat: &Heartbeat) {
        let beats = heartbeat.beats.load(Ordering::Relaxed);
        let activity = heartbeat.activity();
        if beats == self.beats {
            self.silence += CHECK_EVERY;
        } else {
            (self.beats, self.silence) = (beats, Duration::ZERO);
        }
        let is_queued = heartbeat.is_queued.load(Ordering::Relaxed);
        match activity.max_silence(is_queued) {
            Some(max) if self.silence < max => {
                if self.silence.is_zero() {
                    heartbeat.report(None);
                }
            }
            Some(silence) => heartbeat.report(Some(Death::Silent { activity, silence })),
            None => heartbeat.report(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(watchdog: &mut Watchdog, heartbeat: &Heartbeat, time: Duration) -> Option<Death> {
        for _ in 0..time.as_millis() / CHECK_EVERY.as_millis() {
            watchdog.look(heartbeat);
        }
        heartbeat.death.borrow().clone()
    }

    #[test]
    fn a_silent_engine_is_dead_until_it_makes_progress_again() {
        let (heartbeat, mut watchdog) = (Heartbeat::default(), Watchdog::default());
        let hour = Duration::from_secs(3600);
        assert_eq!(look(&mut watchdog, &heartbeat, hour), None, "it waits for a command");

        heartbeat.begin(Activity::Computing);
        assert_eq!(look(&mut watchdog, &heartbeat, MAX_COMPUTING), None);
        heartbeat.beat(); // A node of a slow micro-batch.
        assert_eq!(look(&mut watchdog, &heartbeat, MAX_COMPUTING), None);
        let death = look(&mut watchdog, &heartbeat, MAX_COMPUTING).unwrap();
        let reason = "the engine has made no progress for 30 s while computing";
        assert_eq!(death.to_string(), reason);
        assert_eq!(heartbeat.health(Residency::Resident), Health::Dead(death));

        heartbeat.beat();
        assert_eq!(look(&mut watchdog, &heartbeat, CHECK_EVERY), None);
        assert_eq!(heartbeat.health(Residency::Unloaded), Health::Unloaded);
    }

    #[test]
    fn a_device_may_be_silent_for_minutes() {
        let (heartbeat, mut watchdog) = (Heartbeat::default(), Watchdog::default());
        heartbeat.set_queued(true);
        heartbeat.begin(Activity::Computing);
        assert_eq!(look(&mut watchdog, &heartbeat, 4 * MAX_COMPUTING), None);
        assert!(look(&mut watchdog, &heartbeat, MAX_QUEUED).is_some());
    }

    #[test]
    fn a_load_may_be_silent_for_minutes() {
        let (heartbeat, mut watchdog) = (Heartbeat::default(), Watchdog::default());
        heartbeat.begin(Activity::Loading);
        assert_eq!(look(&mut watchdog, &heartbeat, 2 * MAX_COMPUTING), None);
        assert!(look(&mut watchdog, &heartbeat, MAX_LOADING).is_some());
    }

    #[test]
    fn a_panic_is_reported_before_the_other_values_of_the_thread_are_dropped() {
        struct Later(watch::Receiver<Option<Death>>, mpsc::Sender<Option<Death>>);
        impl Drop for Later {
            fn drop(&mut self) {
                self.1.send(self.0.borrow().clone()).unwrap();
            }
        }
        let heartbeat = Arc::new(Heartbeat::default());
        let (seen, inbox) = mpsc::channel();
        let values = (heartbeat.start(), Later(heartbeat.death(), seen));
        let thread = thread::spawn(move || {
            let _values = values;
            panic!("a test");
        });
        assert!(thread.join().is_err());
        assert_eq!(inbox.recv().unwrap(), Some(Death::Panicked));
        heartbeat.report(None);
        assert_eq!(*heartbeat.death.borrow(), Some(Death::Panicked), "it stays dead");
    }
}
