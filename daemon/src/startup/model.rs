//! From the setting `model` to a loaded model and its fingerprint.
//!
//! - A file is validated before llama.cpp reads it; the error names the file and the remedy.
//! - `fake` is the model of the tests: no file, no C++. `fake:second` has another fingerprint.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Result;
use hob_config::{ModelChoice, Resolved, Settings, paths};
use hob_models::{ChosenContext, ContextSettings, Estimate, ProbeCache, Roots};
use hob_runtime::backend::fake::{CELL_BYTES, FakeModel};
use hob_runtime::{EngineOptions, Model};
use hob_slots::fingerprint::{FileDigest, Fingerprint, Lora};

use super::Report;
use crate::models::ModelSampling;
use crate::profiles::count_profiles;
use crate::prompt::RendersIn;

/// llama.cpp's limit; one sequence is reserved for splices.
const MAX_SEQUENCES: usize = 256;

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
    })
}

/// Flash attention and small windows are constants of the engine.
pub(super) fn fingerprint(
    resolved: &Resolved,
    content: FileDigest,
    state_format: &str,
    loras: &[Lora],
) -> Fingerprint {
    Fingerprint {
        model_sha256: content,
        drafter_sha256: None,
        cache_type_k: resolved.settings.cache_type_k.to_string(),
        cache_type_v: resolved.settings.cache_type_v.to_string(),
        flash_attention: true,
        swa_full: false,
        state_format: state_format.to_owned(),
        rope: Default::default(),
        loras: loras.to_vec(),
    }
}

pub(super) use real::STATE_FORMAT;

/// What probes have found, with these cache types by this version.
pub(super) fn probe_cache(settings: &Settings) -> ProbeCache {
    let Settings { cache_type_k, cache_type_v, .. } = settings;
    let version = env!("CARGO_PKG_VERSION");
    let prober = format!("hobd {version}, {STATE_FORMAT}, {cache_type_k}, {cache_type_v}");
    ProbeCache::at(paths::probe_cache_file(&settings.data_dir), prober)
}

/// The directories of models. Environment variables name those of other programs.
pub(super) fn roots(resolved: &Resolved) -> Roots {
    let own = paths::models_dir(&resolved.settings.data_dir);
    Roots::from_env(|name| std::env::var_os(name), &resolved.user_dirs.home, &own)
}

pub(super) fn context_settings(settings: &Settings) -> ContextSettings {
    let Settings { ctx, slots, cache_type_k, cache_type_v, .. } = settings;
    let cache_types = [cache_type_k.as_str(), cache_type_v.as_str()];
    ContextSettings::new(ctx.tokens(), (*slots).into(), cache_types)
}

/// Sequences for prefixes: one for each profile and each learned prefix, and the default number at
/// least, for profiles that are added later. Not more, because on models that keep whole states
/// each one takes memory.
pub(super) fn prefix_slots(settings: &Settings) -> usize {
    let profiles = count_profiles(&settings.profiles_dir);
    let max = MAX_SEQUENCES - 1 - settings.slots as usize;
    (profiles + settings.learned_prefixes).max(EngineOptions::default().prefixes).min(max)
}

#[cfg(not(feature = "llama"))]
mod real {
    use std::convert::Infallible;

    use super::*;

    /// Nothing names KV by this without llama.cpp.
    pub const STATE_FORMAT: &str = "none";

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
    use std::path::Path;

    use anyhow::Context;
    use hob_config::GpuLayers;
    use hob_models::{ContentHash, HashCache, MachineMemory, ModelFile, bundled, discover};
    use hob_runtime::backend;
    pub use hob_runtime::backend::llama::STATE_FORMAT;
    use hob_runtime::backend::llama::{self, LlamaModel, LlamaOptions, Placement};

    use super::*;
    use crate::models::DeviceSettings;
    use crate::startup::{Step, adapters, probe, template};

