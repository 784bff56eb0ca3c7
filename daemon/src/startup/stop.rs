//! The request to stop: SIGTERM, SIGINT (Ctrl-C), or SIGHUP when the terminal is closed.
//!
//! - One thread hears it for the whole life of the process, also while no daemon serves: between two
//!   models, after a crash of the engine, and while a model loads.
//! - A second SIGTERM or SIGINT ends the process at once. So does the time limit: running answers get
//!   five seconds, saving gets the rest. Texts are on disk by then; KV that is not is computed again.
//! - SIGHUP stays ignored in a process that was started so, as `nohup` does.

use std::future::Future;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};
use std::{io, process, thread};

use anyhow::{Context, Result};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

use super::EXIT_CRASHED;

/// From the signal to the end of the process.
const MAX_STOP_TIME: Duration = Duration::from_millis(9500);

/// Limit of a stop while a daemon opens: there is nothing to save.
const MAX_OPENING_STOP_TIME: Duration = Duration::from_secs(2);

/// Clones hear the same signal.
#[derive(Clone, Debug)]
pub struct StopSignal {
    requested: watch::Receiver<bool>,
    is_opening: Arc<AtomicBool>,
}

/// A daemon opens until this is dropped.
pub(super) struct Opening<'a>(&'a AtomicBool);

impl StopSignal {
    /// Installs the handlers, once a process. Signals within `same_signal` of the first one count as
    /// one.
    ///
    /// # Errors
    /// When they cannot be installed.
    pub fn install(same_signal: Duration) -> Result<Self> {
        let (request, requested) = watch::channel(false);
        let is_opening = Arc::new(AtomicBool::new(false));
        let (report, installed) = mpsc::channel();
        let opening = is_opening.clone();
        let body = move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            match runtime {
                Ok(runtime) => {
                    runtime.block_on(stop_at_signal(same_signal, request, opening, report))
                }
                Err(error) => report.send(Err(error)).unwrap_or(()),
            }
        };
        let thread = thread::Builder::new().name("hob-signals".to_owned());
        thread.spawn(body).context("cannot start the thread that hears signals")?;
        let installed = installed.recv().expect("the thread reports once");
        installed.context("cannot install the handlers of signals")?;
        Ok(Self { requested, is_opening })
    }

    /// Ready once a stop was requested.
    pub fn requested(&self) -> impl Future<Output = ()> + use<> {
        let mut requested = self.requested.clone();
        async move {
            // An error: the thread has ended, which ends the process.
            requested.wait_for(|requested| *requested).await.ok();
        }
    }

    /// Waits for `time`, or for the request. Blocks. Returns whether a stop was requested.
    pub fn wait(&self, time: Duration) -> bool {
        let end = Instant::now() + time;
        while !self.is_requested() && Instant::now() < end {
            thread::sleep(Duration::from_millis(50));
        }
        self.is_requested()
    }

    pub fn is_requested(&self) -> bool {
        *self.requested.borrow()
    }

    /// Breaks once a stop was requested.
    pub fn flow(&self) -> ControlFlow<()> {
        if self.is_requested() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    pub(super) fn opening(&self) -> Opening<'_> {
        self.is_opening.store(true, Ordering::SeqCst);
        Opening(&self.is_opening)
    }
}

impl Drop for Opening<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::SeqCst);
    }
}

async fn stop_at_signal(
    same_signal: Duration,
    request: watch::Sender<bool>,
    is_opening: Arc<AtomicBool>,
    report: mpsc::Sender<io::Result<()>>,
) {
    let mut signals = match Signals::install() {
        Ok(signals) => signals,
        Err(error) => return report.send(Err(error)).unwrap_or(()),
    };
    report.send(Ok(())).unwrap_or(());
    signals.next().await;
    tracing::info!("stopping; a second signal ends the process at once");
    request.send_replace(true);
    let opening = is_opening.load(Ordering::SeqCst);
    let limit = if opening { MAX_OPENING_STOP_TIME } else { MAX_STOP_TIME };
    let another = async {
        let first = Instant::now();
        signals.next_demand().await;
        while first.elapsed() < same_signal {
            signals.next_demand().await;
        }
    };
    tokio::select! {
        () = another => process::exit(130),
        () = tokio::time::sleep(limit) => {}
    }
    if opening {
        process::exit(0);
    }
    let seconds = limit.as_secs_f64();
    tracing::error!(seconds, "not everything was saved in time; texts are, KV is computed again");
    process::exit(EXIT_CRASHED);
}

pub(super) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    /// `None`: this process ignores it.
    hangup: Option<Signal>,
}

impl Signals {
    pub fn install() -> io::Result<Self> {
        // Asked first: a handler replaces what it finds.
        let hangup = if ignores_hangup() { None } else { Some(signal(SignalKind::hangup())?) };
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup,
        })
    }

    /// Ready at SIGTERM, SIGINT or SIGHUP.
    pub async fn next(&mut self) {
        let Self { terminate, interrupt, hangup } = self;
        let hung_up = async {
            match hangup {
                Some(hangup) => hangup.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            _ = hung_up => {}
        }
    }

    /// Ready at SIGTERM or SIGINT. The end of one terminal may send two SIGHUP: the system sends one,
    /// and the shell another.
    async fn next_demand(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// Whether this process was started with SIGHUP ignored.
#[cfg(target_os = "linux")]
fn ignores_hangup() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask & 1 != 0) // SIGHUP is number 1, whose bit is the first.
}

/// Whether a hangup is ignored, found by a child, which ignores what this process ignores.
#[cfg(not(target_os = "linux"))]
fn ignores_hangup() -> bool {
    let mut shell = process::Command::new("/bin/sh");
    shell.args(["-c", "kill -HUP $$"]).stdin(process::Stdio::null());
    shell.status().is_ok_and(|status| status.success())
}
