//! Opens the parts, joins them, serves, and closes them in the right order.
//!
//! - [`run`] is the program; a program with a face of its own calls [`bind`], [`open`] and
//!   [`Daemon::serve`] itself.
//! - Nothing is announced before requests are served; the ready file appears at once and whole.
//! - At the end: no new connections, running answers get a moment, then everything worth keeping
//!   is saved, and only then is the announcement taken away.

mod announce;
mod daemon;
mod engine;
mod model;
mod model_switch;
mod models;
mod voice;

use std::net::SocketAddr;

use anyhow::{Context, Result};
use axum::Router;
use hob_config::ModelChoice;
use tokio::net::TcpListener;
use tracing_subscriber::EnvFilter;

use crate::auth::AccessToken;
pub use daemon::{Daemon, open};
pub use engine::AlreadyRunning;
pub use model_switch::ModelSwitch;

/// What happens while a daemon is opened.
#[derive(Clone, Debug)]
pub enum Step {
    /// The directory is ours, and what was said can be read already.
    Readable {
        /// The routes that answer already, guarded as ever.
        texts: Router,
        /// What requests carry.
        token: AccessToken,
    },
    /// The model's content is read for its name: once, then it is known.
    Reading {
        /// How much of it was read.
        percent: u8,
    },
    /// The model is loaded.
    Loading {
        /// How much of it is in memory.
        percent: u8,
    },
}

/// What is told of what happens. llama.cpp tells pages about every model, and warns of what is meant
/// to be so (a cache larger than the trained context serves several conversations): only its errors,
/// unless somebody asks for more.
///
/// # Errors
/// Where `wanted` is not a log filter.
pub fn log_filter(wanted: &str) -> Result<EnvFilter> {
    EnvFilter::try_new(format!("llama-cpp-2=error,llama_cpp_2=error,{wanted}"))
        .with_context(|| format!("log = {wanted:?} is not a log filter"))
}

/// Why a daemon has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// It was asked to.
    Stopped,
    /// There is another model where its own was: it should start over, where it was found.
    Swapped(SocketAddr),
    /// Somebody wants this model: it should start over with it, at the same address.
    Switched(SocketAddr, ModelChoice),
}

/// The daemon, from its settings to its end. `at`: where it was before it started over. `hints`: print
/// what to paste next.
///
/// # Errors
/// When a part cannot be opened; the message names it and the remedy.
pub async fn run(
    model_switch: &mut ModelSwitch,
    at: Option<SocketAddr>,
    hints: bool,
) -> Result<Ending> {
    // Binding first makes an address that is taken a matter of milliseconds.
    let listener = bind(at.unwrap_or(model_switch.resolved().settings.listen)).await?;
    let address = listener.local_addr().context("the socket has no address")?;
    let daemon = open(model_switch, address, &mut |_| {})?;
    let stop = stop_signal()?;
    daemon.announce()?;
    announce::print(daemon.running(), daemon.service().model_name(), hints);
    daemon.serve(listener, stop).await
}

/// A socket for a daemon.
///
/// # Errors
/// When the address is taken or not this machine's: an [`std::io::Error`] with its remedy around it.
pub async fn bind(address: SocketAddr) -> Result<TcpListener> {
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
///
/// # Errors
/// When the system does not tell of signals.
#[cfg(unix)]
pub fn stop_signal() -> Result<impl Future<Output = ()>> {
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

/// Ready when the process is asked to end.
///
/// # Errors
/// None.
#[cfg(not(unix))]
pub fn stop_signal() -> Result<impl Future<Output = ()>> {
    Ok(async {
        let _ = tokio::signal::ctrl_c().await;
        tracing::info!("stopping");
    })
}
