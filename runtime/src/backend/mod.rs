//! The seam to llama.cpp: a [`Model`] that anyone may share, and a [`Backend`] that one thread
//! owns.
//!
//! - `llama` is the real one; all of the project's `unsafe` is in it, but for a call in `lossy` and one in `heap`.
//! - `fake` is a deterministic stand-in: a cell that is missing, foreign or at a wrong position
//!   changes every token that follows.
//! - Ranges are half-open positions, checked by the caller: `start < end <= end of sequence`.
//! - `state` knows llama.cpp's layout of a sequence's state, and joins the states of adjacent
//!   blocks off the engine's thread. `rotate` moves its cells to other positions there, `lossy` rounds its
//!   numbers.

pub mod deviation;
mod device;
pub mod fake;
pub mod heap;
#[cfg(feature = "llama")]
#[expect(unsafe_code, reason = "the one place that talks to C++")]
pub mod llama;
pub mod lossy;
pub mod mtp;
mod numbers;
pub mod rotate;
pub mod state;
pub mod tile;

use std::fmt;
use std::ops::{ControlFlow, Range};
use std::sync::Arc;

use hob_slots::{Lossy, Token};

pub use device::{Build, Device, Offload, build, devices};
pub use lossy::Unrounded;
pub use mtp::{GuessRow, Mtp, MtpHeads, NoMtp};
pub use rotate::{Immovable, Rope};
pub use state::JoinedState;
pub use tile::AttentionTile;

use crate::adapters::{AdapterFile, Adapters};
use crate::heartbeat::Heartbeat;
use crate::vocabulary::Vocabulary;

/// The kind of a model's memory, which decides what can be done with its cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryKind {
    /// Plain attention: ranges of cells can be exported, imported and shared.
    Plain,
    /// Some layers attend only to a window: after a rewind they would have less than that.
    Windowed,
    /// Attention and a running state, which cannot go back.
    Hybrid,
    /// Only a running state.
    Recurrent,
}

impl MemoryKind {
    /// Whether blocks are all that is saved. Other memories need a snapshot at the position where a
    /// sequence continues.
    pub fn is_plain(self) -> bool {
        self == Self::Plain
    }

    /// Whether the newest micro-batch, or its last rows, can be dropped without loss: a running state
    /// has changed already, while cells are dropped, and a window reuses only cells that it had passed
    /// before the micro-batch.
    pub fn can_drop_newest(self) -> bool {
        matches!(self, Self::Plain | Self::Windowed)
    }
}

impl fmt::Display for MemoryKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Plain => "plain",
            Self::Windowed => "sliding-window",
            Self::Hybrid => "hybrid",
            Self::Recurrent => "recurrent",
        })
    }
}

/// The pooling of a model that scores a text for a query.
pub const RANK: &str = "rank";

#[derive(Clone, Debug)]
pub struct ModelFacts {
    /// The name that the file gives itself, or the file's own name.
    pub name: String,
    /// `general.architecture`.
    pub architecture: String,
    /// Tokens of context that the model was trained with.
    pub trained_context: usize,
    pub parameters: u64,
    /// Size of all tensors.
    pub size_bytes: u64,
    /// In Jinja; that of the options, else that of the file.
    pub chat_template: Option<String>,
    /// In place of `chat_template` for prompts with tools, where the file has such a template and the options
    /// have none.
    pub tool_template: Option<String>,
    /// `mean`, `cls`, `last`, … for embedding models, [`RANK`] for rerankers.
    pub pooling: Option<String>,
    /// The prompt of a reranker, with `{query}` and `{document}` in it, where its file has one.
    pub rank_template: Option<String>,
    /// Whether a text may be embedded in several micro-batches: its last token, which attends to all
    /// others, is its embedding. Another model pools the tokens of one micro-batch.
    pub embeds_in_parts: bool,
    pub memory: MemoryKind,
    /// How K is moved to other positions.
    pub rope: Result<Rope, Immovable>,
    /// `None` where attention is not known to take tiles.
    pub attention_tile: Option<AttentionTile>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContextShape {
    /// Cells, shared by all sequences.
    pub context_tokens: usize,
    /// Slots, and the scratch sequence for splices.
    pub sequences: usize,
    /// Maximum rows of one micro-batch.
    pub micro_batch: usize,
}

/// A sequence of the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sequence(pub i32);

/// One token of a micro-batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    pub token: Token,
    pub position: usize,
    pub sequence: Sequence,
    /// Whether [`Backend::logits`] will be asked for this row.
    pub wants_logits: bool,
}

