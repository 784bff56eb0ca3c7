//! The real backend: llama.cpp, as vendored by llama-cpp-sys-2.
//!
//! - The safe wrapper (llama-cpp-2) starts llama.cpp and forwards its log to `tracing`. Model and
//!   context are owned here, because the wrapper hides what the engine needs: a model's attention
//!   window, the thread pool and its polling, the number of bytes that a state call consumed.
//! - Files are validated before they are loaded; what llama.cpp still refuses is a [`LoadError`].
//! - An abort inside ggml is logged before the process ends, and no debugger is started.

mod adapters;
mod backends;
mod context;
mod fit;
mod header;
mod heads;
mod largest_tensor;
mod named_template;
mod params;
mod placement;
mod pool;
mod processor;
mod rope;
mod staging;
#[cfg(feature = "bench")]
pub mod stock;
mod weights;

use std::ffi::{CStr, CString, c_char};
use std::ops::{ControlFlow, Range};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use hob_slots::{Lossy, Token};
use llama_cpp_2::llama_backend::LlamaBackend;
use llama_cpp_2::{LogOptions, send_logs_to_tracing};
use llama_cpp_sys_2 as sys;
use parking_lot::RwLock;

use super::{
    AttentionTile, Backend, Build, ContextShape, JoinedState, LoadError, MemoryKind, Model,
    ModelFacts, MtpHeads, NoMtp, Offload, Progress, Unrounded, lossy, rotate, state,
};
use crate::vocabulary::{PairMarks, TokenKind, Vocabulary};

pub use adapters::Adapter;
use context::Context;
pub use largest_tensor::largest_tensor;
pub use params::{LlamaOptions, default_threads};
pub use placement::{GpuLayers, Placement, devices};
pub use processor::check_processor;
use weights::{Extent, Source, Weights, shards};

/// Names the layout of exported states: other versions of llama.cpp do not read them. Part of every
/// fingerprint; changes with the pin of llama-cpp-sys-2, as a test of the manifest holds.
pub const STATE_FORMAT: &str = "llama-cpp-sys-2 0.1.161";

/// Begins the log's line of an abort.
pub const ABORTS: &str = "llama.cpp aborts";

/// A GGUF. Its weights may be unloaded; facts and vocabulary stay.
pub struct LlamaModel {
    source: Source,
    weights: RwLock<Option<Arc<Weights>>>,
    /// Tokenizes while the weights are not in memory.
    vocabulary_only: OnceLock<Arc<Weights>>,
    facts: ModelFacts,
    vocabulary: Vocabulary,
    options: LlamaOptions,
    heads: MtpHeads,
}

impl LlamaModel {
    /// Loads the GGUF at `path` (the first shard of several).
    ///
    /// # Errors
    /// [`LoadError::Model`] when llama.cpp refuses the file, [`LoadError::Setting`] for an unknown
    /// cache type.
    pub fn load(path: &Path, options: LlamaOptions) -> Result<Self, LoadError> {
        Self::load_telling(path, options, &mut |_| ControlFlow::Continue(()))
    }

    /// As [`LlamaModel::load`]; calls `progress` with 0 to 1, and ends early when it breaks.
    pub fn load_telling(
        path: &Path,
        options: LlamaOptions,
        progress: &mut Progress<'_>,
    ) -> Result<Self, LoadError> {
        options.validate()?;
        start()?;
        let mut source = Source::new(path, &options.adapters)?;
        let mut heads = match &options.mtp_refused {
            Some(reason) => MtpHeads::Refused(NoMtp::Trial(reason.clone())),
            None if options.mtp => heads::find(shards(path).iter().map(PathBuf::as_path)),
            None => MtpHeads::None,
        };
        source.mtp = heads == MtpHeads::Loaded;
        let mut loaded = source.load(Extent::Whole(&options), progress);
        if source.mtp && matches!(loaded, Err(LoadError::Model { .. })) {
            source.mtp = false;
            loaded = source.load(Extent::Whole(&options), progress);
            if loaded.is_ok() {
                heads = MtpHeads::Refused(NoMtp::Load);
            }
        }
        let weights = loaded?;
        // SAFETY: the model was just loaded and is not null.
        if unsafe { sys::llama_model_has_encoder(weights.as_ptr()) } {
            return Err(source.refused("encoder-decoder models are not supported"));
        }
        let mut facts = read_facts(&weights, path, &options);
        if let Some(template) = &options.chat_template {
            facts.chat_template = Some(template.clone());
            facts.tool_template = None;
        }
        if facts.pooling.is_some() {
            heads = MtpHeads::None; // It answers nothing.
        }
        Ok(Self {
            source,
            facts,
            vocabulary: read_vocabulary(&weights),
            weights: RwLock::new(Some(Arc::new(weights))),
            vocabulary_only: OnceLock::new(),
            options,
            heads,
        })
    }

