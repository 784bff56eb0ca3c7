//! The seam to llama.cpp: a [`Model`] that anyone may share, and a [`Backend`] that one thread owns.
//!
//! - `llama` is the real one; all of the project's `unsafe` lies in it.
//! - `fake` is a deterministic stand-in whose KV is as unforgiving as the real one: a cell that is
//!   missing, foreign or at a wrong position changes every token that follows.
//! - Ranges are positions, half open, and proven by the caller: `start < end <= end of sequence`.
//! - `state` knows how llama.cpp lays out a sequence's state: off the engine's thread, the states of
//!   adjacent blocks become one.

pub mod fake;
#[cfg(feature = "llama")]
#[expect(unsafe_code, reason = "the one place that talks to C++")]
pub mod llama;
pub mod state;

use std::fmt;
use std::ops::Range;

use hob_slots::Token;

use crate::vocabulary::Vocabulary;

/// What a model's memory is made of, and so what can be done with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryKind {
    /// Plain attention: cells can be taken out, put back and shared by range.
    Plain,
    /// Some layers see a window alone: a rewind leaves less than a window behind.
    Windowed,
    /// Attention and a running state: only whole states can be put back.
    Hybrid,
    /// A running state alone.
    Recurrent,
}

impl MemoryKind {
    /// Whether KV can be handled in blocks. Otherwise it is handled in whole-state snapshots.
    pub fn is_plain(self) -> bool {
        self == Self::Plain
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

/// What is worth knowing of a loaded model.
#[derive(Clone, Debug)]
pub struct ModelFacts {
    /// The name that the file gives itself, or the file's own name.
    pub name: String,
    /// `general.architecture`.
    pub architecture: String,
    /// Tokens of context that the model was trained with.
    pub trained_context: usize,
    /// Number of weights.
    pub parameters: u64,
    /// Bytes of all tensors.
    pub size_bytes: u64,
    /// The model's own chat template, a Jinja text.
    pub chat_template: Option<String>,
    /// `mean`, `cls`, `last`, … for embedding models.
    pub pooling: Option<String>,
    /// What its memory is made of.
    pub memory: MemoryKind,
}

/// How large a context to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContextShape {
    /// Cells, shared by all sequences.
    pub context_tokens: usize,
    /// Sequences: slots, and one for splices.
    pub sequences: usize,
    /// Rows of one micro-batch at most.
    pub micro_batch: usize,
}

/// A sequence of the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sequence(pub i32);

/// One token of a micro-batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// What to compute.
    pub token: Token,
    /// Where it stands in its sequence.
    pub position: usize,
    /// Whose it is.
    pub sequence: Sequence,
    /// Whether [`Backend::logits`] will be asked for this row.
    pub wants_logits: bool,
}

/// The states of adjacent cells, put together into one: bringing it in walks the cache once for all
/// of them. See [`Model::append_state`].
#[derive(Debug, Default)]
pub struct JoinedState {
    bytes: Vec<u8>,
    room: usize,
    cells: usize,
    heads: Option<state::Heads>,
}

impl JoinedState {
    /// An empty one for `room` cells, in memory that was used before.
    pub fn with_room(room: usize, buffer: Vec<u8>) -> Self {
        Self { bytes: buffer, room, cells: 0, heads: None }
    }

    /// How many cells it holds.
    pub fn cells(&self) -> usize {
        self.cells
    }

    /// The state, once it is sealed.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The memory, for the next one.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

/// Why a micro-batch was not computed. Nothing of it is in the cache.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum DecodeError {
    /// Fewer free cells than rows: free some and try again.
    #[error("the cache has no room for {rows} more tokens")]
    NoRoom {
        /// Rows of the batch.
        rows: usize,
    },
    /// Anything else.
    #[error("llama.cpp could not compute the batch: {0}")]
    Failed(String),
}

/// Why a state was not taken or put back.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum StateError {
    /// The context wrote another number of bytes than it had announced.
    #[error("the state has {announced} bytes, {written} were written")]
    Export {
        /// Bytes announced.
        announced: usize,
        /// Bytes written.
        written: usize,
    },
    /// The bytes were refused, or there was no room. The sequence is empty now.
    #[error("the state of {bytes} bytes was refused")]
    Import {
        /// Bytes offered.
        bytes: usize,
    },
    /// Part of a sequence cannot be dropped with this kind of memory.
    #[error("a {0} memory cannot drop a part of a sequence")]
    Partial(MemoryKind),
}

