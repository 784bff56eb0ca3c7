//! From the setting `model` to a loaded model and its fingerprint.
//!
//! - A file is validated before llama.cpp reads it; the error names the file and the remedy.
//! - `fake` is the model of the tests: no file, no C++. `fake:second` has another fingerprint.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Result;
use hob_config::{ModelChoice, Resolved};
use hob_models::{ChosenContext, Estimate};
use hob_runtime::Model;
use hob_runtime::backend::fake::{CELL_BYTES, FakeModel};
use hob_slots::fingerprint::{FileDigest, Fingerprint};

use super::Report;
pub use super::drafter::Drafter;
use super::model_file::fingerprint;
pub use super::recall_model::RecallModel;
use crate::models::ModelSampling;
use crate::prompt::RendersIn;

/// The models of the tests.
const FAKES: [&str; 2] = ["fake", "fake:second"];

pub struct Loaded {
    pub model: Arc<dyn Model>,
    pub fingerprint: Fingerprint,
    /// As clients see it.
    pub name: String,
    /// The path of its file, to show.
    pub shown: String,
    pub files: Vec<PathBuf>,
    pub context: ChosenContext,
    /// The memory that it needs, if known.
    pub estimate: Option<Estimate>,
    pub sampling: ModelSampling,
    /// Its chat template.
    pub renders_in: RendersIn,
    /// `None`: the settings name none.
    pub drafter: Option<Drafter>,
    /// `None`: the settings name none.
    pub recall_model: Option<RecallModel>,
}

/// Loads the model of the settings.
pub fn load(resolved: &Resolved, report: &mut Report<'_>) -> Result<Loaded> {
    match &resolved.settings.model {
        ModelChoice::Named(name) if name == FAKES[0] => fake(resolved, name, 0),
        ModelChoice::Named(name) if name == FAKES[1] => fake(resolved, name, 1),
        choice => real::load(resolved, choice, report),
    }
}

/// Tries the file of the settings' model as [`load`] does, and loads nothing.
///
/// # Errors
/// Those of a file that cannot be used.
pub(super) fn probe(resolved: &Resolved, report: &mut Report<'_>) -> Result<()> {
    match &resolved.settings.model {
        ModelChoice::Named(name) if FAKES.contains(&name.as_str()) => Ok(()),
        choice => real::find_usable(resolved, choice, report).map(drop),
    }
}

fn fake(resolved: &Resolved, name: &str, number: u8) -> Result<Loaded> {
    let context = ChosenContext::of_fake(resolved.settings.ctx.tokens());
    let template = super::template::of(&resolved.settings)?;
    let model = FakeModel::new();
    let (model, renders_in) = match template {
        Some(source) => (model.with_chat_template(source), RendersIn::AChild),
        None => (model, RendersIn::ThisProcess),
    };
    Ok(Loaded {
        model: Arc::new(model),
        fingerprint: fingerprint(resolved, FileDigest([number; 32]), "fake 2", &[]),
        name: name.to_owned(),
        shown: name.to_owned(),
        files: Vec::new(),
        context,
        estimate: Some(Estimate {
            weights_bytes: 0,
            kv_bytes: CELL_BYTES as u64 * context.tokens,
            kv_bytes_per_token: CELL_BYTES as u64,
        }),
        sampling: ModelSampling::default(),
        renders_in,
        drafter: None,
        recall_model: None,
    })
}

#[cfg(not(feature = "llama"))]
mod real {
    use std::convert::Infallible;

    use super::*;

    pub fn load(
        resolved: &Resolved,
        choice: &ModelChoice,
        report: &mut Report<'_>,
    ) -> Result<Loaded> {
        match find_usable(resolved, choice, report)? {}
    }

    pub fn find_usable(
        _: &Resolved,
        choice: &ModelChoice,
        _: &mut Report<'_>,
    ) -> Result<Infallible> {
        anyhow::bail!(
            "this hobd was built without llama.cpp and cannot run `{choice}`: \
             start it with --model fake, or build it with its default features"
        )
    }
}

#[cfg(feature = "llama")]
mod real {
    use hob_config::Settings;
    use hob_models::{ContentHash, MachineMemory, ModelFile};
    use hob_runtime::backend::llama::{LlamaModel, LlamaOptions, Placement, check_processor};
    use hob_slots::fingerprint::Lora;

    use super::*;
    use crate::models::{DeviceSettings, devices};
    use crate::startup::model_file::{
        STATE_FORMAT, find, hash, in_context, limited_context_settings, loads_mtp, placement,
        probe_cache,
    };
    use crate::startup::{Step, adapters, drafter, probe, template};

