//! How a model rotates K: from its metadata, and from the one tensor that says more.
//!
//! llama.cpp has no function that tells it. So only architectures are known whose graphs, in the pinned
//! version, rotate K of all layers equally, and last of all.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use llama_cpp_sys_2 as sys;

use super::header::Header;
use super::params::LlamaOptions;
use super::weights::Weights;
use crate::backend::rotate::{Pairing, Yarn};
use crate::backend::{Immovable, MemoryKind, Rope};

const ARCHITECTURES: [&str; 14] = [
    "gemma",
    "granite",
    "granitemoe",
    "internlm2",
    "llama",
    "mistral3",
    "olmo2",
    "phi2",
    "qwen2",
    "qwen2moe",
    "qwen3",
    "qwen3moe",
    "stablelm",
    "starcoder2",
];

/// Divides the frequencies of Llama 3.1 and later.
const FACTORS: &str = "rope_freqs.weight";

/// Depends on the length of the context.
const LONG_FACTORS: &str = "rope_factors_long.weight";

/// YaRN's own choice, which llama.cpp has too.
const YARN_TURNS: [f32; 2] = [32.0, 1.0];

/// The metadata of a model's architecture.
struct Metadata<'w> {
    weights: &'w Weights,
    architecture: String,
}

impl<'w> Metadata<'w> {
    fn of(weights: &'w Weights) -> Self {
        let architecture = super::metadata(weights, "general.architecture").unwrap_or_default();
        Self { weights, architecture }
    }

    fn text(&self, key: &str) -> Option<String> {
        super::metadata(self.weights, &format!("{}.{key}", self.architecture))
    }

    fn number(&self, key: &str) -> Option<f32> {
        self.text(key)?.parse().ok()
    }

    fn count(&self, key: &str) -> Option<usize> {
        self.text(key)?.parse().ok()
    }

    /// Whether the graph of the architecture is known, and rotates K.
    fn is_known(&self) -> bool {
        // Granite's way to have no rotation.
        let has_none = self.architecture.starts_with("granite")
            && self.text("rope.scaling.finetuned").as_deref() == Some("false");
        ARCHITECTURES.contains(&self.architecture.as_str()) && !has_none
    }
}

/// The rotation of `weights`, loaded from `path`.
pub(super) fn read_rope(
    weights: &Weights,
    path: &Path,
    memory: MemoryKind,
    options: &LlamaOptions,
) -> Result<Rope, Immovable> {
    let metadata = Metadata::of(weights);
    let unknown = || Immovable::Architecture(metadata.architecture.clone());
    if !memory.is_plain() {
        return Err(Immovable::Memory(memory));
    }
    // SAFETY: the model is loaded; these read numbers of it.
    let (kind, scale, heads, width, trained) = unsafe {
        let model = weights.as_ptr();
        (
            sys::llama_model_rope_type(model),
            sys::llama_model_rope_freq_scale_train(model),
            sys::llama_model_n_head(model),
            sys::llama_model_n_embd(model),
            sys::llama_model_n_ctx_train(model),
        )
    };
    let pairing = match kind {
        sys::LLAMA_ROPE_TYPE_NORM => Pairing::Neighbours,
        sys::LLAMA_ROPE_TYPE_NEOX => Pairing::Halves,
        sys::LLAMA_ROPE_TYPE_NONE => return Err(unknown()),
        _ => return Err(Immovable::SeveralPositions),
    };
    if metadata.count("attention.kv_lora_rank").is_some_and(|rank| rank > 0) {
        return Err(Immovable::LatentAttention);
    }
    let head = metadata
        .count("attention.key_length")
        .or_else(|| usize::try_from(width).ok()?.checked_div(usize::try_from(heads).ok()?));
    let Some(head) = head.filter(|&head| head > 0 && metadata.is_known()) else {
        return Err(unknown());
    };
    let scaling = metadata.text("rope.scaling.type").unwrap_or_else(|| "linear".to_owned());
    if !matches!(scaling.as_str(), "none" | "linear" | "yarn") {
        return Err(Immovable::LongRope);
    }
    if !matches!(options.cache_type_k.as_str(), "f32" | "f16" | "bf16" | "q8_0") {
        return Err(Immovable::CacheType(options.cache_type_k.clone()));
    }
    let rotated = metadata.count("rope.dimension_count").unwrap_or(head);
    let factors = factors(weights, path).map_err(|()| Immovable::LongRope)?;
    if rotated > head || (!factors.is_empty() && factors.len() < rotated / 2) {
        return Err(unknown());
    }
    let base = metadata.number("rope.freq_base").unwrap_or(10_000.0);
    let scale = if scaling == "none" { 1.0 } else { scale };
    let mut rope = Rope { pairing, head, rotated, base, scale, factors, yarn: None };
    if scaling == "yarn" {
        rope.yarn = Some(read_yarn(&metadata, &rope, trained));
    }
    Ok(rope)
}

/// `trained`: tokens of context that the model was trained with.
fn read_yarn(metadata: &Metadata<'_>, rope: &Rope, trained: i32) -> Yarn {
    let [fast, slow] = YARN_TURNS;
    let turns = [
        metadata.number("rope.scaling.yarn_beta_fast").unwrap_or(fast),
        metadata.number("rope.scaling.yarn_beta_slow").unwrap_or(slow),
    ];
    #[expect(clippy::cast_precision_loss, reason = "llama.cpp computes with it in 32 bits")]
    let trained = trained as f32;
    let original = metadata.number("rope.scaling.original_context_length").unwrap_or(trained);
    let extrapolated = metadata.number("rope.scaling.yarn_ext_factor").filter(|it| *it >= 0.0);
    Yarn::new(rope, extrapolated.unwrap_or(1.0), original, turns)
}

/// The factors of the model; empty without any. `Err`: it has some, which cannot be read or depend on the
/// context.
fn factors(weights: &Weights, path: &Path) -> Result<Vec<f32>, ()> {
    let mut factors = Vec::new();
    for file in files(weights, path).ok_or(())? {
        factors.append(&mut factors_in(&file)?);
    }
    Ok(factors)
}

/// The files of the model, of which `path` is the first. One of several may have no tensors.
fn files(weights: &Weights, path: &Path) -> Option<Vec<PathBuf>> {
    let count = super::metadata(weights, "split.count");
    let count: usize = count.and_then(|count| count.parse().ok()).unwrap_or(1);
    if count <= 1 {
        return Some(vec![path.to_owned()]);
    }
    let stem = path.to_str()?.strip_suffix(&format!("-00001-of-{count:05}.gguf"))?;
    let file = |number: usize| PathBuf::from(format!("{stem}-{number:05}-of-{count:05}.gguf"));
    Some((1..=count).map(file).collect())
}

/// The frequency factors in one file.
fn factors_in(path: &Path) -> Result<Vec<f32>, ()> {
    let header = Header::open(path).ok_or(())?;
    if header.has_tensor(LONG_FACTORS) {
        return Err(());
    }
    let Some(tensor) = header.tensor(FACTORS) else { return Ok(Vec::new()) };
    let mut factors = vec![0; tensor.bytes];
    let read = File::open(path).and_then(|file| file.read_exact_at(&mut factors, tensor.start));
    if tensor.kind != sys::GGML_TYPE_F32 || read.is_err() {
        return Err(());
    }
    Ok(factors.as_chunks::<4>().0.iter().map(|it| f32::from_le_bytes(*it)).collect())
}

#[cfg(test)]
mod tests;
