//! A daemon whose parts are open and joined: ready to be announced, served and closed.
//!
//! - It lives in the tokio runtime that it was opened in; its tasks end with that runtime.
//! - [`Daemon::serve`] saves all KV at the end. Dropping a daemon does not.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use axum::Router;
use hob_config::{RunningDaemon, Settings, paths};
use hob_prewarm::{Keepalive, LearnedLimits};
use hob_runtime::{Death, Engine};
use hob_slots::sweep::Sweeper;
use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio::time::timeout;

use super::engine::{self, Opened, Opening, Overrides};
use super::next::NextStart;
use super::readable::Readable;
use super::server::HttpServer;
use super::{
    Ending, ModelSwitch, OnHang, Report, Step, announce, bridge, deferred_switch, models,
    request_adapters, upstream, voice,
};
use crate::auth::AccessToken;
use crate::clock::ProcessTime;
use crate::conversations::{search_index, trash};
use crate::http::body::BodyLimits;
use crate::http::serve::GRACE;
use crate::http::{self, Shared};
use crate::learned::prefixes::AllPrefixes;
use crate::parts::{self, Parts};
use crate::settings::{Changes, LiveSettings};
use crate::speech::filler;
use crate::speech::typing::TypeAhead;
use crate::storage::sweep;
use crate::warm;
use crate::warm::battery;
use crate::warm::events::WarmEvents;
use crate::warm::idle::{prepare_grammars, until_idle};
use crate::warm::warm_status::warm_status;
use crate::watch::{self, Mode};

/// How long a stop waits until the last answers are in the shared tier.
const PUBLISHING: Duration = Duration::from_secs(3);

/// How long a stop waits for answers and the shared tier together. The supervisor kills a daemon 10 s after the signal,
/// and the engine saves KV in what is left.
const BEFORE_SAVING: Duration = Duration::from_secs(6);

/// A daemon that answers requests, and is not announced yet.
pub struct Daemon {
    settings: Settings,
    live: LiveSettings,
    engine: Engine,
    parts: Parts,
    router: Router,
    running: RunningDaemon,
    token: AccessToken,
    /// Notified when the model file was replaced.
    model_changed: Arc<Notify>,
    /// `None` where tests serve the router.
    server: Option<HttpServer>,
}

/// Opens and joins all parts of a daemon on `listener`. Blocks while the model loads; `report` gets
/// the progress, and breaks to interrupt the load. From [`Step::Readable`] on, saved texts and
/// `/health` are served; other requests wait until it returns.
///
/// # Errors
/// When a part cannot be opened; the message names it and the remedy. [`super::AlreadyRunning`]:
/// another process owns the directory.
pub fn open(
    model_switch: &mut ModelSwitch,
    listener: TcpListener,
    report: &mut Report<'_>,
) -> Result<Daemon> {
    let address = listener.local_addr().context("the socket has no address")?;
    let (mut listener, mut server) = (Some(listener), None);
    let mut report = |step: Step| {
        if let Step::Readable { texts, .. } = &step {
            server = listener.take().map(|listener| HttpServer::start(listener, texts.clone()));
        }
        report(step)
    };
    let daemon = open_with(model_switch, address, Overrides::default(), &mut report)?;
    if let Some(server) = &server {
        server.serve_all(daemon.router());
    }
    Ok(Daemon { server, ..daemon })
}

/// [`open`] without a socket, and with what tests replace.
///
/// # Errors
/// As for [`open`].
pub fn open_with(
    model_switch: &mut ModelSwitch,
    address: SocketAddr,
    overrides: Overrides,
    report: &mut Report<'_>,
) -> Result<Daemon> {
    let with_background = !overrides.without_background;
    let (daemon, opened, loops) = join(model_switch, address, overrides, report)?;
    if daemon.parts.chat.upstream().is_none() {
        loops.spawn();
        daemon.parts.warm_all();
    }
    if with_background {
        spawn_background(&daemon, opened, model_switch.time().clone());
    }
    Ok(daemon)
}

/// The loops that run only where this process has an engine.
struct Loops {
    warming: warm::Options<AllPrefixes>,
    filler: Option<Arc<filler::Filler>>,
}

impl Loops {
    fn spawn(self) {
        let Self { warming, filler } = self;
        if let Some(filler) = filler {
            tokio::spawn(filler::run(filler, warming.engine.clone()));
        }
        tokio::spawn(warm::run(warming));
    }
}

