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

/// Silence for so many looks is the end; a busy machine may miss one.
const MISSES: u32 = 3;

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

    /// Ready when it is gone.
    pub async fn gone(&self) {
        let mut misses = 0;
        while misses < MISSES {
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
