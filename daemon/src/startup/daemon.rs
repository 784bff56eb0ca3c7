//! A daemon whose parts are open and joined: it can be asked, announced, served and closed.
//!
//! - It lives in the tokio runtime that it was opened in; when that ends, nothing of it is left.
//! - Whoever opens one ends it with [`Daemon::serve`]: dropping it saves less.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context, Result};
use axum::Router;
use hob_config::{RunningDaemon, Settings, paths};
use hob_prewarm::Keepalive;
use hob_runtime::Engine;
use hob_slots::sweep::Sweeper;
use tokio::net::TcpListener;
use tokio::sync::{Notify, mpsc};
use tokio::time::timeout;

use super::{Ending, ModelSwitch, Step, announce, engine, models, voice};
use crate::auth::AccessToken;
use crate::clock::wall_clock;
use crate::http::body::BodyLimits;
use crate::http::guard::Guard;
use crate::http::{self, Shared};
use crate::idle;
use crate::service::{Parts, Service, Shape};
use crate::silence::until_silent;
use crate::sweeping;
use crate::transcript::Transcript;
use crate::trash;
use crate::voice::filler;
use crate::warm::{self, warm_status::warm_status};
use crate::watch::{self, Mode};

/// So long a switch to another model waits for answers that run.
const FOR_ANSWERS: Duration = Duration::from_secs(10);

/// A daemon that answers whoever has its router, and nobody else yet.
pub struct Daemon {
    settings: Settings,
    engine: Engine,
    service: Service,
    router: Router,
    running: RunningDaemon,
    token: AccessToken,
    /// There is another model where its own was.
    swapped: Arc<Notify>,
}

/// Opens and joins all parts of a daemon that is to be found at `address`. Takes as long as loading
/// the model does, and `tell` hears how far that is.
///
/// # Errors
/// When a part cannot be opened; the message names it and the remedy. [`super::AlreadyRunning`]: another
/// process owns the directory.
pub fn open(
    model_switch: &mut ModelSwitch,
    address: SocketAddr,
    tell: &mut dyn FnMut(Step),
) -> Result<Daemon> {
    let resolved = &model_switch.resolved().clone();
    let settings = &resolved.settings;
    for warning in &resolved.warnings {
        tracing::warn!("{warning}");
    }
    let clock = wall_clock();
    private_dir(&settings.data_dir)?;
    let token = AccessToken::load_or_create(&settings.token_file)?;
    let store = engine::own(settings)?;
    let transcript_file = paths::transcript_file(&settings.data_dir);
    let transcript = Transcript::open(&transcript_file, clock())?;
    let guard = Guard::new(address, &settings.allow_host, &settings.allow_origin, token.clone());
    let texts = http::texts::router(transcript.clone(), guard.clone());
    tell(Step::Readable { texts, token: token.clone() });
    let opened = engine::open(resolved, store, clock.clone(), tell)?;
    model_switch.arrive();

    let (planner, events) = mpsc::unbounded_channel();
    let (writer, warm_status) = warm_status();
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
        shape: Shape { estimate: opened.estimate, quota: sweeping::rules(settings).quota },
        planner,
        warm_status,
        queue: settings.queue,
        profiles_dir: Some(settings.profiles_dir.clone()),
        filler,
        recognizer: voice::recognizer(resolved),
        catalogue: Arc::new(models::catalogue(model_switch, &opened)),
    });
    let (engine, prefixes) = (opened.engine.clone(), service.clone());
    tokio::spawn(warm::run(engine, prefixes, planning, clock, events, writer));
    tokio::spawn(trash::run(service.clone()));
    service.warm_profiles();
    let changes = watch::watch(service.clone(), opened.files, Mode::default());
    let swapped = Arc::new(Notify::new());
    tokio::spawn(watch::tell(service.clone(), changes, swapped.clone()));
    let limits = BodyLimits { bytes: settings.max_body_bytes, time: settings.request_timeout };
    let router = http::router(Shared { service: service.clone(), limits }, guard);
    let running = RunningDaemon {
        address,
        token_file: settings.token_file.clone(),
        pid: std::process::id(),
        model: opened.shown,
        fingerprint: opened.engine.fingerprint().to_string(),
        slots_dir: settings.slots_dir.clone(),
    };
    let (settings, engine) = (settings.clone(), opened.engine);
    Ok(Daemon { settings, engine, service, router, running, token, swapped })
}

impl Daemon {
    /// What can be asked, without HTTP.
    pub fn service(&self) -> &Service {
        &self.service
    }

    /// All routes, guarded: a request needs a `Host` and the token, as on the socket.
    pub fn router(&self) -> Router {
        self.router.clone()
    }

    /// What requests carry.
    pub fn token(&self) -> &AccessToken {
        &self.token
    }

    /// How it describes itself.
    pub fn running(&self) -> &RunningDaemon {
        &self.running
    }

    /// Tells clients where it is, by files. Connections may wait in the socket from then on.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub fn announce(&self) -> Result<()> {
        announce::begin(&self.running, &self.settings)
    }

    /// Serves until `stop` is ready, another model has taken the place of this one or is wanted in
    /// its place, and closes.
    /// What was announced is taken away.
    ///
    /// # Errors
    /// When the engine did not end as it should.
    pub async fn serve(
        self,
        listener: TcpListener,
        stop: impl Future<Output = ()>,
    ) -> Result<Ending> {
        let Self { settings, engine, service, router, running, swapped, .. } = self;
        let catalogue = service.catalogue().clone();
        let mut ending = Ending::Stopped;
        let stop = async {
            tokio::select! {
                () = stop => {}
                () = swapped.notified() => {
                    let _ = until_silent(&engine).await; // An error: it has stopped already.
                    ending = Ending::Swapped(running.address);
                }
                model = catalogue.wanted().told() => {
                    tracing::info!(%model, "starting over with another model");
                    let _ = timeout(FOR_ANSWERS, until_silent(&engine)).await;
                    ending = Ending::Switched(running.address, model);
                }
            }
            service.end_watching();
        };
        http::serve::serve(listener, router, stop).await;
        drop(service);

        tracing::info!("saving what is worth keeping");
        let saved = tokio::task::spawn_blocking(move || engine.shutdown()).await;
        saved.context("the engine panicked")?;
        announce::end(&running, &settings);
        Ok(ending)
    }
}

/// Makes a directory that only its owner reads.
fn private_dir(path: &Path) -> Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path).with_context(|| format!("cannot make {}", path.display()))
}