fn join(
    model_switch: &mut ModelSwitch,
    address: SocketAddr,
    overrides: Overrides,
    report: &mut Report<'_>,
) -> Result<(Daemon, Opened, Loops)> {
    let resolved = &model_switch.resolved();
    let time = model_switch.time().clone();
    let clock = time.wall_clock();
    let settings = &resolved.settings;
    for warning in &resolved.warnings {
        tracing::warn!("{warning}");
    }
    let private = model_switch.private_text()?;
    let readable = Readable::open(settings, address, private, clock())?;
    let Readable { token, guard, store, shared, transcript, texts, loaded } = readable;
    let _ = report(Step::Readable { texts, token: token.clone() });
    let mut report = |step: Step| {
        if let Step::Loading { percent } = &step {
            loaded.store(*percent, Ordering::Relaxed);
        }
        report(step)
    };
    let Overrides { model, engine, roots, battery, without_background: _ } = overrides;
    let opening = Opening {
        store,
        clock: clock.clone(),
        after_crash: model_switch.after_crash(),
        model,
        options: engine,
    };
    let opened = engine::open(resolved, opening, &mut report)?;
    model_switch.loaded();

    let (events, inbox) = WarmEvents::channel();
    let (status_writer, warm_status) = warm_status();
    let synthesizer = voice::synthesizer(resolved)?;
    let filler = voice::filler(resolved, synthesizer.as_ref(), clock.clone());
    let read_battery = battery.unwrap_or(battery::read_now);
    let parts = Parts::join(parts::Options {
        engine: opened.engine.clone(),
        renders_in: opened.renders_in,
        transcript,
        clock,
        reader: Some(opened.store.reader().clone()),
        lifetimes: sweep::lifetimes(settings),
        settings: model_switch.settings().clone(),
        quota: model_switch.quota().clone(),
        estimate: opened.estimate,
        events,
        warm_status,
        max_waiting: settings.queue,
        profiles_dir: Some(settings.profiles_dir.clone()),
        learned_dir: paths::learned_dir(&settings.data_dir),
        learned_limits: learned_limits(settings, &opened.engine),
        reuse_dir: paths::reuse_dir(&settings.data_dir),
        filler: filler.clone(),
        synthesizer: synthesizer.map(Arc::new),
        recognizer: voice::recognizer(resolved),
        stream_recognizer: voice::stream_recognizer(resolved),
        type_ahead: TypeAhead::new(
            settings.type_ahead,
            settings.keepalive_battery_percent,
            read_battery,
        ),
        adapters: request_adapters::of(settings, &opened),
        catalogue: Arc::new(models::catalogue(model_switch, &opened, roots)),
        crashes: model_switch.crashes().clone(),
        fetcher: model_switch.fetcher().clone(),
        shared,
        upstream: upstream::open(settings)?,
        bridge: bridge::place(settings)?,
    });
    let limits = BodyLimits { bytes: settings.max_body_bytes, time: settings.request_timeout };
    let router = http::router(Shared { parts: parts.clone(), limits }, guard);
    let running = running(settings, address, &opened);
    let daemon = Daemon {
        settings: settings.clone(),
        live: model_switch.settings().clone(),
        engine: opened.engine.clone(),
        parts,
        router,
        running,
        token,
        model_changed: Arc::new(Notify::new()),
        server: None,
    };
    let warming = warm::Options {
        engine: opened.engine.clone(),
        prefixes: daemon.parts.prefixes(),
        settings: planning(settings),
        time,
        read_battery,
        events: inbox,
        warm_status: status_writer,
    };
    Ok((daemon, opened, Loops { warming, filler }))
}

fn running(settings: &Settings, address: SocketAddr, opened: &Opened) -> RunningDaemon {
    RunningDaemon {
        address,
        token_file: announce::absolute(&settings.token_file),
        pid: std::process::id(),
        model: opened.shown.clone(),
        fingerprint: opened.engine.fingerprint().to_string(),
        slots_dir: announce::absolute(&settings.slots_dir),
    }
}

fn planning(settings: &Settings) -> hob_prewarm::Settings {
    hob_prewarm::Settings {
        idle_after: settings.idle_park,
        keepalive: Keepalive {
            interval: settings.keepalive_interval,
            short_ttl: settings.ttl_short,
            battery_percent: settings.keepalive_battery_percent,
        },
        unload_after: settings.unload_after,
    }
}

/// Learned prefixes take three quarters of the cells at most: the rest is for what follows them.
fn learned_limits(settings: &Settings, engine: &Engine) -> LearnedLimits {
    let tokens = settings.learned_prefix_tokens.min(engine.prefix_tokens() * 3 / 4);
    LearnedLimits { prefixes: settings.learned_prefixes, tokens }
}

/// Starts what runs beside requests and is no part of warming.
fn spawn_background(daemon: &Daemon, opened: Opened, time: ProcessTime) {
    let Daemon { settings, engine, parts, model_changed, .. } = daemon;
    tokio::spawn(prepare_grammars(engine.clone()));
    tokio::spawn(parts.chat.reuse_guard().clone().run(engine.clone()));
    let sweeps = sweep::Options {
        engine: engine.clone(),
        store: opened.store,
        sweeper: Arc::new(Mutex::new(Sweeper::new(sweep::rules(settings)))),
        interval: settings.sweep_interval,
        quota: parts.storage.quota().clone(),
        time: time.clone(),
    };
    tokio::spawn(sweep::run(sweeps));
    tokio::spawn(search_index::run(parts.conversations.transcript.clone(), time.clone()));
    tokio::spawn(trash::run(parts.conversations.clone(), time));
    let changes = watch::watch(parts.profiles.clone(), opened.files, Mode::default());
    tokio::spawn(watch::apply(parts.profiles.clone(), changes, model_changed.clone()));
}

