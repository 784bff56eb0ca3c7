//! `hobd --supervise`: runs hobd as a child process and starts it again when it crashes: ended by a
//! signal (an abort of llama.cpp, an access outside its memory), or by itself when its engine hangs.
//!
//! - The parent owns the socket: the port stays, and connections wait while no child serves.
//! - A child that ends with success, or that cannot start although none crashed before, ends the
//!   parent with the same code.
//! - The child is in a process group of its own. The parent passes SIGTERM, SIGINT and SIGHUP on as
//!   SIGTERM, and kills a child that does not end within ten seconds.
//! - A child whose parent was killed gets SIGTERM (on Linux).

use std::ffi::OsString;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, Command};
use tokio::time::{sleep, sleep_until};

use super::stop::Signals;
use super::{EXIT_CRASHED, bind};
use crate::clock::wall_clock;
use crate::crashes::{Crash, Crashes};
use crate::limits;

/// The flag by which a child knows that it is one; its value is the number of crashes before.
pub const CHILD_FLAG: &str = "--supervised";

/// The flag with the reason of the latest crash.
pub const CRASH_FLAG: &str = "--last-crash";

/// From a signal to the kill of a child that does not end. A child ends itself before that.
const MAX_STOP_TIME: Duration = Duration::from_secs(10);

/// What follows the end of a child.
#[derive(Debug, PartialEq, Eq)]
enum Next {
    /// With this exit code.
    End(i32),
    /// For this reason.
    Restart(String),
}

/// Serves at `address` until a child ends with success or a signal arrives. `arguments`: of the
/// child. Returns the exit code.
///
/// # Errors
/// When the address is in use, or no child can be started.
pub fn run(address: SocketAddr, arguments: &[OsString]) -> Result<i32> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.context("cannot start the supervisor")?.block_on(async {
        let socket = bind(address).await?.into_std().context("cannot share the socket")?;
        let mut signals = Signals::install().context("cannot install the handlers of signals")?;
        let mut crashes = Crashes::default();
        loop {
            let started = Instant::now();
            let mut child = start(&socket, arguments, &crashes)?;
            let (status, told) = end_of(&mut child, &mut signals).await?;
            let reason = match next(status, told, crashes.count) {
                Next::End(code) => return Ok(code),
                Next::Restart(reason) => reason,
            };
            let crash = Crash { reason, at: Some(wall_clock()().0 / 1000) };
            tracing::error!(reason = crash.reason, "hobd crashed");
            let pause = crashes.add(crash, started.elapsed());
            tokio::select! {
                () = sleep(pause) => tracing::info!(crashes = crashes.count, "starting hobd again"),
                () = signals.next() => return Ok(0),
            }
        }
    })
}

/// The socket that the parent made, on standard input.
///
/// # Errors
/// When standard input is no listening socket.
pub fn inherited_socket() -> Result<TcpListener> {
    let inherited = io::stdin().as_fd().try_clone_to_owned();
    let socket = TcpListener::from(inherited.context("there is no standard input")?);
    socket.local_addr().with_context(|| format!("{CHILD_FLAG} is for children of --supervise"))?;
    Ok(socket)
}

/// Ends this process with SIGTERM when its parent dies.
pub fn end_with_parent() {
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::set_parent_process_death_signal(Some(Signal::TERM)) {
        tracing::warn!(%error, "this process will outlive a killed supervisor");
    }
}

fn start(socket: &TcpListener, arguments: &[OsString], crashes: &Crashes) -> Result<Child> {
    let program = program().context("cannot find this program again")?;
    let shared = socket.try_clone().context("cannot share the socket")?;
    let mut command = Command::new(&program);
    command.args(arguments).arg(CHILD_FLAG).arg(crashes.count.to_string());
    if let Some(crash) = &crashes.last {
        command.arg(CRASH_FLAG).arg(&crash.reason);
    }
    command.stdin(Stdio::from(OwnedFd::from(shared))).process_group(0);
    command.spawn().with_context(|| format!("cannot start {}", program.display()))
}

/// The file of this program, whose name the child's process then has. Where an update has replaced or removed
/// the file, the child is this very program: a supervisor and its child are of one version.
fn program() -> io::Result<PathBuf> {
    std::env::current_exe().ok().filter(|file| file.is_file()).map_or_else(limits::program, Ok)
}

/// Waits for the end of a child. Returns also whether a signal asked for it.
async fn end_of(child: &mut Child, signals: &mut Signals) -> Result<(ExitStatus, bool)> {
    let mut deadline = None;
    loop {
        let overdue = async {
            match deadline {
                Some(deadline) => sleep_until(deadline).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            status = child.wait() => {
                return Ok((status.context("cannot wait for hobd")?, deadline.is_some()));
            }
            () = signals.next() => {
                send(child, Signal::TERM);
                deadline.get_or_insert_with(|| tokio::time::Instant::now() + MAX_STOP_TIME);
            }
            () = overdue => {
                tracing::error!("hobd did not stop in time: killing it");
                send(child, Signal::KILL);
                deadline = Some(tokio::time::Instant::now() + MAX_STOP_TIME);
            }
        }
    }
}

fn send(child: &Child, signal: Signal) {
    let pid = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
    if let Some(pid) = pid {
        kill_process(pid, signal).ok(); // An error: it has ended meanwhile.
    }
}

/// `told`: a signal asked the child to end.
fn next(status: ExitStatus, told: bool, crashes_before: u32) -> Next {
    let failed_to_start = status.code().is_some_and(|code| code != EXIT_CRASHED && code < 100);
    match status.code() {
        Some(0) => Next::End(0),
        code if told => Next::End(code.unwrap_or_else(|| 128 + status.signal().unwrap_or(0))),
        Some(code) if failed_to_start && crashes_before == 0 => Next::End(code),
        _ => Next::Restart(format!("hobd ended: {status}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crashes_restart_and_everything_else_ends() {
        let exit = |code: i32| ExitStatus::from_raw(code << 8);
        let killed = ExitStatus::from_raw;
        assert_eq!(next(exit(0), false, 3), Next::End(0));
        assert_eq!(next(exit(1), false, 0), Next::End(1), "wrong settings");
        assert!(
            matches!(next(exit(1), false, 1), Next::Restart(_)),
            "too little memory after a crash"
        );
        assert!(matches!(next(exit(EXIT_CRASHED), false, 0), Next::Restart(_)));
        assert!(matches!(next(exit(101), false, 0), Next::Restart(_)), "a panic");
        assert_eq!(next(killed(9), true, 0), Next::End(137));
        let Next::Restart(reason) = next(killed(6), false, 0) else { panic!("it was aborted") };
        assert_eq!(reason, "hobd ended: signal: 6 (SIGABRT)");
    }
}
