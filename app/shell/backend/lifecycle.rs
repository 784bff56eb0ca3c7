//! One daemon in this process, from its opening to its end; or one attachment to another daemon.

use std::io;
use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use hob_config::Settings;
use hob_daemon::startup::{self, AlreadyRunning, Changes, Daemon, Ending, ModelSwitch, OnHang};
use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio::sync::mpsc::UnboundedReceiver;

use super::other_daemon::OtherDaemon;
use super::publisher::Publisher;
use super::transport::Transport;
use crate::shell::phase::{Activity, DaemonInfo, Phase, Remedy};

/// Between two attempts to open a directory whose owner cannot be reached.
const RETRY_PAUSE: Duration = Duration::from_millis(500);

/// Attempts before the user learns that another program owns the directory.
const MAX_QUIET_ATTEMPTS: u32 = 20;

/// What the app asks of the daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    Restart,
    Stop,
}

/// What follows the end of one lifecycle.
pub enum Next {
    /// Nothing: the app ends.
    Stop,
    /// Another daemon, at the same address if that is known.
    Restart { address: Option<SocketAddr> },
    /// Another daemon with another model or other settings.
    Switch { address: SocketAddr, changes: Changes },
    /// The other daemon has ended: this process takes its place.
    TakeOver,
    /// The engine's thread hangs and cannot be ended: only a new process can serve.
    RestartApp(String),
}

pub struct Lifecycle<'a> {
    /// Directories and addresses; the model comes from `model_switch`.
    pub settings: &'a Settings,
    pub model_switch: Arc<Mutex<ModelSwitch>>,
    /// The address of the previous lifecycle.
    pub address: Option<SocketAddr>,
    /// The previous lifecycle was attached to another daemon.
    pub took_over: bool,
    pub publisher: &'a Publisher,
}

impl Lifecycle<'_> {
    pub async fn run(self, orders: &mut UnboundedReceiver<Order>) -> Result<Next> {
        let mut attempts = 0;
        loop {
            let listener = bind(self.address.unwrap_or(self.settings.listen)).await?;
            let opening = self.open(listener);
            let opened = tokio::select! {
                opened = opening => opened,
                // No conversation has happened yet, so there is nothing to save.
                order = orders.recv() => return Ok(next_after(order)),
            };
            let error = match opened {
                Ok(daemon) => return self.serve(daemon, orders).await,
                Err(error) if error.downcast_ref::<AlreadyRunning>().is_some() => error,
                Err(error) => return Err(error),
            };
            if let Some(other) = OtherDaemon::find(self.settings).await {
                return Ok(self.attach(&other, orders).await);
            }
            match attempts {
                0 => self.publisher.starting(Activity::Waiting),
                MAX_QUIET_ATTEMPTS => self.publisher.failed(&error, Remedy::Release),
                _ => {}
            }
            attempts += 1;
            tokio::select! {
                () = tokio::time::sleep(RETRY_PAUSE) => {}
                order = orders.recv() => return Ok(next_after(order)),
            }
        }
    }

    /// Loading a model blocks its thread for seconds to minutes.
    async fn open(&self, listener: TcpListener) -> Result<Daemon> {
        let address = listener.local_addr()?;
        let (publisher, runtime) = (self.publisher.clone(), Handle::current());
        let model_switch = self.model_switch.clone();
        let opening = tokio::task::spawn_blocking(move || {
            let mut model_switch = model_switch.lock();
            let mut progress = |step| {
                publisher.step(step, address, &runtime);
                ControlFlow::Continue(())
            };
            startup::open(&mut model_switch, listener, &mut progress)
        });
        opening.await.context("opening the daemon panicked")?
    }

    async fn serve(self, daemon: Daemon, orders: &mut UnboundedReceiver<Order>) -> Result<Next> {
        if let Err(error) = daemon.announce() {
            // The disk may be full. The page needs no announcement.
            let error = format!("{error:#}");
            tracing::warn!(error, "other clients cannot find this daemon");
        }
        let running = daemon.running();
        let (address, model, took_over) = (running.address, running.model.clone(), self.took_over);
        tracing::info!(%address, model, took_over, "the daemon runs in this process");
        let info = DaemonInfo { address, pid: running.pid, model };
        let (router, token) = (daemon.router(), daemon.token());
        let transport = Transport::in_process(router, address, token, Handle::current());
        self.publisher.serving(transport, Phase::Ready { daemon: info, took_over });
        let mut order = None;
        let stop = async { order = Some(orders.recv().await) };
        // Requests wait for the next daemon while this one saves.
        let closes = || self.publisher.starting(Activity::Saving);
        let began = Instant::now();
        let ending = daemon.serve(stop, OnHang::End, closes).await?;
        Ok(match ending {
            Ending::Stopped => match next_after(order.flatten()) {
                Next::Restart { .. } => Next::Restart { address: Some(address) },
                next => next,
            },
            Ending::Unsaved(death) => match next_after(order.flatten()) {
                Next::Restart { .. } => Next::RestartApp(death.to_string()),
                next => next,
            },
            Ending::ModelReplaced(address) => Next::Restart { address: Some(address) },
            Ending::Switched(address, changes) => Next::Switch { address, changes },
            Ending::Crashed(address, death, chosen) => {
                let (reason, ran) = (death.to_string(), began.elapsed());
                let pause = self.model_switch.lock().crashed(reason, ran, chosen);
                restart_after(pause, address, self.publisher, orders).await
            }
            Ending::Hung(death) => Next::RestartApp(death.to_string()),
        })
    }

    /// Stays attached until the other daemon ends or the app sends an order.
    async fn attach(&self, other: &OtherDaemon, orders: &mut UnboundedReceiver<Order>) -> Next {
        let info = other.info();
        tracing::info!(address = %info.address, pid = info.pid, "attached to another daemon");
        let transport = other.transport(Handle::current());
        self.publisher.serving(transport, Phase::Attached { daemon: info });
        tokio::select! {
            () = other.ended() => Next::TakeOver,
            order = orders.recv() => next_after(order),
        }
    }
}