/// Why a model could not be opened.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum LoadError {
    /// The file's content was refused.
    #[error("llama.cpp cannot load {path}: {reason}")]
    Model {
        /// The file.
        path: String,
        /// Why.
        reason: String,
    },
    /// The context could not be made.
    #[error(
        "cannot make a context of {context_tokens} tokens: there may be too little memory; start with a smaller --ctx"
    )]
    Context {
        /// Cells asked for.
        context_tokens: usize,
    },
    /// The weights are not in memory.
    #[error("the model's weights are not in memory")]
    NotResident,
    /// A setting that this build does not know.
    #[error("{name} = {value} is not known: choose one of {known}")]
    Setting {
        /// Which setting.
        name: &'static str,
        /// What it was.
        value: String,
        /// What it may be.
        known: &'static str,
    },
}

/// A model. What it says never changes, so everyone may hold it.
pub trait Model: Send + Sync {
    /// What is worth knowing of it.
    fn facts(&self) -> &ModelFacts;

    /// Its tokens.
    fn vocabulary(&self) -> &Vocabulary;

    /// Text to tokens. `add_special`: begin (and end) tokens, where the model wants them.
    /// `parse_special`: the written form of a control token becomes that token.
    fn tokenize(&self, text: &str, add_special: bool, parse_special: bool) -> Vec<Token>;

    /// Puts the cells of a state, whose bytes the caller has verified, behind those in `joined`.
    /// Returns whether they are there: where they cannot be, `joined` is as it was.
    fn append_state(&self, joined: &mut JoinedState, state: &[u8]) -> bool;

    /// Ends the joining: what was appended is a state now.
    fn seal_state(&self, joined: &mut JoinedState);

    /// Makes a context and lends it to `run`; it is gone when `run` returns.
    ///
    /// # Errors
    /// [`LoadError::Context`] when the context cannot be made; `run` is not called then.
    fn with_context(
        &self,
        shape: ContextShape,
        run: &mut dyn FnMut(&mut dyn Backend),
    ) -> Result<(), LoadError>;

    /// Brings the weights back into memory, if they are not there; `progress` hears how far that is,
    /// from 0 to 1.
    ///
    /// # Errors
    /// [`LoadError::Model`] when the file is gone, has changed or is refused.
    fn load_weights(&self, progress: &mut dyn FnMut(f32)) -> Result<(), LoadError>;

    /// Gives back the weights' memory, when the last context is gone. Facts, vocabulary and
    /// [`Model::tokenize`] stay.
    ///
    /// # Errors
    /// [`LoadError::Model`] when the file cannot be read again: then the weights stay.
    fn drop_weights(&self) -> Result<(), LoadError>;
}

/// A context: the cache and the computation. One thread owns it.
pub trait Backend {
    /// Cells, shared by all sequences.
    fn context_tokens(&self) -> usize;

    /// Computes `rows` in one micro-batch.
    ///
    /// # Errors
    /// See [`DecodeError`]; the cache is as it was before.
    fn decode(&mut self, rows: &[Row]) -> Result<(), DecodeError>;

    /// One logit a token of the vocabulary, of row `row` of the last batch, which wanted them.
    fn logits(&mut self, row: usize) -> &[f32];

    /// The position after the sequence's last cell; 0 when it is empty.
    fn end(&self, sequence: Sequence) -> usize;

    /// Lets `to` share the cells of `from` in `range`.
    fn share(&mut self, from: Sequence, to: Sequence, range: Range<usize>);

    /// Drops the sequence's cells in `range`; cells that others share stay theirs.
    ///
    /// # Errors
    /// [`StateError::Partial`] where the memory cannot; the sequence is then as before.
    fn remove(&mut self, sequence: Sequence, range: Range<usize>) -> Result<(), StateError>;

    /// Drops all of the sequence.
    fn clear(&mut self, sequence: Sequence);

    /// The state of the whole sequence, opaque. `buffer` is the memory to put it into; what it holds
    /// is lost.
    ///
    /// # Errors
    /// [`StateError::Export`] when llama.cpp contradicts itself.
    fn export(&mut self, sequence: Sequence, buffer: Vec<u8>) -> Result<Vec<u8>, StateError>;

    /// Replaces the sequence by an exported state, whose bytes the caller has verified.
    ///
    /// # Errors
    /// [`StateError::Import`]; the sequence is empty then.
    fn import(&mut self, sequence: Sequence, state: &[u8]) -> Result<(), StateError>;

    /// The pooled embedding of `tokens`, normalised to length 1.
    ///
    /// # Errors
    /// [`DecodeError::Failed`] for a model without pooling.
    fn embed(&mut self, tokens: &[Token]) -> Result<Vec<f32>, DecodeError>;
}
