//! The settings of llama.cpp that Hob chooses, with the reasons.

use llama_cpp_sys_2 as sys;

use super::adapters::Adapter;
use super::placement::Placement;
use crate::backend::{ContextShape, LoadError};

/// Load options that are not part of a context's shape.
#[derive(Clone, Debug, PartialEq)]
pub struct LlamaOptions {
    /// Compute threads; 0 chooses [`default_threads`] for the model.
    pub threads: usize,
    /// How long idle compute threads spin for the next graph: 0 sleeps, 100 spins. `None` makes a
    /// thread pool for every graph, llama.cpp's default. See docs/MEASUREMENTS.md.
    pub poll: Option<u32>,
    /// Type of the K cells: `f16`, `q8_0`, …
    pub cache_type_k: String,
    /// Type of the V cells.
    pub cache_type_v: String,
    pub placement: Placement,
    /// Added to the model, in this order.
    pub adapters: Vec<Adapter>,
    /// Replaces the chat template of the file.
    pub chat_template: Option<String>,
    /// Loads the MTP heads of the file, where it has some that guess here.
    pub mtp: bool,
    /// Why they are not loaded after all: a trial of the file has failed with them.
    pub mtp_refused: Option<String>,
}

impl Default for LlamaOptions {
    fn default() -> Self {
        Self {
            threads: 0,
            poll: Some(0),
            cache_type_k: "f16".to_owned(),
            cache_type_v: "f16".to_owned(),
            placement: Placement::default(),
            adapters: Vec::new(),
            chat_template: None,
            mtp: false,
            mtp_refused: None,
        }
    }
}

impl LlamaOptions {
    pub(super) fn validate(&self) -> Result<(), LoadError> {
        cache_type("cache_type_k", &self.cache_type_k)?;
        cache_type("cache_type_v", &self.cache_type_v)?;
        Ok(())
    }

    /// The element types of the K and V cache.
    pub(super) fn cache_types(&self) -> [sys::ggml_type; 2] {
        let types = [("cache_type_k", &self.cache_type_k), ("cache_type_v", &self.cache_type_v)];
        types.map(|(name, value)| cache_type(name, value).expect("validated at load"))
    }

    /// Compute threads for weights of `size_bytes`.
    pub(super) fn threads(&self, size_bytes: u64) -> i32 {
        let threads = match self.threads {
            0 => default_threads(size_bytes),
            chosen => chosen,
        };
        i32::try_from(threads).unwrap_or(i32::MAX)
    }
}

/// Below this, one thread is faster than two: synchronising costs more than computing.
const TINY_MODEL_BYTES: u64 = 64 << 20;

/// Default compute threads for weights of `size_bytes`: the physical cores that this process may
/// use, minus one for other processes where there are more than two.
///
/// All threads synchronise after every operation of a graph, so one that has lost its core delays
/// all: on a busy machine a tiny model was ten times slower with two threads than with one. See
/// docs/MEASUREMENTS.md.
pub fn default_threads(size_bytes: u64) -> usize {
    if size_bytes < TINY_MODEL_BYTES {
        return 1;
    }
    let allowed = std::thread::available_parallelism().map_or(1, usize::from);
    match allowed.min(num_cpus::get_physical()) {
        few @ 0..=2 => few.max(1),
        many => many - 1,
    }
}

/// The parameters of a context; `None` where a number exceeds llama.cpp's. `kv_on_devices`: the KV of
/// layers on devices is there too.
pub(super) fn context_params(
    shape: ContextShape,
    cache_types: [sys::ggml_type; 2],
    kv_on_devices: bool,
) -> Option<sys::llama_context_params> {
    let number = |value: usize| u32::try_from(value).ok();
    // llama.cpp reserves an output a sequence, and for pooled outputs a batch that sequences share
    // equally. It ends the process where the batch is smaller, or is no multiple.
    let rows = shape.micro_batch.next_multiple_of(shape.sequences);
    // SAFETY: the defaults are plain values.
    let mut params = unsafe { sys::llama_context_default_params() };
    params.n_ctx = number(shape.context_tokens.max(rows))?;
    params.n_batch = number(rows)?;
    params.n_ubatch = params.n_batch; // One batch is one micro-batch: all of it or none.
    params.n_seq_max = number(shape.sequences)?;
    params.kv_unified = true; // Sequences share cells by range.
    params.swa_full = false; // Windows stay small; rewinds go through snapshots.
    params.offload_kqv = kv_on_devices;
    // Rows of V are then stored like rows of K, so ranges of cells can be moved. With AUTO, too:
    // llama.cpp lays out the cache before it looks whether every device has the kernel, and computes
    // attention without it where one has not. The processor always has it.
    params.flash_attn_type = if kv_on_devices {
        sys::LLAMA_FLASH_ATTN_TYPE_AUTO
    } else {
        sys::LLAMA_FLASH_ATTN_TYPE_ENABLED
    };
    [params.type_k, params.type_v] = cache_types;
    params.no_perf = true;
    Some(params)
}

/// The cache types that flash attention reads on every device.
fn cache_type(name: &'static str, value: &str) -> Result<sys::ggml_type, LoadError> {
    Ok(match value {
        "f32" => sys::GGML_TYPE_F32,
        "f16" => sys::GGML_TYPE_F16,
        "bf16" => sys::GGML_TYPE_BF16,
        "q8_0" => sys::GGML_TYPE_Q8_0,
        "q5_1" => sys::GGML_TYPE_Q5_1,
        "q5_0" => sys::GGML_TYPE_Q5_0,
        "q4_1" => sys::GGML_TYPE_Q4_1,
        "q4_0" => sys::GGML_TYPE_Q4_0,
        other => {
            return Err(LoadError::Setting {
                name,
                value: other.to_owned(),
                known: "f32 f16 bf16 q8_0 q5_1 q5_0 q4_1 q4_0",
            });
        }
    })
}

/// The name of a `pooling_type`, as GGUF stores it; `None` for "no pooling".
pub(super) fn pooling_name(value: &str) -> Option<String> {
    let name = match value {
        "1" => "mean",
        "2" => "cls",
        "3" => "last",
        "4" => "rank",
        _ => return None,
    };
    Some(name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_may_lack_the_kernel_of_flash_attention_and_the_processor_never_does() {
        let shape = ContextShape { context_tokens: 256, sequences: 2, micro_batch: 32 };
        let types = [sys::GGML_TYPE_F16; 2];
        let attention = |kv_on_devices| {
            let params = context_params(shape, types, kv_on_devices);
            params.expect("the numbers are small").flash_attn_type
        };
        assert_eq!(attention(true), sys::LLAMA_FLASH_ATTN_TYPE_AUTO);
        assert_eq!(attention(false), sys::LLAMA_FLASH_ATTN_TYPE_ENABLED);
    }
}
