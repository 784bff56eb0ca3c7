//! The model that runs, those that could run instead, and the switch to another one.
//!
//! Reading order: this file (the handle), [`catalogue`] (the models of this machine), `entry` (one
//! of them), `choose` and `switch` (from a request to the next start).

pub mod catalogue;
mod choose;
mod entry;
mod switch;

use std::sync::Arc;

use hob_models::ModelError;
use hob_runtime::Engine;
use hob_slots::Timestamp;

use crate::blocking::compute;
use crate::clock::Clock;
use crate::crashes::Crashes;
use crate::error::{ApiError, ErrorKind};
pub use catalogue::{Catalogue, CurrentModel, ModelList, Options};
pub use entry::{Entry, SavedKv};
pub use switch::{Refusal, SwitchFailure, SwitchRequest};

/// The models. Clones share everything.
#[derive(Clone)]
pub struct Models {
    pub engine: Engine,
    pub catalogue: Arc<Catalogue>,
    pub clock: Clock,
    /// When the daemon was opened.
    pub started: Timestamp,
    /// The crashes before that.
    pub crashes: Arc<Crashes>,
}

/// What a switch does.
#[derive(Clone, Debug)]
pub struct Switch {
    /// The value of the setting `model`.
    pub model: String,
    /// The name that people see.
    pub name: String,
    /// Whether the daemon restarts; not for the model that runs already.
    pub restarts: bool,
    /// The saved KV of the current model.
    pub kept: Option<SavedKv>,
}

impl Models {
    /// The name of the current model, as clients see it.
    pub fn name(&self) -> &str {
        &self.catalogue.current().name
    }

    /// Bytes of so many tokens' KV; `None` where unknown.
    pub fn kv_bytes(&self, tokens: usize) -> Option<u64> {
        Some(tokens as u64 * self.catalogue.current().kv_bytes_per_token?)
    }

    /// The models of this machine.
    pub async fn local(&self) -> Arc<ModelList> {
        let (catalogue, now) = (self.catalogue.clone(), (self.clock)());
        compute(move || catalogue.list(now)).await
    }

    /// Restarts with another model once the running answers have ended.
    ///
    /// # Errors
    /// When the model cannot be run, or the setting is fixed.
    pub async fn switch(&self, name: String, force: bool) -> Result<Switch, ApiError> {
        let (catalogue, now) = (self.catalogue.clone(), (self.clock)());
        compute(move || {
            let next = catalogue.next(&name, force, now)?;
            let kept = catalogue.saved_kv(catalogue.current().fingerprint);
            let model = next.choice.to_string();
            if !next.is_current {
                catalogue.switch_request().submit(next.choice)?;
            }
            Ok(Switch { model, name: next.name, restarts: !next.is_current, kept })
        })
        .await
    }
}

impl From<Refusal> for ApiError {
    fn from(refusal: Refusal) -> Self {
        let message = refusal.to_string();
        match refusal {
            Refusal::Fixed { .. } => Self::new(ErrorKind::Conflict, message).code("model_fixed"),
            Refusal::Model(ModelError::Missing { .. } | ModelError::Unknown { .. }) => {
                Self::not_found(message).param("model").code("model_not_found")
            }
            Refusal::Model(_) => Self::field("model", message).code("model_unusable"),
            Refusal::TooLarge { .. } => Self::field("model", message).code("model_too_large"),
            Refusal::Switching => Self::new(ErrorKind::Busy, message).code("switching"),
        }
    }
}
