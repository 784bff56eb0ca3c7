//! The draft model of the settings.
//!
//! One that cannot draft for the model costs the drafts alone: the model is served without it, and the
//! log and the status say why. Models are switched while it stays in the settings.

use hob_models::ModelFile;
use hob_runtime::DraftModel;
use hob_slots::fingerprint::Fingerprint;

use crate::models::CurrentDraftModel;

/// A draft model, or why there is none.
pub struct Drafter {
    /// As people see it.
    pub name: String,
    /// The reason why it does not draft.
    pub model: Result<(DraftModel, Fingerprint), String>,
    /// If it drafts.
    pub file: Option<ModelFile>,
}

impl Drafter {
    pub fn current(&self) -> CurrentDraftModel {
        CurrentDraftModel {
            name: self.name.clone(),
            fingerprint: self.model.as_ref().ok().map(|(_, fingerprint)| fingerprint.hash()),
            refused: self.model.as_ref().err().cloned(),
        }
    }
}

#[cfg(feature = "llama")]
pub(super) use real::find;

#[cfg(feature = "llama")]
mod real {
    use std::ops::ControlFlow;
    use std::sync::Arc;

    use hob_config::{DraftChoice, Resolved, Settings};
    use hob_models::{ChosenContext, ContextSettings, Demand};
    use hob_runtime::Model;
    use hob_runtime::backend::llama::{LlamaModel, LlamaOptions, STATE_FORMAT};
    use hob_slots::fingerprint::FileDigest;

    use super::*;
    use crate::startup::beside::{self, Refused};
    use crate::startup::{Report, model_file};

    /// A file that may draft.
    pub struct Found(pub beside::Found);

    /// A file and its weights.
    pub struct Loaded {
        found: beside::Found,
        model: LlamaModel,
        context: ChosenContext,
    }

    /// Finds the file of the settings' draft model, and has a child try it. `None`: there is none, or
    /// there are no drafts.
    pub fn find(resolved: &Resolved, report: &mut Report<'_>) -> Option<Result<Found, Refused>> {
        let settings = &resolved.settings;
        let choice =
            settings.draft_model.as_ref().filter(|_| settings.draft == DraftChoice::Auto)?;
        let found = beside::find(resolved, choice, report).map(Found);
        Some(found.map_err(|error| refused(choice.to_string(), format!("{error:#}"))))
    }

    impl Found {
        /// `context`: that of the model, by `wanted`.
        pub fn load(
            self,
            settings: &Settings,
            wanted: &ContextSettings,
            context: ChosenContext,
        ) -> Result<Loaded, Refused> {
            if let Err(error) = wanted.check_tensors(&self.0.file.summary, context.tokens) {
                return Err(refused(self.0.file.name, error.to_string()));
            }
            let options = LlamaOptions {
                threads: settings.threads as usize,
                cache_type_k: settings.cache_type_k.to_string(),
                cache_type_v: settings.cache_type_v.to_string(),
                placement: model_file::placement(settings, &self.0.file, context),
                ..LlamaOptions::default()
            };
            let goes_on = &mut |_| ControlFlow::Continue(());
            match LlamaModel::load_telling(&self.0.file.path, options, goes_on) {
                Ok(model) => Ok(Loaded { found: self.0, model, context }),
                Err(error) => Err(refused(self.0.file.name, error.to_string())),
            }
        }
    }

    impl Loaded {
        /// What its KV will take of the devices once it has a context, which is made after the model's.
        pub fn device_kv_bytes(&self, demand: &Demand) -> u64 {
            let kv_bytes = self.found.file.estimate(demand).kv_bytes;
            if self.model.kv_on_devices() { kv_bytes } else { 0 }
        }
    }

    impl Drafter {
        /// Checks that it can draft for `target`.
        pub fn of(
            resolved: &Resolved,
            loaded: Result<Loaded, Refused>,
            target: &dyn Model,
        ) -> Self {
            let checked = loaded.and_then(|Loaded { found, model, context }| {
                let digest = FileDigest(found.content.0);
                let fingerprint = model_file::fingerprint(resolved, digest, STATE_FORMAT, &[]);
                let is_long = found.file.rotates_by_long_factors(context.tokens);
                let fingerprint = model_file::in_context(fingerprint, is_long);
                let fingerprint = Fingerprint { drafts: true, ..fingerprint };
                let name = found.file.name.clone();
                match DraftModel::new(Arc::new(model), fingerprint.hash(), target) {
                    Ok(model) => Ok((found.file, model, fingerprint)),
                    Err(error) => Err(refused(name, error.to_string())),
                }
            });
            match checked {
                Ok((file, model, fingerprint)) => {
                    tracing::info!(path = %file.path.display(), "draft model");
                    Self {
                        name: file.name.clone(),
                        model: Ok((model, fingerprint)),
                        file: Some(file),
                    }
                }
                Err(Refused { name, reason }) => Self { name, model: Err(reason), file: None },
            }
        }
    }

    fn refused(name: String, reason: String) -> Refused {
        Refused::new(name, reason, "answers have no draft model")
    }
}
