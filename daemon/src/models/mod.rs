//! The model that runs, those that could run instead, and the switch to another one.
//!
//! Reading order: this file (the handle), [`catalogue`] (the models of this machine), `room` (the memory for them),
//! `entry` (one of them), `choose` and `switch` (from a request to the next start), [`fetching`] (a real model, when
//! a client asks for it), `sampling` (the parameters that the running one recommends).

pub mod catalogue;
mod choose;
pub mod devices;
mod entry;
pub mod fetching;
mod room;
mod sampling;
mod switch;

use std::sync::{Arc, OnceLock};
use std::thread;

use hob_config::{ContextChoice, Key};
use hob_models::ModelError;
use hob_models::recommended::{Suggestion, suggestions};
use hob_models::speed::weights_bytes_per_second;
use hob_runtime::Engine;
use hob_slots::Timestamp;

use crate::blocking::compute;
use crate::clock::Clock;
use crate::crashes::Crashes;
use crate::error::{ApiError, ErrorKind};
pub use catalogue::{
    Catalogue, CurrentDraftModel, CurrentModel, CurrentRecallModel, ModelList, Options,
};
pub use devices::DeviceSettings;
pub use entry::{Entry, SavedKv};
pub use fetching::Fetcher;
pub use sampling::ModelSampling;
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
    pub fetcher: Fetcher,
    /// How fast this machine reads weights, once it is measured.
    pub weights_speed: Arc<OnceLock<f64>>,
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
    pub saved_kv: Option<SavedKv>,
}

impl Models {
    /// The name of the current model, as clients see it.
    pub fn name(&self) -> &str {
        &self.catalogue.current().name
    }

    /// Size of the KV of this many tokens; `None` where unknown.
    pub fn kv_bytes(&self, tokens: usize) -> Option<u64> {
        Some(tokens as u64 * self.catalogue.current().kv_bytes_per_token?)
    }

    /// The models of this machine.
    pub async fn local(&self) -> Arc<ModelList> {
        let now = (self.clock)();
        self.catalogue.in_turn(move |catalogue| catalogue.list(now)).await
    }

    /// Models for a first chat that suit this machine. Measures its speed once, in some 0.1 s.
    pub async fn suggestions(&self) -> Vec<Suggestion> {
        let (models, list) = (self.clone(), self.local().await);
        compute(move || {
            let free_bytes = list.free_bytes.unwrap_or(u64::MAX);
            let speed = *models.weights_speed.get_or_init(|| {
                let cores = thread::available_parallelism().map_or(1, usize::from);
                weights_bytes_per_second(if cores > 2 { cores - 1 } else { cores })
            });
            let ctx = models.catalogue.options().context.ctx;
            suggestions(free_bytes, ctx, speed, models.fetcher.published())
        })
        .await
    }

    /// Restarts with another model once the running answers have ended. `ctx`: its context, by
    /// default that of the settings.
    ///
    /// # Errors
    /// When the model cannot be run, or the context is fixed.
    pub async fn switch(
        &self,
        name: String,
        ctx: Option<ContextChoice>,
        force: bool,
    ) -> Result<Switch, ApiError> {
        let now = (self.clock)();
        let job = move |catalogue: &Catalogue| -> Result<Switch, ApiError> {
            let options = catalogue.options();
            let ctx = ctx.filter(|ctx| ctx.tokens() != options.context.ctx);
            if let (Some(origin), Some(_)) = (&options.fixed_context, ctx) {
                return Err(Refusal::FixedContext { origin: origin.clone() }.into());
            }
            let next = catalogue.next(&name, ctx, force, now)?;
            let saved_kv = catalogue.saved_kv(catalogue.current().fingerprint);
            let model = next.choice.to_string();
            let mut changes = Vec::new();
            if !next.is_current {
                changes.push((Key::Model, model.clone()));
            }
            if let Some(ctx) = ctx {
                changes.push((Key::Ctx, ctx.to_string()));
            }
            let restarts = !changes.is_empty();
            if restarts {
                catalogue.switch_request().submit(changes)?;
            }
            Ok(Switch { model, name: next.name, restarts, saved_kv })
        };
        self.catalogue.in_turn(job).await
    }
}

impl From<Refusal> for ApiError {
    fn from(refusal: Refusal) -> Self {
        let message = refusal.to_string();
        match refusal {
            Refusal::FixedContext { .. } => {
                Self::new(ErrorKind::Conflict, message).param("ctx").code("setting_fixed")
            }
            Refusal::Model(ModelError::Missing { .. } | ModelError::Unknown { .. }) => {
                Self::not_found(message).param("model").code("model_not_found")
            }
            Refusal::Model(_) => Self::field("model", message).code("model_unusable"),
            Refusal::TooLarge { .. } => Self::field("model", message).code("model_too_large"),
            Refusal::Switching => Self::new(ErrorKind::Busy, message).code("switching"),
        }
    }
}
