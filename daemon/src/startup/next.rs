//! What ends a daemon that is neither stopped nor dead: other settings, or another model file.
//!
//! - The file of the next model is tried while this daemon still serves: one that cannot be used
//!   changes nothing.

use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use hob_config::Key;
use tokio::sync::Notify;

use super::{Ending, model};
use crate::blocking::compute;
use crate::clock::Clock;
use crate::models::{Catalogue, SwitchFailure};
use crate::settings::{Changes, LiveSettings};

/// How long a switch to another model or to other settings waits for running answers.
const MAX_ANSWER_WAIT: Duration = Duration::from_secs(10);

pub(super) struct NextStart {
    pub catalogue: Arc<Catalogue>,
    pub settings: LiveSettings,
    pub clock: Clock,
    /// Notified when the model file was replaced.
    pub model_changed: Arc<Notify>,
}

impl NextStart {
    /// Waits until the daemon must restart at `address`. Returns how, and how long running answers
    /// may take.
    pub async fn wait(&self, address: SocketAddr) -> (Ending, Duration) {
        loop {
            tokio::select! {
                () = self.model_changed.notified() => {
                    if self.is_usable(&Vec::new()).await {
                        return (Ending::ModelReplaced(address), Duration::MAX);
                    }
                }
                changes = self.catalogue.switch_request().submitted() => {
                    if self.is_usable(&changes).await {
                        let named =
                            |(key, value): &(Key, String)| format!("{} = {value}", key.name());
                        let changed: Vec<String> = changes.iter().map(named).collect();
                        let changed = changed.join(", ");
                        tracing::info!(changed, "restarting with other settings");
                        return (Ending::Switched(address, changes), MAX_ANSWER_WAIT);
                    }
                }
            }
        }
    }

    /// Whether the model of the settings with these changes can be used. If not, this daemon goes on
    /// and says why.
    async fn is_usable(&self, changes: &Changes) -> bool {
        // An error: they were checked when they were requested.
        let Ok(resolved) = self.settings.get().with(changes) else { return true };
        let choice = resolved.settings.model.to_string();
        let probe = move || model::probe(&resolved, &mut |_| ControlFlow::Continue(()));
        let Err(error) = compute(probe).await else { return true };
        let running = &self.catalogue.current().name;
        let message = format!("{error:#}; {running} runs on, and nothing was changed");
        tracing::warn!(model = choice, message, "the model was refused");
        let at = (self.clock)().0 / 1000;
        let failure = SwitchFailure { model: choice, message, at, at_start: false };
        self.catalogue.refuse_switch(failure);
        false
    }
}
