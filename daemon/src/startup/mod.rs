//! Opens the parts, joins them, serves, and closes them in order.
//!
//! Reading order: [`run`] (the program; a program with a window calls [`bind`], [`open`] and
//! [`Daemon::serve`] itself), `daemon` (join, serve, close), `engine` and `model` (what is opened
//! first), `models`, `voice`, [`model_switch`], `announce`.
//!
//! - The daemon announces itself only once it serves requests; the ready file appears atomically.
//! - At the end it accepts no connections, gives running answers five seconds, saves all KV, and
//!   then removes the announcement.

mod announce;
mod daemon;
mod engine;
mod model;
pub mod model_switch;
mod models;
mod voice;

use std::net::SocketAddr;

use anyhow::{Context, Result};
use axum::Router;
use hob_config::ModelChoice;
use tokio::net::TcpListener;
use tracing_subscriber::EnvFilter;

use crate::auth::AccessToken;
pub use daemon::{Daemon, open, open_with};
pub use engine::{AlreadyRunning, Overrides};
pub use model::Loaded;
pub use model_switch::ModelSwitch;

/// Progress of [`open`].
#[derive(Clone, Debug)]
pub enum Step {
    /// The saved conversations can be read.
    Readable {
        /// The routes that answer already, behind the guard.
        texts: Router,
        token: AccessToken,
    },
    /// The model file is hashed, on its first use.
    Reading { percent: u8 },
    /// llama.cpp loads the model.
    Loading { percent: u8 },
}

/// The log filter of the setting `log`. llama.cpp logs errors only, unless the setting says
/// otherwise: it prints pages about every model, and warns of a cache larger than the trained
/// context, which is intended here.
///
/// # Errors
/// When `wanted` is not a log filter.
pub fn log_filter(wanted: &str) -> Result<EnvFilter> {
    EnvFilter::try_new(format!("llama-cpp-2=error,llama_cpp_2=error,{wanted}"))
        .with_context(|| format!("log = {wanted:?} is not a log filter"))
}

/// Why [`Daemon::serve`] returned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// By `stop`.
    Stopped,
    /// The model file was replaced: restart at this address.
    ModelReplaced(SocketAddr),
    /// A client chose this model: restart with it at this address.
    Switched(SocketAddr, ModelChoice),
}

/// Runs a daemon to its end. `at`: its address before a restart. `hints`: print commands to paste.
///
/// # Errors
/// When a part cannot be opened; the message names it and the remedy.
pub async fn run(
    model_switch: &mut ModelSwitch,
    at: Option<SocketAddr>,
    hints: bool,
) -> Result<Ending> {
    // Binding before loading the model reports a used address within milliseconds.
    let listener = bind(at.unwrap_or(model_switch.resolved().settings.listen)).await?;
    let address = listener.local_addr().context("the socket has no address")?;
    let daemon = open(model_switch, address, &mut |_| {})?;
    let stop = stop_signal()?;
    daemon.announce()?;
    announce::print(daemon.running(), daemon.parts().models.name(), hints);
    daemon.serve(listener, stop).await
}

/// # Errors
/// When the address is in use or not this machine's; the cause is an [`std::io::Error`].
pub async fn bind(address: SocketAddr) -> Result<TcpListener> {
    if !address.ip().is_loopback() {
        let open = "serving beyond this machine, unencrypted: every holder of the token has access, \
                    and the network can read along";
        tracing::warn!(%address, "{open}");
    }
    TcpListener::bind(address).await.with_context(|| {
        format!(
            "cannot listen on {address}: is another hobd running? --listen takes another address"
        )
    })
}

/// Ready at the first SIGTERM or SIGINT; a second one ends the process at once.
///
/// # Errors
/// When the signal handlers cannot be installed.
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
        tracing::info!("stopping; a second signal ends the process at once");
        tokio::spawn(async move {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            std::process::exit(130);
        });
    })
}

/// Ready at Ctrl-C.
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
