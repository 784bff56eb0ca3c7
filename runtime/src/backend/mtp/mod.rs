//! The seam to a model's MTP heads (multi-token prediction): layers of its file that predict further tokens.
//!
//! - A head computes a token together with the model's hidden state of the token before it, over KV of its own.
//!   So micro-batches keep the hidden states of the rows that the heads compute later.
//! - What the heads have not seen costs right guesses and nothing else: the model checks each guess.

mod trail;

use hob_slots::Token;

pub use trail::{Kept, Trail};

use super::{DecodeError, Sequence};

/// The MTP heads of a model's file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum MtpHeads {
    /// The file has none, or the options of the model leave them out.
    #[default]
    None,
    /// In memory with the weights.
    Loaded,
    Refused(NoMtp),
}

/// Why the heads of a file guess nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoMtp {
    #[error("Hob has no guesses of MTP heads of the architecture {0}")]
    Architecture(String),
    #[error("the file has {0} MTP heads, and guesses come from a single one")]
    Several(u32),
    #[error("its MTP head has no tensor {0}")]
    Tensor(String),
    #[error("its MTP head has one position for each token, and the model has several")]
    Axes,
    #[error("a trial of the file has failed with its MTP head alone: {0}")]
    Trial(String),
    #[error("llama.cpp loads the model without its MTP head only")]
    Load,
    #[error("llama.cpp made no context of the MTP head: there may be too little memory")]
    Context,
}

/// A row of guesses of a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GuessRow {
    pub sequence: Sequence,
    pub token: Token,
}

/// The heads of one context. In a list of rows, each sequence occurs once.
pub trait Mtp {
    /// Until the next call, micro-batches keep the hidden states of the rows of these sequences.
    fn follow(&mut self, sequences: &[Sequence]);

    /// How many rows of the sequence the heads keep and have not computed. `None`: they lack the hidden state of its last
    /// token, and guess nothing.
    fn lacks(&self, sequence: Sequence) -> Option<usize>;

    /// Computes the first `rows` of those that the sequence lacks.
    ///
    /// # Errors
    /// As [`Mtp::begin`].
    fn read(&mut self, sequence: Sequence, rows: usize) -> Result<(), DecodeError>;

    /// Drops earlier guesses of these sequences, computes what they lack, and the tokens behind their cells.
    ///
    /// # Errors
    /// See [`DecodeError`]. The heads have forgotten all sequences then.
    fn begin(&mut self, rows: &[GuessRow]) -> Result<(), DecodeError>;

    /// Computes the tokens behind those of the last [`Mtp::begin`] or `go_on`, in which these sequences had a row.
    ///
    /// # Errors
    /// As [`Mtp::begin`].
    fn go_on(&mut self, rows: &[GuessRow]) -> Result<(), DecodeError>;

    /// One logit for each token of the vocabulary: what follows the row `row` of the last [`Mtp::begin`] or
    /// [`Mtp::go_on`].
    fn logits(&mut self, row: usize) -> &mut [f32];
}