    fn weights(&self) -> Result<Arc<Weights>, LoadError> {
        self.weights.read().clone().ok_or(LoadError::NotResident)
    }

    /// The weights, or the vocabulary alone.
    fn tokenizer(&self) -> Arc<Weights> {
        let vocabulary = || self.vocabulary_only.get().cloned();
        // `drop_weights` loads the vocabulary first.
        self.weights().ok().or_else(vocabulary).expect("one of them is loaded")
    }
}

impl Model for LlamaModel {
    fn facts(&self) -> &ModelFacts {
        &self.facts
    }

    fn vocabulary(&self) -> &Vocabulary {
        &self.vocabulary
    }

    fn tokenize(&self, text: &str, add_special: bool, parse_special: bool) -> Vec<Token> {
        let tokenizer = self.tokenizer();
        let vocab = tokenizer.vocab();
        let length = i32::try_from(text.len()).expect("a prompt is smaller than 2 GiB");
        let mut tokens = vec![0i32; text.len() / 2 + 8];
        loop {
            let room = i32::try_from(tokens.len()).expect("a prompt is smaller than 2 GiB");
            // SAFETY: text and buffer are passed with their lengths; the vocabulary is immutable.
            let count = unsafe {
                sys::llama_tokenize(
                    vocab,
                    text.as_ptr().cast::<c_char>(),
                    length,
                    tokens.as_mut_ptr(),
                    room,
                    add_special,
                    parse_special,
                )
            };
            if let Ok(count) = usize::try_from(count) {
                return tokens[..count].iter().map(|&token| Token(token)).collect();
            }
            tokens.resize(count.unsigned_abs() as usize, 0); // It returns how many it needs, negated.
        }
    }

    fn append_state(&self, joined: &mut JoinedState, state: &[u8]) -> bool {
        state::append(joined, state)
    }

    fn seal_state(&self, joined: &mut JoinedState) {
        state::seal(joined);
    }

    fn move_state(&self, state: &[u8], wanted: &Range<usize>, delta: i64) -> Option<Vec<u8>> {
        rotate::moved(state, wanted, delta, self.facts.rope.as_ref().ok()?)
    }

    fn round_state(&self, state: &[u8], lossy: Lossy) -> Result<Vec<u8>, Unrounded> {
        lossy::rounded(state, lossy)
    }

    fn state_of_rounded(&self, rounded: &[u8], buffer: Vec<u8>) -> Option<Vec<u8>> {
        lossy::state_of(rounded, buffer)
    }

    fn with_context(
        &self,
        shape: ContextShape,
        run: &mut dyn FnMut(&mut dyn Backend),
    ) -> Result<(), LoadError> {
        let mut context = Context::new(self, shape)?;
        run(&mut context);
        Ok(())
    }

    fn load_weights(&self, progress: &mut Progress<'_>) -> Result<(), LoadError> {
        if self.weights().is_err() {
            let weights = self.source.load(Extent::Whole(&self.options), progress)?;
            *self.weights.write() = Some(Arc::new(weights));
        }
        Ok(())
    }

    fn leave_devices(&self, progress: &mut Progress<'_>) -> Result<bool, LoadError> {
        let Some(offload) = self.offload() else { return Ok(false) };
        if self.options.placement.layers != GpuLayers::Auto {
            return Ok(false);
        }
        if let Err(error) = self.drop_weights() {
            tracing::warn!(%error, "the weights stay on the devices");
            return Ok(false);
        }
        tracing::warn!(
            devices = ?offload.devices,
            "no context could be made there: the processor computes the model"
        );
        let weights = self.source.load_on_processor(&self.options, progress)?;
        *self.weights.write() = Some(Arc::new(weights));
        Ok(true)
    }

    fn mtp(&self) -> MtpHeads {
        self.heads.clone()
    }

