//! A daemon in another process that owns the slots directory.

use std::path::Path;
use std::time::Duration;

use axum::http::StatusCode;
use hob_config::{RunningDaemon, Settings};
use hob_daemon::auth::AccessToken;
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};
use tokio::runtime::Handle;

use super::transport::{self, Transport};
use crate::shell::phase::DaemonInfo;

/// Between two health checks.
const CHECK_EVERY: Duration = Duration::from_secs(1);

/// For the answer of `/health`.
const HEALTH_TIMEOUT: Duration = Duration::from_secs(5);

/// Failed checks in a row after which a daemon without a process counts as ended. A busy machine may
/// miss one.
const MISSES: u32 = 3;

/// Failed checks in a row after which any daemon counts as ended: a zombie keeps its process id.
const MAX_MISSES: u32 = 60;

pub struct OtherDaemon {
    running: RunningDaemon,
    token: AccessToken,
}

impl OtherDaemon {
    /// The daemon that has announced itself in this data directory, if it owns the slots directory and
    /// answers.
    pub async fn find(settings: &Settings) -> Option<Self> {
        let running = RunningDaemon::read(&settings.data_dir).ok()??;
        let real = |dir: &Path| dir.canonicalize().unwrap_or_else(|_| dir.to_owned());
        let owns_ours = real(&running.slots_dir) == real(&settings.slots_dir);
        if !owns_ours || running.pid == std::process::id() {
            return None;
        }
        let token = std::fs::read_to_string(&running.token_file).ok()?;
        let found = Self { running, token: AccessToken::new(token.trim()) };
        found.answers().await.then_some(found)
    }

    pub fn info(&self) -> DaemonInfo {
        let RunningDaemon { address, pid, model, .. } = self.running.clone();
        DaemonInfo { address, pid, model }
    }

    pub fn transport(&self, runtime: Handle) -> Transport {
        Transport::over_tcp(self.running.address, &self.token, runtime)
    }

    /// Completes when the daemon has ended. A daemon that switches models does not answer for a while
    /// either, and still owns its directory.
    pub async fn ended(&self) {
        let mut misses = 0;
        while !has_ended(misses, || is_running(self.running.pid)) {
            tokio::time::sleep(CHECK_EVERY).await;
            misses = if self.answers().await { 0 } else { misses + 1 };
        }
        tracing::info!(pid = self.running.pid, "the other daemon has ended");
    }

    async fn answers(&self) -> bool {
        let health = transport::status(self.running.address, "/health");
        matches!(tokio::time::timeout(HEALTH_TIMEOUT, health).await, Ok(Ok(StatusCode::OK)))
    }
}

/// `misses`: failed health checks in a row.
fn has_ended(misses: u32, is_running: impl FnOnce() -> bool) -> bool {
    misses >= MAX_MISSES || (misses >= MISSES && !is_running())
}

/// Whether a process has this id.
fn is_running(pid: u32) -> bool {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    pid.is_some_and(|pid| test_kill_process(pid) != Err(Errno::SRCH))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_restarting_daemon_has_not_ended_and_one_without_a_process_has() {
        assert!(!has_ended(MISSES - 1, || false));
        assert!(has_ended(MISSES, || false));
        assert!(!has_ended(MISSES, || true));
        assert!(has_ended(MAX_MISSES, || true));
    }

    #[test]
    fn a_process_runs_until_its_parent_has_waited_for_it() {
        let mut other = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        assert!(is_running(other.id()));
        other.kill().unwrap();
        other.wait().unwrap();
        assert!(!is_running(other.id()));
    }
}
