//! The daemon behind the page: in this process, or, where another one owns the directory of kept KV,
//! in that one.
//!
//! - It lives in a thread of its own, so the window does not wait for the model.
//! - It is a daemon like hobd: it has an address, a token and an announcement, and `hob` finds it.
//! - When the daemon that the app is attached to goes away, the app takes its place.
//! - Each life has a tokio runtime of its own: nothing of one is left when the next one begins.
//!
//! Reading order: `life` (one daemon, from its opening to its end), `elsewhere` (another's),
//! `carrier` (how requests get there).

mod carrier;
mod elsewhere;
mod life;

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, Result};
use hob_config::Resolved;
use hob_daemon::startup::{ModelSwitch, Step};
use tokio::runtime::Handle;
use tokio::sync::{mpsc, watch};

use super::state::{Doing, Phase, Remedy};
use carrier::Carrier;
pub use carrier::{Ask, Carriers, Outlet};
use life::{Life, Next};

/// For what still runs when everything is saved.
const LONGEST_END: Duration = Duration::from_secs(5);

/// The daemon's thread.
pub struct Backend {
    orders: mpsc::UnboundedSender<Order>,
    phases: watch::Receiver<Phase>,
    carriers: watch::Receiver<Option<Carrier>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// What the app wants of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Restart,
    Stop,
}

/// What others hear of it.
#[derive(Clone)]
struct Told {
    phases: watch::Sender<Phase>,
    carriers: watch::Sender<Option<Carrier>>,
}

impl Told {
    /// Requests wait from now on.
    fn waits(&self, what: Doing) {
        self.carriers.send_replace(None);
        self.phases.send_replace(Phase::Starting { what, percent: None });
    }

    /// It goes on. Texts can be read long before a model is loaded.
    fn step(&self, step: Step, address: SocketAddr, runtime: &Handle) {
        let (what, percent) = match step {
            Step::Readable { texts, token } => {
                let carrier = Carrier::here(texts, address, &token, runtime.clone());
                self.carriers.send_replace(Some(carrier.for_texts_alone()));
                return;
            }
            Step::Reading { percent } => (Doing::Reading, percent),
            Step::Loading { percent } => (Doing::Loading, percent),
        };
        let phase = Phase::Starting { what, percent: Some(percent) };
        self.phases.send_if_modified(|now| {
            let is_news = *now != phase;
            *now = phase;
            is_news
        });
    }

    fn serves(&self, carrier: Carrier, phase: Phase) {
        self.carriers.send_replace(Some(carrier));
        self.phases.send_replace(phase);
    }

    fn failed(&self, error: &anyhow::Error, remedy: Remedy) {
        tracing::error!(error = format!("{error:#}"), "there is no daemon");
        self.carriers.send_replace(None);
        self.phases.send_replace(Phase::Failed { message: format!("{error:#}"), remedy });
    }
}

impl Backend {
    /// Starts the thread, and returns at once.
    pub fn start(resolved: Resolved) -> Self {
        let (orders, inbox) = mpsc::unbounded_channel();
        let starting = Phase::Starting { what: Doing::Opening, percent: None };
        let (tell_phases, phases) = watch::channel(starting);
        let (tell_carriers, carriers) = watch::channel(None);
        let told = Told { phases: tell_phases, carriers: tell_carriers };
        let thread = thread::Builder::new().name("hob-backend".to_owned());
        let thread = thread.spawn(move || live(resolved, inbox, &told));
        let thread = Mutex::new(Some(thread.expect("the system can start a thread")));
        Self { orders, phases, carriers, thread }
    }

    /// The phase, and how it changes.
    pub fn phases(&self) -> watch::Receiver<Phase> {
        self.phases.clone()
    }

    /// The way to the daemon, whenever there is one.
    pub fn carriers(&self) -> Carriers {
        Carriers::new(self.carriers.clone(), self.phases.clone())
    }

    /// Saves everything, and opens it anew.
    pub fn restart(&self) {
        let _ = self.orders.send(Order::Restart); // An error: it has ended.
    }

    /// Saves everything, and returns when that is done.
    pub fn stop(&self) {
        let _ = self.orders.send(Order::Stop); // An error: it has ended.
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread
            && thread.join().is_err()
        {
            tracing::error!("the daemon's thread panicked");
        }
    }
}

/// One life after the other.
fn live(resolved: Resolved, mut orders: mpsc::UnboundedReceiver<Order>, told: &Told) {
    let settings = resolved.settings.clone();
    let model_switch = Arc::new(Mutex::new(ModelSwitch::new(resolved)));
    let lock = || model_switch.lock().unwrap_or_else(PoisonError::into_inner);
    let mut at: Option<SocketAddr> = None;
    let mut took_over = false;
    loop {
        told.waits(Doing::Opening);
        let next = runtime().and_then(|runtime| {
            let life = Life { settings: &settings, model_switch: course.clone(), at, took_over, told };
            let next = runtime.block_on(life.live(&mut orders));
            told.carriers.send_replace(None); // It holds the daemon's router.
            runtime.shutdown_timeout(LONGEST_END);
            next
        });
        (at, took_over) = match next {
            Ok(Next::Stop) => return,
            Ok(Next::Again { address }) => (address, false),
            Ok(Next::With { address, model }) => {
                lock().switch(model);
                (Some(address), false)
            }
            Ok(Next::TakeOver) => (None, true),
            Err(error) => match go_on(&mut lock(), error) {
                Ok(()) => (at, false),
                Err(error) => {
                    told.failed(&error, Remedy::Mend);
                    match orders.blocking_recv() {
                        Some(Order::Restart) => (None, false),
                        Some(Order::Stop) | None => return,
                    }
                }
            },
        };
    }
}

/// With the model before, or with the one that comes with Hob: the page lets people choose another.
fn go_on(model_switch: &mut ModelSwitch, error: anyhow::Error) -> Result<()> {
    model_switch.go_back(error).or_else(|error| course.rescue(error))
}

fn runtime() -> Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .worker_threads(2) // Sockets and the page need little; the cores are for the model.
        .thread_name("hob-daemon")
        .build()
        .context("cannot start the threads that answer requests")
}
