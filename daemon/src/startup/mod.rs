//! Opens the parts, joins them, serves, and closes them in the right order.
//!
//! - Nothing is announced before requests are served; the ready file appears at once and whole.
//! - At the end: no new connections, running answers get a moment, then everything worth keeping
//!   is saved, and only then is the announcement taken away.

mod announce;
mod model;
mod voice;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use anyhow::{Context, Result};
use hob_config::{Resolved, RunningDaemon, Settings, paths};
use hob_models::MachineMemory;
use hob_prewarm::Keepalive;
use hob_runtime::{Engine, EngineOptions};
use hob_slots::store::{Key, Store, StoreError};
use hob_slots::sweep::Sweeper;
use tokio::net::TcpListener;
use tokio::sync::{Notify, mpsc};

use crate::auth::AccessToken;
use crate::clock::{Clock, wall_clock};
use crate::http::body::BodyLimits;
use crate::http::guard::Guard;
use crate::http::{self, Shared};
use crate::idle;
use crate::keeping_warm::{self, board::board};
use crate::service::{Parts, Service, count_profiles};
use crate::silence::until_silent;
use crate::sweeping;
use crate::transcript::Transcript;
use crate::voice::filler;
use crate::watching::{self, Sight};

/// What a computer has when it does not tell.
const ASSUMED_MEMORY_BYTES: u64 = 8 << 30;

/// llama.cpp has so many, and one of them serves splices.
const SEQUENCES: usize = 256;

/// Why a daemon has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// It was asked to.
    Stopped,
    /// There is another model where its own was: it should start over, where it was found.
    Swapped(SocketAddr),
}

/// The daemon, from its settings to its end. `at`: where it was before it started over. `hints`: print
/// what to paste next.
///
/// # Errors
/// When a part cannot be opened; the message names it and the remedy.
pub async fn run(resolved: &Resolved, at: Option<SocketAddr>, hints: bool) -> Result<Ending> {
    let settings = &resolved.settings;
    for warning in &resolved.warnings {
        tracing::warn!("{warning}");
    }
    let clock = wall_clock();
    private_dir(&settings.data_dir)?;
    let token = AccessToken::load_or_create(&settings.token_file)?;
    // Binding first makes an address that is taken a matter of milliseconds.
    let listener = bind(at.unwrap_or(settings.listen)).await?;
    let address = listener.local_addr().context("the socket has no address")?;
    let opened = open(resolved, clock.clone())?;

    let transcript_file = paths::transcript_file(&settings.data_dir);
    let transcript = Transcript::open(&transcript_file, clock())?;
    let (planner, events) = mpsc::unbounded_channel();
    let (writer, board) = board();
    let planning = hob_prewarm::Settings {
        idle_after: settings.idle_park,
        keepalive: Keepalive {
            interval: settings.keepalive_interval,
            short_ttl: settings.ttl_short,
            battery_percent: settings.keepalive_battery_percent,
        },
        unload_after: settings.unload_after,
    };
    tokio::spawn(idle::prepare_grammars(opened.engine.clone()));
    let sweeper = Arc::new(Mutex::new(Sweeper::new(sweeping::rules(settings))));
    let (engine, store) = (opened.engine.clone(), opened.store.clone());
    let interval = settings.sweep_interval;
    tokio::spawn(sweeping::run(engine, store, sweeper, interval, clock.clone()));
    let filler = voice::filler(resolved, clock.clone())?;
    if let Some(filler) = filler.clone() {
        tokio::spawn(filler::run(filler, opened.engine.clone()));
    }
    let service = Service::new(Parts {
        engine: opened.engine.clone(),
        model_name: opened.name.clone(),
        transcript,
        clock: clock.clone(),
        kept: Some(opened.store.reader().clone()),
        lifetimes: sweeping::rules(settings).lifetimes,
        planner,
        board,
        queue: settings.queue,
        profiles_dir: Some(settings.profiles_dir.clone()),
        filler,
    });
    let (engine, prefixes) = (opened.engine.clone(), service.clone());
    tokio::spawn(keeping_warm::run(engine, prefixes, planning, clock, events, writer));
    service.warm_profiles();
    let changes = watching::watch(service.clone(), opened.files.clone(), Sight::default());
    let swapped = Arc::new(Notify::new());
    tokio::spawn(watching::tell(service.clone(), changes, swapped.clone()));
    let guard = Guard::new(address, &settings.allow_host, &settings.allow_origin, token);
    let limits = BodyLimits { bytes: settings.max_body_bytes, time: settings.request_timeout };
    let router = http::router(Shared { service, limits }, guard);

    let running = RunningDaemon {
        address,
        token_file: settings.token_file.clone(),
        pid: std::process::id(),
        model: opened.shown.clone(),
        fingerprint: opened.engine.fingerprint().to_string(),
        slots_dir: settings.slots_dir.clone(),
    };
    let stop = stop_signal()?;
    announce::begin(&running, settings)?;
    announce::print(&running, &opened.name, hints);
    let mut ending = Ending::Stopped;
    let engine = opened.engine.clone();
    let stop = async {
        tokio::select! {
            () = stop => {}
            () = swapped.notified() => {
                let _ = until_silent(&engine).await; // An error: it has stopped already.
                ending = Ending::Swapped(address);
            }
        }
    };
    http::serve::serve(listener, router, stop).await;

    tracing::info!("saving what is worth keeping");
    let engine = opened.engine;
    tokio::task::spawn_blocking(move || engine.shutdown()).await.context("the engine panicked")?;
    announce::end(&running, settings);
    Ok(ending)
}