    pub fn load(
        resolved: &Resolved,
        choice: &ModelChoice,
        report: &mut Report<'_>,
    ) -> Result<Loaded> {
        let settings = &resolved.settings;
        devices::log_unused(settings);
        let Usable { file, content, loras, no_mtp } = find_usable(resolved, choice, report)?;
        tracing::info!(path = %file.path.display(), bytes = file.size_bytes, "model");
        let recall_model = RecallModel::load(resolved, report);
        // The model before is freed, and the weights are not read yet.
        let host_bytes = MachineMemory::usable_bytes(MachineMemory::read());
        let wanted = limited_context_settings(settings, &file);
        let available = DeviceSettings::of(settings).available(host_bytes);
        let mut context = wanted.context_of(&file, available);
        let draft_file = drafter::find(resolved, report);
        if let Some(Ok(drafter)) = &draft_file {
            // Beside the draft model's weights, and its KV of as many tokens.
            let taken = drafter.0.file.estimate(&wanted.demand(context.tokens)).total_bytes();
            context = wanted.context_of(&file, available.beside(taken));
        }
        wanted.check_tensors(&file.summary, context.tokens)?;
        // Before the model: what it takes of a device is then known.
        let draft_file =
            draft_file.map(|found| found.and_then(|it| it.load(settings, &wanted, context)));
        let mut options = options(settings, &file, context)?;
        options.mtp_refused = no_mtp.filter(|_| options.mtp);
        if let Some(Ok(drafter)) = &draft_file {
            let kv_bytes = drafter.device_kv_bytes(&wanted.demand(context.tokens));
            leave_room(&mut options.placement, kv_bytes);
        }
        if options.mtp && options.mtp_refused.is_none() {
            let kv_bytes = file.mtp_kv_bytes(&wanted.demand(context.tokens));
            leave_room(&mut options.placement, kv_bytes);
        }
        let model = LlamaModel::load_telling(&file.path, options, &mut |loaded| {
            report(Step::Loading { percent: (loaded.clamp(0.0, 1.0) * 100.0) as u8 })
        })?;
        let mut estimate = file.estimate(&wanted.demand(context.tokens));
        let fingerprint = fingerprint(resolved, FileDigest(content.0), STATE_FORMAT, &loras);
        let is_long = file.rotates_by_long_factors(context.tokens);
        let mut files = file.files;
        let drafter = draft_file.map(|loaded| {
            let drafter = Drafter::of(resolved, loaded, &model);
            if let Some(beside) = &drafter.file {
                let its = beside.estimate(&wanted.demand(context.tokens));
                estimate.weights_bytes += its.weights_bytes;
                estimate.kv_bytes += its.kv_bytes;
                files.extend(beside.files.iter().cloned());
            }
            drafter
        });
        if let Some(beside) = recall_model.as_ref().and_then(|it| it.file.as_ref()) {
            estimate.weights_bytes += beside.size_bytes;
            files.extend(beside.files.iter().cloned());
        }
        Ok(Loaded {
            drafter,
            recall_model,
            model: Arc::new(model),
            fingerprint: in_context(fingerprint, is_long),
            name: file.name,
            shown: file.path.display().to_string(),
            files,
            context,
            estimate: Some(estimate),
            sampling: ModelSampling::of(&file.summary.sampling),
            renders_in: match (choice, &settings.chat_template) {
                (ModelChoice::Bundled, None) => RendersIn::ThisProcess,
                _ => RendersIn::AChild,
            },
        })
    }

    fn options(
        settings: &Settings,
        file: &ModelFile,
        context: ChosenContext,
    ) -> Result<LlamaOptions> {
        Ok(LlamaOptions {
            threads: settings.threads as usize,
            cache_type_k: settings.cache_type_k.to_string(),
            cache_type_v: settings.cache_type_v.to_string(),
            placement: placement(settings, file, context),
            chat_template: template::of(settings)?,
            adapters: adapters::of(settings),
            // The engine opens the header of a file again for this.
            mtp: loads_mtp(settings) && file.summary.n_layer_mtp > 0,
            ..LlamaOptions::default()
        })
    }

    /// Leaves room on each device: it is not known which one will have these bytes.
    fn leave_room(placement: &mut Placement, bytes: u64) {
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        placement.margin_bytes = placement.margin_bytes.saturating_add(bytes);
    }

    /// Neither damaged nor hostile, as far as a probe can tell.
    pub struct Usable {
        file: ModelFile,
        content: ContentHash,
        loras: Vec<Lora>,
        /// Why its MTP head cannot be used, if a probe has found that.
        no_mtp: Option<String>,
    }

    /// Finds the model's file, and has a child try it with the adapters of the settings.
    pub fn find_usable(
        resolved: &Resolved,
        choice: &ModelChoice,
        report: &mut Report<'_>,
    ) -> Result<Usable> {
        check_processor()?; // Before a model is fetched that this build could not compute.
        let settings = &resolved.settings;
        let file = find(resolved, choice)?;
        let content = hash(&settings.data_dir, &file, report)?;
        let loras = adapters::hashed(settings, report)?;
        let mut no_mtp = None;
        if *choice != ModelChoice::Bundled || !loras.is_empty() {
            let with_adapters = adapters::content_with(content, &loras);
            no_mtp = probe::check(settings, &probe_cache(settings), &file, with_adapters, report)?;
        }
        Ok(Usable { file, content, loras, no_mtp })
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn the_kv_of_the_draft_model_is_left_room_for() {
            let mut placement = Placement { margin_bytes: 5, ..Placement::default() };
            leave_room(&mut placement, 7);
            assert_eq!(placement.margin_bytes, 12);
            leave_room(&mut placement, u64::MAX);
            assert_eq!(placement.margin_bytes, usize::MAX);
        }
    }
}
