//! The settings of llama.cpp that Hob chooses, with the reasons.

use llama_cpp_sys_2 as sys;

use crate::backend::LoadError;

/// Load options that are not part of a context's shape.
#[derive(Clone, Debug, PartialEq, Eq)]
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
}

impl Default for LlamaOptions {
    fn default() -> Self {
        Self {
            threads: 0,
            poll: Some(0),
            cache_type_k: "f16".to_owned(),
            cache_type_v: "f16".to_owned(),
        }
    }
}

impl LlamaOptions {
    pub(super) fn validate(&self) -> Result<(), LoadError> {
        cache_type("cache_type_k", &self.cache_type_k)?;
        cache_type("cache_type_v", &self.cache_type_v)?;
        Ok(())
    }

    pub(super) fn type_k(&self) -> sys::ggml_type {
        cache_type("cache_type_k", &self.cache_type_k).expect("validated at load")
    }

    pub(super) fn type_v(&self) -> sys::ggml_type {
        cache_type("cache_type_v", &self.cache_type_v).expect("validated at load")
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