/// What was opened before anything is served.
struct Opened {
    engine: Engine,
    store: Arc<Store>,
    /// The name under which the model is found.
    name: String,
    /// Its file, for people.
    shown: String,
    /// All of its files.
    files: Vec<PathBuf>,
}

fn open(resolved: &Resolved, clock: Clock) -> Result<Opened> {
    let settings = &resolved.settings;
    // The directory first: a second daemon learns at once that it is taken.
    let mut store = Store::open(&settings.slots_dir).map_err(|error| match error {
        owned @ StoreError::Owned { .. } => anyhow::anyhow!(
            "{owned}: is another hobd running? --data-dir and --listen start one beside it"
        ),
        other => other.into(),
    })?;
    if settings.slots_encrypt {
        store = store.sealed(&Key::load_or_make(&settings.slots_key_file)?)?;
    }
    let store = Arc::new(store);
    let loaded = model::load(resolved)?;
    store.write_model_toml(&loaded.fingerprint)?;
    let memory = MachineMemory::read().map_or(ASSUMED_MEMORY_BYTES, |memory| memory.total_bytes);
    let options = EngineOptions {
        context_tokens: settings.ctx as usize,
        slots: settings.slots as usize,
        prefixes: prefix_slots(settings),
        queue: settings.queue,
        memory_budget_bytes: settings.warm_budget_bytes(memory),
        clock,
        ..EngineOptions::default()
    };
    let fingerprint = loaded.fingerprint.hash();
    let engine = Engine::start(loaded.model, fingerprint, Some(store.clone()), options)?;
    Ok(Opened { engine, store, name: loaded.name, shown: loaded.shown, files: loaded.files })
}

/// One for each profile, so that all are hot, and some for those that are added later. On models
/// that keep whole states each takes memory, so there are no more.
fn prefix_slots(settings: &Settings) -> usize {
    let profiles = count_profiles(&settings.profiles_dir);
    let least = EngineOptions::default().prefixes;
    let most = SEQUENCES - 1 - settings.slots as usize;
    profiles.max(least).min(most)
}

async fn bind(address: SocketAddr) -> Result<TcpListener> {
    if !address.ip().is_loopback() {
        let open = "serving beyond this machine, unencrypted: whoever has the token may talk to it, \
                    and whoever listens in can read it";
        tracing::warn!(%address, "{open}");
    }
    TcpListener::bind(address).await.with_context(|| {
        format!(
            "cannot listen on {address}: is another hobd running? --listen takes another address"
        )
    })
}

/// Ready when the process is asked to end; asked again, it ends at once.
#[cfg(unix)]
fn stop_signal() -> Result<impl Future<Output = ()>> {
    use tokio::signal::unix::{SignalKind, signal};
    let (mut terminate, mut interrupt) =
        (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        tracing::info!("stopping; once more ends at once");
        tokio::spawn(async move {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            std::process::exit(130);
        });
    })
}

#[cfg(not(unix))]
fn stop_signal() -> Result<impl Future<Output = ()>> {
    Ok(async {
        let _ = tokio::signal::ctrl_c().await;
        tracing::info!("stopping");
    })
}

/// Makes a directory that only its owner reads.
fn private_dir(path: &Path) -> Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path).with_context(|| format!("cannot make {}", path.display()))
}
