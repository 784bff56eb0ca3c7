//! One daemon, from its opening to its end; or one attachment to another's.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use hob_config::{ModelChoice, Settings};
use hob_daemon::startup::{self, ModelSwitch, Daemon, Ending, AlreadyRunning};
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio::sync::mpsc::UnboundedReceiver;

use super::carrier::Carrier;
use super::elsewhere::Elsewhere;
use super::{Order, Told};
use crate::shell::state::{Doing, Known, Phase, Remedy};

/// Between two attempts to open a directory whose owner cannot be asked.
const TRY_AGAIN: Duration = Duration::from_millis(500);

/// How many attempts such an owner has before people are told.
const PATIENCE: u32 = 20;

/// What comes after a life.
pub enum Next {
    /// Nothing: everything is saved.
    Stop,
    /// Another life, there if that is known.
    Again { address: Option<SocketAddr> },
    /// Another life, with this model.
    With { address: SocketAddr, model: ModelChoice },
    /// The other daemon is gone.
    TakeOver,
}

/// What one life begins with.
pub struct Life<'a> {
    /// Where things are. The model may be another one.
    pub settings: &'a Settings,
    /// What a daemon is opened with.
    pub model_switch: Arc<Mutex<ModelSwitch>>,
    /// Where it was before.
    pub at: Option<SocketAddr>,
    /// The app was attached to another daemon before.
    pub took_over: bool,
    /// Who hears of it.
    pub told: &'a Told,
}

impl Life<'_> {
    /// Lives once.
    pub async fn live(self, orders: &mut UnboundedReceiver<Order>) -> Result<Next> {
        let mut attempts = 0;
        loop {
            let listener = bind(self.at.unwrap_or(self.settings.listen)).await?;
            let opening = self.open(listener.local_addr()?);
            let opened = tokio::select! {
                opened = opening => opened,
                // Nothing has been said yet, so there is nothing to save.
                order = orders.recv() => return Ok(followed(order)),
            };
            let error = match opened {
                Ok(daemon) => return self.serve(daemon, listener, orders).await,
                Err(error) if error.downcast_ref::<AlreadyRunning>().is_some() => error,
                Err(error) => return Err(error),
            };
            drop(listener);
            if let Some(other) = Elsewhere::find(self.settings).await {
                return Ok(self.attach(&other, orders).await);
            }
            match attempts {
                0 => self.told.waits(Doing::Waiting),
                PATIENCE => self.told.failed(&error, Remedy::Release),
                _ => {}
            }
            attempts += 1;
            tokio::select! {
                () = tokio::time::sleep(TRY_AGAIN) => {}
                order = orders.recv() => return Ok(followed(order)),
            }
        }
    }

    /// Loading a model blocks for as long as it takes.
    async fn open(&self, address: SocketAddr) -> Result<Daemon> {
        let (model_switch, told, runtime) = (self.course.clone(), self.told.clone(), Handle::current());
        let opening = tokio::task::spawn_blocking(move || {
            let mut model_switch = course.lock().unwrap_or_else(PoisonError::into_inner);
            startup::open(&mut model_switch, address, &mut |step| told.step(step, address, &runtime))
        });
        opening.await.context("opening the daemon panicked")?
    }

    async fn serve(
        self,
        daemon: Daemon,
        listener: TcpListener,
        orders: &mut UnboundedReceiver<Order>,
    ) -> Result<Next> {
        daemon.announce()?;
        let running = daemon.running();
        let known =
            Known { address: running.address, pid: running.pid, model: running.model.clone() };
        let took_over = self.took_over;
        tracing::info!(address = %known.address, model = known.model, took_over, "the daemon runs here");
        let address = known.address;
        let carrier = Carrier::here(daemon.router(), address, daemon.token(), Handle::current());
        self.told.serves(carrier, Phase::Ready { daemon: known, took_over });
        let mut order = None;
        let stop = async {
            order = Some(orders.recv().await);
            self.told.waits(Doing::Saving);
        };
        let ending = daemon.serve(listener, stop).await?;
        Ok(match ending {
            Ending::Stopped => match followed(order.flatten()) {
                Next::Again { .. } => Next::Again { address: Some(address) },
                next => next,
            },
            Ending::Swapped(address) => Next::Again { address: Some(address) },
            Ending::Switched(address, model) => Next::With { address, model },
        })
    }

    /// Until it is gone, or the app wants something else.
    async fn attach(&self, other: &Elsewhere, orders: &mut UnboundedReceiver<Order>) -> Next {
        let known = other.known();
        tracing::info!(address = %known.address, pid = known.pid, "attached to another daemon");
        self.told.serves(other.carrier(Handle::current()), Phase::Attached { daemon: known });
        tokio::select! {
            () = other.gone() => Next::TakeOver,
            order = orders.recv() => followed(order),
        }
    }
}

fn followed(order: Option<Order>) -> Next {
    match order {
        Some(Order::Restart) => Next::Again { address: None },
        Some(Order::Stop) | None => Next::Stop,
    }
}

/// The address that is set, or, where that is taken, another one of the same interface.
async fn bind(address: SocketAddr) -> Result<TcpListener> {
    match startup::bind(address).await {
        Err(error) if is_taken(&error) => startup::bind(SocketAddr::new(address.ip(), 0)).await,
        bound => bound,
    }
}

fn is_taken(error: &anyhow::Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|it| it.kind() == io::ErrorKind::AddrInUse)
}
