//! Which GGUF models are on this machine, what is in them and what they would cost.
//!
//! - Reads, never writes, outside the data directory it is given; downloads nothing.
//! - A model is validated before anybody loads it: llama.cpp answers a bad file with an abort or a
//!   page of log, this crate with one line that names the file and the remedy.
//!
//! Reading order: [`gguf`] reads a file's header; [`summary`] says what the header means;
//! [`discover`] finds models where other programs keep them; [`resolve`] turns a name or a path
//! into a model; [`fit`] estimates its memory; [`hash`] names its content.

#[cfg(feature = "bundled")]
pub mod bundled;
pub mod discover;
pub mod error;
pub mod fit;
pub mod gguf;
pub mod hash;
pub mod memory;
pub mod model;
pub mod resolve;
pub mod shards;
pub mod summary;
#[cfg(test)]
mod testing;

pub use discover::{Discovery, Roots, Source, discover};
pub use error::{GgufError, ModelError};
pub use fit::{Demand, Estimate, Verdict};
pub use gguf::{GgmlType, Header};
pub use hash::{ContentHash, HashCache, Progress};
pub use memory::MachineMemory;
pub use model::ModelFile;
pub use resolve::resolve;
pub use summary::{MemoryKind, Summary};