/// Why a micro-batch was not computed. Nothing of it is in the cache.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum DecodeError {
    /// Fewer free cells than rows: free some and try again.
    #[error("the cache has no room for {rows} more tokens")]
    NoRoom { rows: usize },
    #[error("llama.cpp could not compute the batch: {0}")]
    Failed(String),
    /// The heartbeat told the backend to end the micro-batch.
    #[error("the micro-batch was interrupted")]
    Interrupted,
}

#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum StateError {
    /// The context wrote another number of bytes than it had announced.
    #[error("the state has {announced} bytes, {written} were written")]
    Export { announced: usize, written: usize },
    /// The bytes were refused, or there was no room. The sequence is empty now.
    #[error("the state of {bytes} bytes was refused")]
    Import { bytes: usize },
    #[error("a {0} memory cannot drop a part of a sequence")]
    Partial(MemoryKind),
}

#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum LoadError {
    #[error("llama.cpp cannot load {path}: {reason}")]
    Model { path: String, reason: String },
    #[error(
        "cannot make a context of {context_tokens} tokens{}: there may be too little memory; start with a smaller --ctx{}",
        beside.as_ref().map_or(String::new(), |layers| format!(" beside {layers}")),
        if beside.is_some() { ", or with fewer --gpu-layers" } else { "" },
    )]
    Context {
        context_tokens: usize,
        /// The layers on devices.
        beside: Option<String>,
    },
    #[error("the device {name} is not here: {}", others(known))]
    Device { name: String, known: Vec<String> },
    #[error(
        "llama.cpp has no backend for this processor: no libggml-cpu-*.so that it can run is in {dirs}; install Hob again with all its files"
    )]
    NoBackend { dirs: String },
    #[error(
        "this build computes with instructions of newer processors than this one, which is without {missing}: run the hobd of an archive that `cargo xtask bundle --headless` makes, which chooses at its start what the processor can run"
    )]
    Processor { missing: String },
    #[error("cannot add the adapter {path} to the model: {reason}; correct the setting {setting}")]
    Adapter {
        path: String,
        reason: String,
        /// Names the file.
        setting: &'static str,
    },
    #[error("the model's weights are not in memory")]
    NotResident,
    #[error("loading {path} was interrupted")]
    Interrupted { path: String },
    #[error("{name} = {value} is not known: choose one of {known}")]
    Setting { name: &'static str, value: String, known: &'static str },
}

impl LoadError {
    /// The error of an adapter that a request names.
    pub(crate) fn adapter(file: &AdapterFile, reason: &str) -> Self {
        let (path, reason) = (file.path.display().to_string(), reason.to_owned());
        Self::Adapter { path, reason, setting: "adapters" }
    }
}

fn others(known: &[String]) -> String {
    if known.is_empty() {
        return "this machine has none that this build can use; leave the setting `device` out, or build \
                with `cargo xtask run --gpu cuda` or `--gpu vulkan`"
            .to_owned();
    }
    format!("set `device` to {}", known.join(" or "))
}

/// Called with 0 to 1 while weights load; breaks to interrupt the load.
pub type Progress<'a> = dyn FnMut(f32) -> ControlFlow<()> + 'a;

/// A model. Immutable but for its weights, so any thread may share it.
pub trait Model: Send + Sync {
    fn facts(&self) -> &ModelFacts;

    fn vocabulary(&self) -> &Vocabulary;

    /// Text to tokens. `add_special`: begin (and end) tokens, where the model wants them.
    /// `parse_special`: the written form of a control token becomes that token.
    fn tokenize(&self, text: &str, add_special: bool, parse_special: bool) -> Vec<Token>;

