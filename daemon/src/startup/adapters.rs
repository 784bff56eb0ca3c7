//! The LoRA adapters that the settings name.

use anyhow::{Context, Result};
use hob_config::{Settings, paths};
use hob_models::{ContentHash, HashCache};
use hob_runtime::backend::llama::Adapter;
use hob_slots::fingerprint::{FileDigest, Lora};
use sha2::{Digest, Sha256};

use super::{Report, Step};

pub(super) fn of(settings: &Settings) -> Vec<Adapter> {
    let adapter = |it: &hob_config::Adapter| Adapter { path: it.path.clone(), scale: it.scale };
    settings.lora.iter().map(adapter).collect()
}

/// Their content, which is part of the model's fingerprint: KV that was computed with other adapters is
/// other KV.
///
/// # Errors
/// When a file cannot be read.
pub(super) fn hashed(settings: &Settings, report: &mut Report<'_>) -> Result<Vec<Lora>> {
    let cache = HashCache::at(paths::hash_cache_file(&settings.data_dir));
    let hash = |adapter: &hob_config::Adapter| {
        let files = [adapter.path.clone()];
        let content = cache.hash(&files, &mut |progress| {
            let percent = progress.done_bytes * 100 / progress.total_bytes.max(1);
            let _ = report(Step::Reading { percent: percent.min(100) as u8 });
        });
        let content = content.with_context(|| {
            format!("cannot read the adapter {}: correct the setting lora", adapter.path.display())
        })?;
        Ok(Lora { sha256: FileDigest(content.0), scale: adapter.scale })
    };
    settings.lora.iter().map(hash).collect()
}

/// Names a model together with its adapters.
pub(super) fn content_with(model: ContentHash, loras: &[Lora]) -> ContentHash {
    if loras.is_empty() {
        return model;
    }
    let mut hash = Sha256::new_with_prefix(model.0);
    for Lora { sha256, scale } in loras {
        hash.update(sha256.0);
        hash.update(scale.to_le_bytes());
    }
    ContentHash(hash.finalize().into())
}
