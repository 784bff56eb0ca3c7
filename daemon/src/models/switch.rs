//! A requested switch to another model, and why one is refused or failed.
//!
//! - One request at a time: the first one counts.

use std::sync::{Mutex, PoisonError};

pub use hob_api::status::SwitchFailure;
use hob_config::ModelChoice;
use hob_models::ModelError;
use tokio::sync::Notify;

/// Why a switch is refused.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// Something stronger than the file chooses the model.
    #[error(
        "the {origin} chooses the model of this daemon: start hobd without it, or with the model \
         that you want"
    )]
    Fixed {
        /// Who.
        origin: String,
    },
    /// There is no such model, or it cannot be used.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// It needs more memory than there is.
    #[error(
        "{name} would take {needed_bytes} bytes and {free_bytes} are free: choose a smaller model \
         or a smaller `ctx`, close other programs, or send \"force\": true"
    )]
    TooLarge {
        /// The model.
        name: String,
        /// Weights and KV.
        needed_bytes: u64,
        /// What is free.
        free_bytes: u64,
    },
    /// Another switch was requested before.
    #[error("this daemon is starting over with another model already")]
    Switching,
}

/// A requested switch, until the daemon restarts.
#[derive(Debug, Default)]
pub struct Wanted {
    choice: Mutex<Option<ModelChoice>>,
    told: Notify,
}

impl Wanted {
    /// Asks for a switch to a model.
    ///
    /// # Errors
    /// [`Refusal::Switching`] when a switch was requested before.
    pub fn wish(&self, choice: ModelChoice) -> Result<(), Refusal> {
        let mut wanted = self.choice.lock().unwrap_or_else(PoisonError::into_inner);
        if wanted.is_some() {
            return Err(Refusal::Switching);
        }
        *wanted = Some(choice);
        self.told.notify_one();
        Ok(())
    }

    /// Waits for a request.
    pub async fn told(&self) -> ModelChoice {
        loop {
            self.told.notified().await;
            if let Some(choice) = &*self.choice.lock().unwrap_or_else(PoisonError::into_inner) {
                return choice.clone();
            }
        }
    }
}
