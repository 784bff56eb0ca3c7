//! The daemon behind the page: in this process, or, when another daemon owns the slots directory, in
//! that one.
//!
//! - The daemon runs on its own thread, so the window does not wait for the model.
//! - It is a daemon like hobd: it has an address, a token and an announcement, and `hob` finds it. Where the announcement
//!   cannot be written, it serves the page.
//! - When the daemon that the app is attached to ends, the app starts its own.
//! - A daemon whose engine crashed opens again. When its engine hangs, the app executes itself again.
//! - Each lifecycle has its own tokio runtime: no task of one survives into the next.
//!
//! Reading order: `transport` (requests to a daemon), `publisher`, `other_daemon`, `lifecycle` (one
//! daemon, from its opening to its end).

mod lifecycle;
mod other_daemon;
mod publisher;
mod transport;

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, Error, Result};
use hob_config::Resolved;
use hob_daemon::startup::{self, ModelSwitch, StartedBy};
use parking_lot::Mutex;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};
use tokio::sync::{mpsc, watch};

use super::phase::{Activity, Phase, Remedy};
use super::program;
use lifecycle::{Lifecycle, Next, Order};
use publisher::Publisher;
use transport::Transport;
pub use transport::{PageRequest, ResponseChannel, TransportWatch};

/// For tasks that still run when everything is saved.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);

/// The daemon's thread.
pub struct Backend {
    orders: UnboundedSender<Order>,
    phases: watch::Receiver<Phase>,
    transports: watch::Receiver<Option<Transport>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Backend {
    /// Starts the thread and returns at once.
    pub fn start(resolved: Resolved, started_by: StartedBy) -> Self {
        let (orders, inbox) = mpsc::unbounded_channel();
        let starting = Phase::Starting { what: Activity::Opening, percent: None };
        let (publish_phase, phases) = watch::channel(starting);
        let (publish_transport, transports) = watch::channel(None);
        let publisher = Publisher { phases: publish_phase, transports: publish_transport };
        let thread = thread::Builder::new().name("hob-backend".to_owned());
        let thread = thread.spawn(move || run(resolved, started_by, inbox, &publisher));
        let thread = Mutex::new(Some(thread.expect("the system can start a thread")));
        Self { orders, phases, transports, thread }
    }

    pub fn phases(&self) -> watch::Receiver<Phase> {
        self.phases.clone()
    }

    pub fn transport(&self) -> TransportWatch {
        TransportWatch::new(self.transports.clone(), self.phases.clone())
    }

    /// Saves everything and opens the daemon again.
    pub fn restart(&self) {
        let _ = self.orders.send(Order::Restart); // An error: the thread has ended.
    }

    /// Saves everything, and returns when that is done.
    pub fn stop(&self) {
        let _ = self.orders.send(Order::Stop); // An error: the thread has ended.
        let thread = self.thread.lock().take();
        if let Some(thread) = thread
            && thread.join().is_err()
        {
            tracing::error!("the daemon's thread panicked");
        }
    }
}

/// Runs one lifecycle after the other.
fn run(
    resolved: Resolved,
    started_by: StartedBy,
    mut orders: UnboundedReceiver<Order>,
    publisher: &Publisher,
) {
    let settings = resolved.settings.clone();
    let model_switch = Arc::new(Mutex::new(ModelSwitch::new(resolved, started_by)));
    let lock = || model_switch.lock();
    let mut address: Option<SocketAddr> = None;
    let mut took_over = false;
    loop {
        publisher.starting(Activity::Opening);
        let next = runtime().and_then(|runtime| {
            let model_switch = model_switch.clone();
            let settings = &settings;
            let lifecycle = Lifecycle { settings, model_switch, address, took_over, publisher };
            let next = runtime.block_on(lifecycle.run(&mut orders));
            publisher.withdraw_transport();
            startup::end(runtime, SHUTDOWN_TIMEOUT);
            next
        });
        (address, took_over) = match next {
            Ok(Next::Stop) => return,
            Ok(Next::Restart { address }) => (address, false),
            Ok(Next::Switch { address, changes }) => {
                lock().switch(changes);
                (Some(address), false)
            }
            Ok(Next::TakeOver) => (None, true),
            Ok(Next::RestartApp(reason)) => {
                tracing::error!(reason, "only a new process can serve: the app starts again");
                publisher.failed(&program::restart().context(reason), Remedy::Mend);
                match orders.blocking_recv() {
                    Some(Order::Restart) => (None, false),
                    Some(Order::Stop) | None => return,
                }
            }
            Err(error) => match fall_back(&mut lock(), error) {
                Ok(()) => (address, false),
                Err(error) => {
                    publisher.failed(&error, Remedy::Mend);
                    match orders.blocking_recv() {
                        Some(Order::Restart) => (None, false),
                        Some(Order::Stop) | None => return,
                    }
                }
            },
        };
    }
}

/// Chooses the previous model, or the bundled one: on the page the user can choose another.
fn fall_back(model_switch: &mut ModelSwitch, error: Error) -> Result<()> {
    model_switch.go_back(error).or_else(|error| model_switch.rescue(error))
}

fn runtime() -> Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .worker_threads(2) // Sockets and the page need little; the cores are for the model.
        .thread_name("hob-daemon")
        .build()
        .context("cannot start the threads that answer requests")
}
