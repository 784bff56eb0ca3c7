//! What the model and the draft model have in common: a file of this machine, its names, and what goes
//! where.

use hob_config::{DraftChoice, Resolved, Settings, paths};
use hob_models::{ContextSettings, ProbeCache, Roots};
use hob_slots::fingerprint::{FileDigest, Fingerprint, Lora, Rope};

#[cfg(feature = "llama")]
pub use hob_runtime::backend::llama::STATE_FORMAT;

/// Nothing names KV by this without llama.cpp.
#[cfg(not(feature = "llama"))]
pub const STATE_FORMAT: &str = "none";

/// Flash attention and small windows are constants of the engine.
pub(super) fn fingerprint(
    resolved: &Resolved,
    content: FileDigest,
    state_format: &str,
    loras: &[Lora],
) -> Fingerprint {
    Fingerprint {
        model_sha256: content,
        drafts: false,
        cache_type_k: resolved.settings.cache_type_k.to_string(),
        cache_type_v: resolved.settings.cache_type_v.to_string(),
        flash_attention: true,
        swa_full: false,
        state_format: state_format.to_owned(),
        rope: Default::default(),
        loras: loras.to_vec(),
    }
}

/// The same in a context in which the model `rotates_by_long_factors`, where all its KV is other KV.
pub(super) fn in_context(fingerprint: Fingerprint, rotates_by_long_factors: bool) -> Fingerprint {
    if !rotates_by_long_factors {
        return fingerprint;
    }
    let rope = Rope { scaling: "longrope".to_owned(), ..fingerprint.rope.clone() };
    Fingerprint { rope, ..fingerprint }
}

/// Whether the MTP heads of a model may guess, and are tried with its file.
pub(super) fn tries_mtp(settings: &Settings) -> bool {
    settings.draft == DraftChoice::Auto && settings.draft_mtp
}

/// Whether the MTP heads of a model are loaded, if its file has some. A draft model guesses in their place.
#[cfg(feature = "llama")]
pub(super) fn loads_mtp(settings: &Settings) -> bool {
    tries_mtp(settings) && settings.draft_model.is_none()
}

/// What probes have found, with these cache types by this version, with MTP heads or without.
pub(super) fn probe_cache(settings: &Settings) -> ProbeCache {
    let Settings { cache_type_k, cache_type_v, .. } = settings;
    let version = env!("CARGO_PKG_VERSION");
    let mut prober = format!("hobd {version}, {STATE_FORMAT}, {cache_type_k}, {cache_type_v}");
    if tries_mtp(settings) {
        prober += ", MTP";
    }
    ProbeCache::at(paths::probe_cache_file(&settings.data_dir), prober)
}

/// The directories of models. Environment variables name those of other programs.
pub(super) fn roots(resolved: &Resolved) -> Roots {
    let home = &resolved.user_dirs.home;
    Roots::from_env(|name| std::env::var_os(name), home, resolved.models_dirs())
}

pub(super) fn context_settings(settings: &Settings) -> ContextSettings {
    let Settings { ctx, slots, cache_type_k, cache_type_v, .. } = settings;
    let cache_types = [cache_type_k.as_str(), cache_type_v.as_str()];
    let prefixes = settings.prefix_slots() as u64;
    ContextSettings::new(ctx.tokens(), (*slots).into(), prefixes, cache_types)
        .with_gpu_layers(settings.gpu_layers.count())
}

#[cfg(feature = "llama")]
pub(super) use files::{find, hash, limited_context_settings, placement};

#[cfg(feature = "llama")]
mod files {
    use std::path::Path;

    use anyhow::{Context, Result};
    use hob_config::{GpuLayers, ModelChoice};
    use hob_models::{ChosenContext, ContentHash, HashCache, ModelFile, bundled, discover};
    use hob_runtime::backend::llama::{self, Placement};
    use hob_runtime::{EngineOptions, backend};

    use super::*;
    use crate::startup::{Report, Step};

    /// The settings for the context of `file`, with what limits it on the devices.
    pub(in crate::startup) fn limited_context_settings(
        settings: &Settings,
        file: &ModelFile,
    ) -> ContextSettings {
        let largest = llama::largest_tensor(&file.path, &placement_alone(settings));
        context_settings(settings).with_largest_tensor(largest)
    }

    /// What goes to devices, beside the context that the engine will make.
    pub(in crate::startup) fn placement(
        settings: &Settings,
        file: &ModelFile,
        context: ChosenContext,
    ) -> Placement {
        let context_tokens = context.tokens as usize;
        // An embedding model computes a text in one micro-batch.
        let micro_batch = match file.summary.pooling {
            Some(_) => context_tokens,
            None => EngineOptions::default().micro_batch.min(context_tokens),
        };
        let slots = settings.slots as usize + settings.prefix_slots();
        let sequences = slots + file.summary.memory.other_sequences() as usize;
        let context = backend::ContextShape { context_tokens, sequences, micro_batch };
        Placement { context: Some(context), ..placement_alone(settings) }
    }

    /// Beside no context.
    fn placement_alone(settings: &Settings) -> Placement {
        Placement {
            layers: match settings.gpu_layers {
                GpuLayers::Auto => llama::GpuLayers::Auto,
                GpuLayers::Count(count) => llama::GpuLayers::Count(count),
            },
            devices: settings.device.clone(),
            tensor_split: settings.tensor_split.clone(),
            kv_offload: settings.kv_offload,
            ..Placement::default()
        }
    }

    pub(in crate::startup) fn find(resolved: &Resolved, choice: &ModelChoice) -> Result<ModelFile> {
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

    pub(in crate::startup) fn hash(
        data_dir: &Path,
        file: &ModelFile,
        report: &mut Report<'_>,
    ) -> Result<ContentHash> {
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
