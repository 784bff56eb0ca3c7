//! A requested restart with another model or other settings, and why one is refused or failed.
//!
//! - One request at a time: the first one counts.

pub use hob_api::status::SwitchFailure;
use hob_config::Key;
use hob_models::ModelError;
use parking_lot::Mutex;
use tokio::sync::Notify;

#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// A flag or a variable sets the context, which overrides the settings file.
    #[error(
        "the {origin} sets the context of this daemon: start hobd without it, or with the context \
         that you want"
    )]
    FixedContext { origin: String },
    #[error(transparent)]
    Model(#[from] ModelError),
    #[error(
        "{name} would take {needed_bytes} bytes and {free_bytes} are free: choose a smaller model \
         or a smaller `ctx`, close other programs, or send \"force\": true"
    )]
    TooLarge { name: String, needed_bytes: u64, free_bytes: u64 },
    /// Another switch was requested before.
    #[error(
        "this daemon is already restarting with another model or other settings: try again in a moment"
    )]
    Switching,
}

/// Values of settings, as the configuration file would have them.
type Changes = Vec<(Key, String)>;

/// A requested restart with other values, until the daemon restarts. No values: it restarts with those that it has.
#[derive(Debug, Default)]
pub struct SwitchRequest {
    changes: Mutex<Option<Changes>>,
    submitted: Notify,
}

impl SwitchRequest {
    /// Requests a restart with these values.
    ///
    /// # Errors
    /// [`Refusal::Switching`] when one was requested before, or the daemon restarts for another reason.
    pub fn submit(&self, changes: Changes) -> Result<(), Refusal> {
        let mut wanted = self.changes.lock();
        if wanted.is_some() {
            return Err(Refusal::Switching);
        }
        *wanted = Some(changes);
        self.submitted.notify_one();
        Ok(())
    }

    /// Forgets the request: the next one counts.
    pub fn withdraw(&self) {
        *self.changes.lock() = None;
    }

    /// Refuses all later requests: the daemon restarts for another reason. Returns false, and does nothing, if
    /// one was submitted.
    pub fn close(&self) -> bool {
        let mut changes = self.changes.lock();
        let closes = changes.is_none();
        if closes {
            *changes = Some(Changes::new());
        }
        closes
    }

    /// Refuses all later requests: the engine has died. Returns what was submitted and not made; empty where nothing
    /// was.
    pub fn take(&self) -> Changes {
        self.changes.lock().replace(Changes::new()).unwrap_or_default()
    }

    /// Waits for a request. Cancel safe.
    pub async fn submitted(&self) -> Changes {
        loop {
            self.submitted.notified().await;
            if let Some(changes) = &*self.changes.lock() {
                return changes.clone();
            }
        }
    }
}