    /// Appends the cells of `state`, whose bytes the caller has verified, to `joined`. Returns
    /// `false`, and leaves `joined` as it was, where the states cannot be joined.
    fn append_state(&self, joined: &mut JoinedState, state: &[u8]) -> bool;

    /// Makes one state of what was appended.
    fn seal_state(&self, joined: &mut JoinedState);

    /// The cells of `state`, whose bytes the caller has verified, at the positions `wanted`, moved by `delta`
    /// positions. `None` where it does not hold these, or [`ModelFacts::rope`] is an error.
    fn move_state(&self, state: &[u8], wanted: &Range<usize>, delta: i64) -> Option<Vec<u8>>;

    /// A block's `state`, rounded to have fewer bytes. [`lossy::is_rounded`] tells such bytes from a state.
    ///
    /// # Errors
    /// Why it stays as it is.
    fn round_state(&self, state: &[u8], lossy: Lossy) -> Result<Vec<u8>, Unrounded>;

    /// The state that was rounded, with its numbers as they are now, written over `buffer`; `None` where
    /// [`Model::round_state`] has not made these bytes.
    fn state_of_rounded(&self, rounded: &[u8], buffer: Vec<u8>) -> Option<Vec<u8>>;

    /// Makes a context, passes it to `run` once, and frees it.
    ///
    /// # Errors
    /// [`LoadError::Context`] when the context cannot be made; `run` is not called then.
    fn with_context(
        &self,
        shape: ContextShape,
        run: &mut dyn FnMut(&mut dyn Backend),
    ) -> Result<(), LoadError>;

    /// Loads the weights, if they are not in memory; calls `progress` with 0 to 1, and ends early
    /// when it breaks.
    ///
    /// # Errors
    /// [`LoadError::Model`] when the file is gone, has changed or is refused;
    /// [`LoadError::Interrupted`].
    fn load_weights(&self, progress: &mut Progress<'_>) -> Result<(), LoadError>;

    /// After a [`LoadError::Context`]: where the devices of the layers were chosen, frees the weights and loads them
    /// for the processor alone. Returns `false` otherwise, and then nothing has changed. Calls `progress` as
    /// [`Model::load_weights`] does, which chooses anew.
    ///
    /// # Errors
    /// As [`Model::load_weights`]; the weights are not in memory then.
    fn leave_devices(&self, _: &mut Progress<'_>) -> Result<bool, LoadError> {
        Ok(false)
    }

    /// The layers and KV on devices; `None` where the processor computes all, and without weights.
    fn offload(&self) -> Option<Offload> {
        None
    }

    /// The MTP heads of the model's file. Where they are loaded, each context has [`Backend::mtp`], if there is memory
    /// for it.
    fn mtp(&self) -> MtpHeads {
        MtpHeads::None
    }

    /// Whether KV is in the memory of devices.
    fn kv_on_devices(&self) -> bool {
        self.offload().is_some_and(|offload| offload.kv)
    }

    /// Frees the weights as soon as the last context is gone. Facts, vocabulary and
    /// [`Model::tokenize`] stay usable.
    ///
    /// # Errors
    /// [`LoadError::Model`] when the file cannot be read again: then the weights stay.
    fn drop_weights(&self) -> Result<(), LoadError>;
}

/// A llama.cpp context: the cache and the computation. One thread owns it.
pub trait Backend {
    /// Cells, shared by all sequences.
    fn context_tokens(&self) -> usize;

    /// Reports the progress within each later micro-batch there, and interrupts one when told to.
    fn report_to(&mut self, heartbeat: Arc<Heartbeat>);

    /// Whether a micro-batch is interrupted soon after the heartbeat says so.
    fn can_interrupt(&self) -> bool;

    /// Computes `rows` in one micro-batch.
    ///
    /// # Errors
    /// See [`DecodeError`]; the cache is as it was before. Only of [`DecodeError::Interrupted`] and
    /// [`DecodeError::Failed`], and where not [`MemoryKind::can_drop_newest`], the sequences of `rows` hold a part: they
    /// must be cleared. Others that share their cells keep them as they were.
    fn decode(&mut self, rows: &[Row]) -> Result<(), DecodeError>;

