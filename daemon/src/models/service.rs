//! The models of this machine, and another one in the place of the one that runs.

use std::sync::Arc;

use hob_models::ModelError;

use crate::error::{ApiError, ErrorKind};
use crate::models::{Catalogue, Kept, Refusal, Shelf};
use crate::service::{Service, compute};

/// What a switch will do.
#[derive(Clone, Debug)]
pub struct Switch {
    /// How the next model is chosen.
    pub model: String,
    /// What people call it.
    pub name: String,
    /// Whether the daemon starts over; it does not for the model that runs.
    pub restarts: bool,
    /// What is kept of the model that ends.
    pub kept: Option<Kept>,
}

impl Service {
    /// What knows the models.
    pub fn catalogue(&self) -> &Arc<Catalogue> {
        &self.inner.catalogue
    }

    /// What is on this machine.
    pub async fn local_models(&self) -> Arc<Shelf> {
        let (catalogue, now) = (self.inner.catalogue.clone(), self.now());
        compute(move || catalogue.shelf(now)).await
    }

    /// Starts over with another model once the answers that run have ended.
    ///
    /// # Errors
    /// When the model cannot be run, or must not be chosen here.
    pub async fn switch_model(&self, name: String, force: bool) -> Result<Switch, ApiError> {
        let (catalogue, now) = (self.inner.catalogue.clone(), self.now());
        compute(move || {
            let next = catalogue.next(&name, force, now)?;
            let kept = catalogue.kept(catalogue.current().fingerprint);
            let model = next.choice.to_string();
            if !next.is_current {
                catalogue.wanted().wish(next.choice)?;
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