    fn offload(&self) -> Option<Offload> {
        self.weights().ok().and_then(|weights| weights.offload())
    }

    fn drop_weights(&self) -> Result<(), LoadError> {
        if self.vocabulary_only.get().is_none() {
            let vocabulary =
                self.source.load(Extent::VocabularyAlone, &mut |_| ControlFlow::Continue(()))?;
            self.vocabulary_only.get_or_init(|| Arc::new(vocabulary));
        }
        let weights = self.weights.write().take();
        drop(weights); // After the lock: freeing gigabytes takes a moment.
        Ok(())
    }
}

fn read_facts(weights: &Weights, path: &Path, options: &LlamaOptions) -> ModelFacts {
    let model = weights.as_ptr();
    let metadata = |key: &str| metadata(weights, key);
    let architecture = metadata("general.architecture").unwrap_or_default();
    let pooling = metadata(&format!("{architecture}.pooling_type"))
        .and_then(|value| params::pooling_name(&value));
    let is_causal = metadata(&format!("{architecture}.attention.causal")) != Some("false".into());
    let name = metadata("general.name")
        .unwrap_or_else(|| path.file_stem().unwrap_or_default().to_string_lossy().into_owned());
    // SAFETY: `model` is a loaded model; these calls read numbers and a string that it owns.
    unsafe {
        let text_of = |text: *const c_char| {
            (!text.is_null()).then(|| CStr::from_ptr(text).to_string_lossy().into_owned())
        };
        let memory = if sys::llama_model_is_recurrent(model) {
            MemoryKind::Recurrent
        } else if sys::llama_model_is_hybrid(model) {
            MemoryKind::Hybrid
        } else if sys::llama_model_n_swa(model) > 0 {
            MemoryKind::Windowed
        } else {
            MemoryKind::Plain
        };
        ModelFacts {
            name,
            trained_context: usize::try_from(sys::llama_model_n_ctx_train(model)).unwrap_or(0),
            parameters: sys::llama_model_n_params(model),
            size_bytes: sys::llama_model_size(model),
            chat_template: text_of(sys::llama_model_chat_template(model, std::ptr::null()))
                .map(named_template::in_jinja),
            tool_template: text_of(sys::llama_model_chat_template(model, c"tool_use".as_ptr())),
            embeds_in_parts: is_causal && pooling.as_deref() == Some("last"),
            pooling,
            rank_template: text_of(sys::llama_model_chat_template(model, c"rerank".as_ptr())),
            memory,
            rope: rope::read_rope(weights, path, memory, options),
            attention_tile: attention_tile(weights, memory, options),
            architecture,
        }
    }
}

/// The tile of a plain model that the processor computes; `None` with experts, because the cost of a row is not
/// known.
fn attention_tile(
    weights: &Weights,
    memory: MemoryKind,
    options: &LlamaOptions,
) -> Option<AttentionTile> {
    let metadata = |key: &str| metadata(weights, key);
    let architecture = metadata("general.architecture")?;
    let experts = metadata(&format!("{architecture}.expert_count"));
    let has_experts = experts.is_some_and(|count| count != "0");
    let [k, v] = options.cache_types();
    let takes_tiles = k == v && matches!(k, sys::GGML_TYPE_F16 | sys::GGML_TYPE_F32);
    if weights.offload().is_some() || !memory.is_plain() || has_experts || !takes_tiles {
        return None;
    }
    let model = weights.as_ptr();
    // SAFETY: `model` is a loaded model; these calls read numbers.
    let (layers, heads, embedding, parameters) = unsafe {
        (
            sys::llama_model_n_layer(model),
            sys::llama_model_n_head(model),
            sys::llama_model_n_embd(model),
            sys::llama_model_n_params(model),
        )
    };
    let head = metadata(&format!("{architecture}.attention.key_length"))
        .and_then(|length| length.parse().ok())
        .or_else(|| embedding.checked_div(heads))?;
    let q = usize::try_from(layers.checked_mul(heads)?.checked_mul(head)?).ok()?;
    (q > 0).then(|| AttentionTile::new(parameters, q))
}

