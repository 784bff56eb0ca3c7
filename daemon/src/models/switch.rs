//! A requested switch to another model, and why one is refused or failed.
//!
//! - One request at a time: the first one counts.

pub use hob_api::status::SwitchFailure;
use hob_config::ModelChoice;
use hob_models::ModelError;
use parking_lot::Mutex;
use tokio::sync::Notify;

#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// A flag or a variable chooses the model, which overrides the settings file.
    #[error(
        "the {origin} chooses the model of this daemon: start hobd without it, or with the model \
         that you want"
    )]
    Fixed { origin: String },
    #[error(transparent)]
    Model(#[from] ModelError),
    #[error(
        "{name} would take {needed_bytes} bytes and {free_bytes} are free: choose a smaller model \
         or a smaller `ctx`, close other programs, or send \"force\": true"
    )]
    TooLarge { name: String, needed_bytes: u64, free_bytes: u64 },
    /// Another switch was requested before.
    #[error("this daemon is already restarting with another model")]
    Switching,
}

/// A requested switch, until the daemon restarts.
#[derive(Debug, Default)]
pub struct SwitchRequest {
    choice: Mutex<Option<ModelChoice>>,
    submitted: Notify,
}

impl SwitchRequest {
    /// Requests a switch to a model.
    ///
    /// # Errors
    /// [`Refusal::Switching`] when a switch was requested before.
    pub fn submit(&self, choice: ModelChoice) -> Result<(), Refusal> {
        let mut wanted = self.choice.lock();
        if wanted.is_some() {
            return Err(Refusal::Switching);
        }
        *wanted = Some(choice);
        self.submitted.notify_one();
        Ok(())
    }

    /// Waits for a request. Cancel safe.
    pub async fn submitted(&self) -> ModelChoice {
        loop {
            self.submitted.notified().await;
            if let Some(choice) = &*self.choice.lock() {
                return choice.clone();
            }
        }
    }
}