    /// Computes later micro-batches with these adapters and those of the model, and with no others. Cells
    /// stay as they are.
    ///
    /// # Errors
    /// [`LoadError::Adapter`] for a file that is gone, has changed or does not fit; nothing has changed
    /// then.
    fn set_adapters(&mut self, adapters: &Adapters) -> Result<(), LoadError>;

    /// One logit for each token of the vocabulary, for row `row` of the last batch, which wanted
    /// them. The next call returns what the caller leaves in them.
    fn logits(&mut self, row: usize) -> &mut [f32];

    /// The position after the sequence's last cell; 0 when it is empty.
    fn end(&self, sequence: Sequence) -> usize;

    /// Shares the cells of `from` in `range` with `to`. Of a running state it shares the present one,
    /// also where it is none.
    fn share(&mut self, from: Sequence, to: Sequence, range: Range<usize>);

    /// Drops the sequence's cells in `range`; other sequences keep the cells that they share.
    ///
    /// # Errors
    /// [`StateError::Partial`] where the memory cannot; the sequence is as before. Never for the last
    /// rows of the newest micro-batch where [`MemoryKind::can_drop_newest`].
    fn remove(&mut self, sequence: Sequence, range: Range<usize>) -> Result<(), StateError>;

    fn clear(&mut self, sequence: Sequence);

    /// The opaque state of the whole sequence, written over `buffer`.
    ///
    /// # Errors
    /// [`StateError::Export`] when llama.cpp writes another number of bytes than it announced.
    fn export(&mut self, sequence: Sequence, buffer: Vec<u8>) -> Result<Vec<u8>, StateError>;

    /// Replaces the sequence by an exported state, whose bytes the caller has verified.
    ///
    /// # Errors
    /// [`StateError::Import`]; the sequence is empty then.
    fn import(&mut self, sequence: Sequence, state: &[u8]) -> Result<(), StateError>;

    /// Whether ranges of cells are exported and imported: of a memory that is not plain, its full
    /// attention, beside which the *rest* (windows, running states) is exported as a whole.
    fn has_ranges(&self) -> bool;

    /// The cells of a sequence, without the rest; written over `buffer`.
    ///
    /// # Errors
    /// [`StateError::Export`].
    fn export_cells(&mut self, sequence: Sequence, buffer: Vec<u8>) -> Result<Vec<u8>, StateError>;

    /// Replaces an empty sequence by exported cells at the positions `held`. Of a memory with a
    /// rest, the sequence has none then: [`Backend::share`] is all that may follow.
    ///
    /// # Errors
    /// [`StateError::Import`] also where the state holds other positions; the sequence is empty then.
    fn import_cells(
        &mut self,
        sequence: Sequence,
        state: &[u8],
        held: &Range<usize>,
    ) -> Result<(), StateError>;

    /// What is not exported as ranges: the rest; without ranges, the whole state.
    ///
    /// # Errors
    /// [`StateError::Export`].
    fn export_rest(&mut self, sequence: Sequence) -> Result<Vec<u8>, StateError>;

    /// Gives the sequence an exported rest of its first `end` tokens, and drops its cells after them.
    ///
    /// # Errors
    /// [`StateError::Import`]; the sequence is empty then.
    fn rewind(&mut self, sequence: Sequence, rest: &[u8], end: usize) -> Result<(), StateError>;

    /// The positions of the sequence's cells, in order. `None`: only an export would tell.
    fn positions(&self, _: Sequence) -> Option<Vec<usize>> {
        None
    }

    /// The model's MTP heads, which guess. They follow the sequences as these change.
    fn mtp(&mut self) -> Option<&mut dyn Mtp> {
        None
    }

    /// The pooled embedding of `tokens`, normalised to length 1; of a reranker, its scores as they are, the
    /// first of which counts.
    ///
    /// # Errors
    /// [`DecodeError::Failed`] for a model without pooling.
    fn embed(&mut self, tokens: &[Token]) -> Result<Vec<f32>, DecodeError>;
}
