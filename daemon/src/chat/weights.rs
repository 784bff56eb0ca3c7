//! The weights, for protocols whose clients load and free them.

use std::time::Duration;

use hob_prewarm::StayLoaded;
use hob_runtime::turn::TurnError;

use super::Chat;
use crate::error::ApiError;

impl Chat {
    /// How long the weights stay after the last turn, until they are unloaded; `None`: as the settings say.
    pub fn stay_loaded(&self, stay: Option<StayLoaded>) {
        self.events().send(hob_prewarm::Event::StayLoaded(stay));
    }

    /// Loads the weights, if they are not in memory. Those of an engine at another address are its own.
    ///
    /// # Errors
    /// When they cannot be loaded, or the engine cannot be reached.
    pub async fn load_weights(&self) -> Result<(), ApiError> {
        if let Some(upstream) = self.upstream() {
            return Ok(upstream.refresh().await.map(drop)?);
        }
        self.engine().loaded().await.map_err(|error| match error {
            TurnError::Backend(_) => {
                let message = "the weights cannot be loaded: the log of hobd says why";
                ApiError::internal(message).code("backend")
            }
            error => error.into(),
        })
    }

    /// Frees the weights, now or once the running turns have ended.
    pub async fn free_weights(&self) {
        if self.upstream().is_none() && !self.engine().unload().await {
            self.stay_loaded(Some(StayLoaded::For(Duration::ZERO)));
        }
    }
}
