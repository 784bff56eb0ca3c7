//! A daemon in another process, which owns the directory that this one wanted.

use std::time::Duration;

use axum::http::StatusCode;
use hob_config::{RunningDaemon, Settings};
use hob_daemon::auth::AccessToken;
use tokio::runtime::Handle;

use super::carrier::{self, Carrier};
use crate::shell::state::Known;

/// Between two looks at whether it is still there.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// For an answer that takes no thought.
const ANSWERS_WITHIN: Duration = Duration::from_secs(5);

/// Silence for so many looks is the end of a process that is over; a busy machine may miss one.
const MISSES: u32 = 3;

/// And for so many the end of any: one that nobody has waited for is there all the same.
const MOST_MISSES: u32 = 60;

/// Where it is, and how it is asked.
pub struct Elsewhere {
    running: RunningDaemon,
    token: AccessToken,
}

impl Elsewhere {
    /// The daemon that has announced itself in this data directory, if it owns the directory of kept KV
    /// and answers.
    pub async fn find(settings: &Settings) -> Option<Self> {
        let running = RunningDaemon::read(&settings.data_dir).ok()??;
        if running.slots_dir != settings.slots_dir || running.pid == std::process::id() {
            return None;
        }
        let token = std::fs::read_to_string(&running.token_file).ok()?;
        let found = Self { running, token: AccessToken::new(token.trim()) };
        found.answers().await.then_some(found)
    }

    /// Who and where it is.
    pub fn known(&self) -> Known {
        let RunningDaemon { address, pid, model, .. } = self.running.clone();
        Known { address, pid, model }
    }

    /// The way to it.
    pub fn carrier(&self, runtime: Handle) -> Carrier {
        Carrier::there(self.running.address, &self.token, runtime)
    }

    /// Ready when it is gone. One that starts over with another model is silent for a while too, and
    /// what it owns stays its own.
    pub async fn gone(&self) {
        let mut misses = 0;
        while !is_gone(misses, || is_running(self.running.pid)) {
            tokio::time::sleep(LOOK_EVERY).await;
            misses = if self.answers().await { 0 } else { misses + 1 };
        }
        tracing::info!(pid = self.running.pid, "the other daemon is gone");
    }

    async fn answers(&self) -> bool {
        let health = carrier::status(self.running.address, "/health");
        matches!(tokio::time::timeout(ANSWERS_WITHIN, health).await, Ok(Ok(StatusCode::OK)))
    }
}

/// Whether so many silent looks, one after the other, are the end.
fn is_gone(misses: u32, is_running: impl FnOnce() -> bool) -> bool {
    misses >= MOST_MISSES || (misses >= MISSES && !is_running())
}

/// Whether there is a process of that number.
#[cfg(unix)]
fn is_running(pid: u32) -> bool {
    use rustix::io::Errno;
    use rustix::process::{Pid, test_kill_process};
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    pid.is_some_and(|pid| test_kill_process(pid) != Err(Errno::SRCH))
}

/// Whether there is a process of that number. Nobody knows; silence has to do.
#[cfg(not(unix))]
fn is_running(_pid: u32) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_starts_over_is_not_gone_and_who_has_ended_is() {
        assert!(!is_gone(MISSES - 1, || false));
        assert!(is_gone(MISSES, || false));
        assert!(!is_gone(MISSES, || true));
        assert!(is_gone(MOST_MISSES, || true));
    }

    #[cfg(unix)]
    #[test]
    fn a_process_runs_until_somebody_has_waited_for_it() {
        let mut other = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        assert!(is_running(other.id()));
        other.kill().unwrap();
        other.wait().unwrap();
        assert!(!is_running(other.id()));
    }
}