    pub fn load(
        resolved: &Resolved,
        choice: &ModelChoice,
        report: &mut Report<'_>,
    ) -> Result<Loaded> {
        let settings = &resolved.settings;
        let Usable { file, content, loras } = find_usable(resolved, choice, report)?;
        tracing::info!(path = %file.path.display(), bytes = file.size_bytes, "model");
        // The model before is freed, and the weights are not read yet.
        let host_bytes = MachineMemory::usable_bytes(MachineMemory::read());
        let wanted = context_settings(settings);
        let available = DeviceSettings::of(settings).available(host_bytes);
        let context = wanted.context_of(&file, available);
        let options = LlamaOptions {
            threads: settings.threads as usize,
            cache_type_k: settings.cache_type_k.to_string(),
            cache_type_v: settings.cache_type_v.to_string(),
            placement: placement(settings, &file, context),
            chat_template: template::of(settings)?,
            adapters: adapters::of(settings),
            ..LlamaOptions::default()
        };
        let model = LlamaModel::load_telling(&file.path, options, &mut |loaded| {
            report(Step::Loading { percent: (loaded.clamp(0.0, 1.0) * 100.0) as u8 })
        })?;
        let estimate = file.estimate(&wanted.demand(context.tokens));
        Ok(Loaded {
            model: Arc::new(model),
            fingerprint: fingerprint(resolved, FileDigest(content.0), STATE_FORMAT, &loras),
            name: file.name,
            shown: file.path.display().to_string(),
            files: file.files,
            context,
            estimate: Some(estimate),
            sampling: ModelSampling::of(&file.summary.sampling),
            renders_in: match (choice, &settings.chat_template) {
                (ModelChoice::Bundled, None) => RendersIn::ThisProcess,
                _ => RendersIn::AChild,
            },
        })
    }

    /// Neither damaged nor hostile, as far as a probe can tell.
    pub struct Usable {
        file: ModelFile,
        content: ContentHash,
        loras: Vec<Lora>,
    }

    /// Finds the model's file, and has a child try it with the adapters of the settings.
    pub fn find_usable(
        resolved: &Resolved,
        choice: &ModelChoice,
        report: &mut Report<'_>,
    ) -> Result<Usable> {
        let settings = &resolved.settings;
        let file = find(resolved, choice)?;
        let content = hash(&settings.data_dir, &file, report)?;
        let loras = adapters::hashed(settings, report)?;
        if *choice != ModelChoice::Bundled || !loras.is_empty() {
            let with_adapters = adapters::content_with(content, &loras);
            probe::check(settings, &probe_cache(settings), &file, with_adapters, report)?;
        }
        Ok(Usable { file, content, loras })
    }

    /// What goes to devices, beside the context that the engine will make.
    fn placement(settings: &Settings, file: &ModelFile, context: ChosenContext) -> Placement {
        let context_tokens = context.tokens as usize;
        // An embedding model computes a text in one micro-batch.
        let micro_batch = match file.summary.pooling {
            Some(_) => context_tokens,
            None => EngineOptions::default().micro_batch.min(context_tokens),
        };
        let sequences = settings.slots as usize + prefix_slots(settings) + 1;
        Placement {
            layers: match settings.gpu_layers {
                GpuLayers::Auto => llama::GpuLayers::Auto,
                GpuLayers::Count(count) => llama::GpuLayers::Count(count),
            },
            devices: settings.device.clone(),
            tensor_split: settings.tensor_split.clone(),
            kv_offload: settings.kv_offload,
            context: Some(backend::ContextShape { context_tokens, sequences, micro_batch }),
            ..Placement::default()
        }
    }

    fn find(resolved: &Resolved, choice: &ModelChoice) -> Result<ModelFile> {
        let own = paths::models_dir(&resolved.settings.data_dir);
        match choice {
            ModelChoice::Bundled => {
                let path = bundled::materialise(&own).with_context(|| {
                    format!("cannot write the bundled model to {}", own.display())
                })?;
                Ok(ModelFile::open(&path)?)
            }
            ModelChoice::Named(name) => {
                Ok(hob_models::resolve(name, || discover(&roots(resolved)))?)
            }
        }
    }

    fn hash(data_dir: &Path, file: &ModelFile, report: &mut Report<'_>) -> Result<ContentHash> {
        let cache = HashCache::at(paths::hash_cache_file(data_dir));
        let mut logged = 0;
        let content = cache.hash(&file.files, &mut |progress| {
            let percent = progress.done_bytes * 100 / progress.total_bytes.max(1);
            // Only a load is interrupted: the signal's thread ends a process that hashes.
            let _ = report(Step::Reading { percent: percent.min(100) as u8 });
            if percent >= logged + 10 && progress.total_bytes > 1 << 30 {
                logged = percent;
                tracing::info!(percent, "hashing the model file");
            }
        });
        content.with_context(|| format!("cannot read {}", file.path.display()))
    }
}