fn read_vocabulary(weights: &Weights) -> Vocabulary {
    let vocab = weights.vocab();
    // SAFETY: `vocab` belongs to this model; every id asked for is below the vocabulary's size.
    unsafe {
        let known = |token: i32| (token >= 0).then_some(Token(token));
        let kinds = (0..sys::llama_vocab_n_tokens(vocab)).map(|id| {
            // "Unknown" stands for text that the vocabulary cannot write; no prompt may contain it.
            let unknown = sys::llama_vocab_get_attr(vocab, id) & sys::LLAMA_TOKEN_ATTR_UNKNOWN;
            let control = sys::llama_vocab_is_control(vocab, id) || unknown != 0;
            let end_of_generation = sys::llama_vocab_is_eog(vocab, id);
            (piece(vocab, id), TokenKind { control, end_of_generation })
        });
        Vocabulary::new(
            kinds,
            known(sys::llama_vocab_bos(vocab)),
            known(sys::llama_vocab_eos(vocab)),
            sys::llama_vocab_get_add_bos(vocab),
        )
        .with_pair_marks(PairMarks {
            sep: known(sys::llama_vocab_sep(vocab)).filter(|_| sys::llama_vocab_get_add_sep(vocab)),
            adds_eos: sys::llama_vocab_get_add_eos(vocab),
        })
    }
}

fn metadata(weights: &Weights, key: &str) -> Option<String> {
    let key = CString::new(key).ok()?;
    let mut buffer = vec![0u8; 256];
    // SAFETY: the buffer's length is passed along; llama.cpp ends what it writes with a NUL.
    let length = unsafe {
        sys::llama_model_meta_val_str(
            weights.as_ptr(),
            key.as_ptr(),
            buffer.as_mut_ptr().cast::<c_char>(),
            buffer.len(),
        )
    };
    usize::try_from(length).ok()?;
    CStr::from_bytes_until_nul(&buffer).ok().map(|text| text.to_string_lossy().into_owned())
}

/// The written form of a token.
///
/// # Safety
/// `vocab` must be alive and `id` below its size.
unsafe fn piece(vocab: *const sys::llama_vocab, id: i32) -> Vec<u8> {
    let mut buffer = vec![0u8; 32];
    loop {
        let room = i32::try_from(buffer.len()).expect("pieces are short");
        // SAFETY: the buffer is passed with its length; the rest is the caller's promise.
        let length = unsafe {
            let bytes = buffer.as_mut_ptr().cast::<c_char>();
            sys::llama_token_to_piece(vocab, id, bytes, room, 0, true)
        };
        if let Ok(length) = usize::try_from(length) {
            buffer.truncate(length);
            return buffer;
        }
        buffer.resize(length.unsigned_abs() as usize, 0);
    }
}

/// See [`crate::backend::build`].
pub fn build() -> Build {
    match start() {
        Ok(started) => Build {
            backends: placement::device_backends(),
            processor: started.processor.clone(),
            unused: processor::unused(),
        },
        Err(_) => Build::default(), // A load says why.
    }
}

/// llama.cpp, started.
struct Started {
    /// `None`: another part of the program has started it.
    _backend: Option<LlamaBackend>,
    /// What it uses of the processor.
    processor: Vec<String>,
}

/// Starts llama.cpp, once per process.
///
/// # Errors
/// [`LoadError::Processor`], [`LoadError::NoBackend`].
fn start() -> Result<&'static Started, LoadError> {
    static STARTED: OnceLock<Result<Started, LoadError>> = OnceLock::new();
    let started = STARTED.get_or_init(|| {
        check_processor()?;
        send_logs_to_tracing(LogOptions::default());
        // SAFETY: `report_abort` has the callback's signature, is valid for ever and only logs.
        unsafe { sys::ggml_set_abort_callback(Some(report_abort)) };
        backends::load()?;
        let backend = LlamaBackend::init().ok();
        let processor = backends::features();
        let (used, unused) = (processor.join(" "), processor::unused().join(" "));
        tracing::info!(processor = used, unused, "llama.cpp is started");
        Ok(Started { _backend: backend, processor })
    });
    started.as_ref().map_err(Clone::clone)
}

unsafe extern "C" fn report_abort(message: *const c_char) {
    if !message.is_null() {
        // SAFETY: ggml passes a NUL-terminated message that lives during the call.
        let message = unsafe { CStr::from_ptr(message) }.to_string_lossy();
        tracing::error!("{ABORTS} {message}");
    }
}

#[cfg(test)]
mod tests;