impl Daemon {
    /// What requests reach, without HTTP.
    pub fn parts(&self) -> &Parts {
        &self.parts
    }

    /// All routes behind the guard: a request needs a `Host` and the token, as on the socket.
    pub fn router(&self) -> Router {
        self.router.clone()
    }

    pub fn token(&self) -> &AccessToken {
        &self.token
    }

    /// The description that clients read.
    pub fn running(&self) -> &RunningDaemon {
        &self.running
    }

    /// Writes the files by which clients find the daemon.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub fn announce(&self) -> Result<()> {
        announce::begin(&self.running, &self.settings)
    }

    /// Serves until `stop` is ready, the model file was replaced, a client switches the model, or
    /// the engine is dead. Then it saves all KV and removes the announcement. `stop` ends every wait
    /// for running answers. `closes` is called once, when it begins to end: requests to its router may fail from then on.
    ///
    /// # Errors
    /// When the thread that stops the engine panicked.
    pub async fn serve(
        self,
        stop: impl Future<Output = ()>,
        on_hang: OnHang,
        closes: impl FnOnce(),
    ) -> Result<Ending> {
        let Self { settings, live, engine, parts, running, model_changed, server, .. } = self;
        let server = server.expect("only tests open a daemon without a socket");
        let catalogue = parts.models.catalogue.clone();
        let clock = parts.models.clock.clone();
        let next = NextStart { catalogue, settings: live, clock, model_changed };
        let mut ending = Ending::Stopped;
        let restart = next.wait(running.address, || until_idle(&engine));
        tokio::select! {
            () = stop => {}
            death = death(&engine, on_hang) => {
                tracing::error!(reason = %death, "the engine is dead");
                let chosen = next.catalogue.switch_request().take();
                ending = Ending::Crashed(running.address, death, chosen);
            }
            restart = restart => ending = restart,
        }
        closes();
        let closed = Instant::now();
        parts.storage.end_watches();
        // Detached answers may have no connection for which the server waits, and those of an agent have none.
        let of_agent = async {
            if let Some(bridge) = &parts.bridge {
                bridge.all_answered().await;
            }
        };
        let others = async { tokio::join!(parts.chat.detached().all_end(), of_agent) };
        let ((), _) = tokio::join!(server.close(), timeout(GRACE, others)); // An error: one runs still.
        if let Some(sharing) = &parts.conversations.sharing {
            let left = BEFORE_SAVING.saturating_sub(closed.elapsed());
            sharing.flush(PUBLISHING.min(left)).await;
        }
        drop(parts);

        tracing::info!("saving KV");
        let deaths = engine.death();
        let stopped = tokio::task::spawn_blocking(move || engine.shutdown()).await;
        let has_ended = stopped.context("stopping the engine panicked")?;
        announce::end(&running, &settings);
        if has_ended {
            return Ok(ending);
        }
        let death = deaths.borrow().clone();
        Ok(without_its_thread(ending, death, &settings.data_dir))
    }
}

/// How a daemon ends whose engine's thread does not: no restart in this process can open the store. What a client had
/// chosen is left to the next process.
fn without_its_thread(ending: Ending, death: Option<Death>, data_dir: &Path) -> Ending {
    let (death, chosen) = match (ending, death) {
        (Ending::Crashed(_, death, chosen), _) => (death, chosen),
        (Ending::Switched(_, chosen), Some(death)) => (death, chosen),
        (Ending::ModelReplaced(_), Some(death)) => (death, Changes::new()),
        (Ending::Stopped, Some(death)) => {
            tracing::error!(reason = %death, "not all KV was saved; texts are, KV is computed again");
            return Ending::Unsaved(death);
        }
        (ending, _) => return ending,
    };
    deferred_switch::leave(data_dir, &chosen);
    Ending::Hung(death)
}

/// Waits for the death that ends the daemon. A thread that hangs keeps the store, so that the engine
/// cannot start again in this process.
async fn death(engine: &Engine, on_hang: OnHang) -> Death {
    let ends = |death: &Option<Death>| match death {
        Some(Death::Panicked) => true,
        Some(Death::Silent { .. }) => on_hang == OnHang::End,
        None => false,
    };
    let mut deaths = engine.death();
    match deaths.wait_for(ends).await {
        Ok(death) => death.clone().expect("it was waited for"),
        Err(_) => std::future::pending().await, // The engine has stopped alive.
    }
}