/// Waits before a crashed daemon opens again. Requests wait too: its router would refuse each.
async fn restart_after(
    pause: Duration,
    address: SocketAddr,
    publisher: &Publisher,
    orders: &mut UnboundedReceiver<Order>,
) -> Next {
    publisher.starting(Activity::Opening);
    tokio::select! {
        () = tokio::time::sleep(pause) => Next::Restart { address: Some(address) },
        order = orders.recv() => next_after(order),
    }
}

fn next_after(order: Option<Order>) -> Next {
    match order {
        Some(Order::Restart) => Next::Restart { address: None },
        Some(Order::Stop) | None => Next::Stop,
    }
}

/// Binds the address, or a free port of the same interface when the port is taken.
async fn bind(address: SocketAddr) -> Result<TcpListener> {
    match startup::bind(address).await {
        Err(error) if is_taken(&error) => startup::bind(SocketAddr::new(address.ip(), 0)).await,
        bound => bound,
    }
}

fn is_taken(error: &anyhow::Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|it| it.kind() == io::ErrorKind::AddrInUse)
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use axum::Router;
    use hob_config::{Flags, Key, Sources, UserDirs, paths};
    use hob_daemon::auth::AccessToken;
    use hob_daemon::startup::StartedBy;
    use tokio::runtime;
    use tokio::sync::{mpsc, watch};

    use super::*;

    #[test]
    fn the_page_is_served_where_the_daemon_cannot_announce_itself() {
        let root = tempfile::tempdir().unwrap();
        let mut flags = Flags::default();
        flags.set(Key::Model, "fake").set(Key::Listen, "127.0.0.1:0");
        let sources = Sources::gather(UserDirs::under(root.path()), [], flags).unwrap();
        let resolved = Settings::resolve(&sources).unwrap();
        let settings = resolved.settings.clone();
        let announcement = paths::daemon_file(&settings.data_dir);
        std::fs::create_dir_all(announcement.with_extension("json.tmp")).unwrap();
        let model_switch = Arc::new(Mutex::new(ModelSwitch::new(resolved, StartedBy::User)));
        let starting = Phase::Starting { what: Activity::Opening, percent: None };
        let (phases, mut phase) = watch::channel(starting);
        let (transports, transport) = watch::channel(None);
        let publisher = Publisher { phases, transports };
        let (app, mut orders) = mpsc::unbounded_channel();
        let runtime = runtime::Builder::new_multi_thread().enable_all().build().unwrap();

        let next = runtime.block_on(async {
            let (settings, publisher) = (&settings, &publisher);
            let lifecycle =
                Lifecycle { settings, model_switch, address: None, took_over: false, publisher };
            let stops = async {
                phase.wait_for(|phase| matches!(phase, Phase::Ready { .. })).await.unwrap();
                app.send(Order::Stop).unwrap();
                pending::<()>().await;
            };
            tokio::select! {
                next = lifecycle.run(&mut orders) => next,
                () = stops => unreachable!("it waits for ever"),
            }
        });
        assert!(matches!(next, Ok(Next::Stop)));
        assert!(!announcement.exists());
        drop((publisher, transport));
        startup::end(runtime, Duration::from_secs(60));
    }

    #[test]
    fn requests_wait_until_a_crashed_daemon_opens_again() {
        let runtime = runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let address: SocketAddr = "127.0.0.1:8642".parse().unwrap();
        let token = AccessToken::new("secret");
        let crashed =
            Transport::in_process(Router::new(), address, &token, runtime.handle().clone());
        let daemon = DaemonInfo { address, pid: 7, model: "/m/tiny.gguf".to_owned() };
        let (phases, phase) = watch::channel(Phase::Ready { daemon, took_over: false });
        let (transports, transport) = watch::channel(Some(crashed));
        let publisher = Publisher { phases, transports };
        let (app, mut orders) = mpsc::unbounded_channel();
        app.send(Order::Stop).unwrap();

        let pause = Duration::from_secs(3600);
        let next = runtime.block_on(restart_after(pause, address, &publisher, &mut orders));

        assert!(matches!(next, Next::Stop));
        assert!(transport.borrow().is_none());
        let opening = Phase::Starting { what: Activity::Opening, percent: None };
        assert_eq!(*phase.borrow(), opening);
    }
}
