//! Opens the parts, joins them, serves, and closes them in order.
//!
//! Reading order: [`run`] (the program; a program with a window calls [`bind`], [`open`] and
//! [`Daemon::serve`] itself), `daemon` (join, serve, close), `readable` (what is open before the model loads),
//! `server` (the socket).
//!
//! `engine` opens the store and the engine over `model`, with `drafter` and `recall_model`. These three
//! share `model_file` (finds and names a file) and `probe` (a child process tries it first); the last two
//! share `beside`. `template` and `adapters` read the files that the settings name.
//!
//! `models`, `request_adapters`, `sharing`, `voice`, `upstream` (an engine at another address) and `bridge`
//! open the other parts. `next` decides on restarts, [`model_switch`] lasts over them, `deferred_switch` over the
//! end of the process, `announce` writes the files by which clients find the daemon. [`stop`] has the signals,
//! [`supervise`] the crashes of the process.
//!
//! - The daemon announces itself only once it answers; the ready file appears atomically. A client that
//!   knows its address reads texts and `/health` before, and waits with everything else.
//! - A dead engine ends the daemon; the program opens it again at the same address. A daemon that was opened
//!   again serves also where it cannot announce itself.
//! - At the end it accepts no connections, gives running answers five seconds, saves all KV, and
//!   then removes the announcement.

#[cfg(feature = "llama")]
mod adapters;
mod announce;
#[cfg(feature = "llama")]
mod beside;
mod bridge;
mod daemon;
mod deferred_switch;
mod drafter;
mod engine;
mod model;
mod model_file;
pub mod model_switch;
mod models;
mod next;
#[cfg(feature = "llama")]
pub(crate) mod probe;
mod readable;
mod recall_model;
mod request_adapters;
mod server;
mod sharing;
pub mod stop;
pub mod supervise;
mod template;
mod upstream;
mod voice;

use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::time::Duration;

use anyhow::{Context, Result};
use axum::Router;
use hob_config::Resolved;
use hob_runtime::Death;
use tokio::net::{TcpListener, TcpSocket};
use tokio::runtime::Runtime;
use tracing_subscriber::EnvFilter;

use crate::auth::AccessToken;
use crate::blocking;
pub use crate::settings::Changes;
use announce::Hints;
pub use daemon::{Daemon, open, open_with};
pub use engine::{AlreadyRunning, Overrides};
pub use hob_runtime::backend::heap::bound_arenas;
pub use model::Loaded;
pub use model_switch::{ModelSwitch, StartedBy};
pub use stop::StopSignal;

/// Exit code of a daemon that served and ended by a fault: it can be started again.
pub const EXIT_CRASHED: i32 = 70;

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

/// Gets the progress of [`open`]; breaks to interrupt the load of the model.
pub type Report<'a> = dyn FnMut(Step) -> ControlFlow<()> + 'a;

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
    /// By `stop`, with an engine whose thread does not end: KV that only the thread had is not saved.
    Unsaved(Death),
    /// The model file was replaced: restart at this address.
    ModelReplaced(SocketAddr),
    /// A client chose another model or other settings: restart with them at this address.
    Switched(SocketAddr, Changes),
    /// The engine died: restart at this address, with what a client had chosen and no restart has made.
    Crashed(SocketAddr, Death, Changes),
    /// The engine's thread does not end and keeps the store: only a new process can serve. It makes what a client had
    /// chosen.
    Hung(Death),
}

/// What a daemon does whose engine hangs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnHang {
    /// It answers what needs no engine, and `/health` says why.
    Report,
    /// It ends, because its caller can start another process.
    End,
}

/// Where [`run`] listens.
#[derive(Clone, Copy, Debug)]
pub enum Listen<'a> {
    /// At the address of the settings.
    Configured,
    /// At the address before a restart.
    At(SocketAddr),
    /// On a socket that outlives this process. Connections wait in it between two daemons.
    Inherited(&'a std::net::TcpListener),
}

/// Runs a daemon to its end. `hints`: print commands to paste.
///
/// # Errors
/// When a part cannot be opened; the message names it and the remedy.
pub async fn run(
    model_switch: &mut ModelSwitch,
    listen: &Listen<'_>,
    hints: bool,
    stop: &StopSignal,
) -> Result<Ending> {
    let Resolved { settings, user_dirs, .. } = model_switch.resolved();
    // Binding before loading the model reports a used address within milliseconds.
    let (listener, on_hang) = match listen {
        Listen::Configured => (bind(settings.listen).await?, OnHang::Report),
        Listen::At(address) => (bind(*address).await?, OnHang::Report),
        Listen::Inherited(socket) => {
            let socket = socket.try_clone().context("cannot share the socket")?;
            socket.set_nonblocking(true).context("cannot use the socket")?;
            (TcpListener::from_std(socket).context("cannot use the socket")?, OnHang::End)
        }
    };
    let opening = stop.opening();
    let daemon = open(model_switch, listener, &mut |_| stop.flow())?;
    drop(opening);
    if let Err(error) = daemon.announce() {
        let is_restart = matches!(listen, Listen::At(_)) || model_switch.crashes().count > 0;
        if !is_restart {
            return Err(error);
        }
        // The disk may be full. Clients of the daemon before know the address.
        let error = format!("{error:#}");
        tracing::warn!(error, "other clients cannot find this daemon");
    }
    let data_dir = announce::absolute(&settings.data_dir);
    let data_dir = Some(data_dir).filter(|data_dir| *data_dir != user_dirs.data_dir);
    let hints = hints.then_some(Hints { data_dir });
    let what = match &settings.upstream {
        Some(url) => format!("forwards to {url}"),
        None => format!("serves {}", daemon.parts().models.name()),
    };
    announce::print(daemon.running(), daemon.token(), &what, hints.as_ref());
    daemon.serve(stop.requested(), on_hang, || ()).await
}

/// Ends the runtime that a daemon ran in, and then the threads that computed for it, whose jobs may hold its engine. Waits
/// `patience` at most for each.
pub fn end(runtime: Runtime, patience: Duration) {
    runtime.shutdown_timeout(patience);
    blocking::end(patience);
}

/// # Errors
/// When the address is in use or not this machine's; the cause is an [`std::io::Error`].
pub async fn bind(address: SocketAddr) -> Result<TcpListener> {
    if !address.ip().is_loopback() {
        let open = "serving beyond this machine, unencrypted: every holder of the token has access, \
                    and the network can read along";
        tracing::warn!(%address, "{open}");
    }
    listen(address).with_context(|| {
        format!(
            "cannot listen on {address}: is another hobd running? --listen takes another address"
        )
    })
}

/// [`TcpListener::bind`] with a backlog of its own: the library's 128 connections are fewer than a burst has.
fn listen(address: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Connections that wait until hobd accepts them. The system answers none beyond, and its client tries again after a
/// second.
const BACKLOG: u32 = 1_024;
