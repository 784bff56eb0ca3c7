//! Finds the GGUF models on this machine, reads their headers and estimates their memory.
//!
//! - Writes only below the given data directory; downloads nothing.
//! - Validates a model before llama.cpp loads it: llama.cpp answers a bad file with an abort or a
//!   page of log, this crate with one line that names the file and the remedy.
//!
//! Reading order: [`gguf`] reads a file's header; [`summary`] interprets it; [`discover`] finds the
//! models of other programs; [`resolve`] turns a name or a path into a model; [`fit`] estimates its
//! memory, and [`context`] chooses its context, whose largest tensor `largest_tensor` measures;
//! [`hash`] identifies its content, [`probed`] remembers what a trial of it found; [`sampling`] reads
//! the parameters that it recommends, and `cards` has those that its authors recommend elsewhere;
//! [`published`] describes the model that Hob can fetch, [`recommended`] those for a first chat, with
//! the [`speed`] of this machine.

#[cfg(feature = "bundled")]
pub mod bundled;
mod cards;
pub mod context;
pub mod discover;
mod ending;
pub mod error;
pub mod fit;
pub mod gguf;
pub mod hash;
mod largest_tensor;
pub mod memory;
pub mod model;
pub mod probed;
pub mod published;
pub mod recommended;
pub mod resolve;
pub mod sampling;
pub mod shards;
pub mod source;
pub mod speed;
pub mod summary;
#[cfg(test)]
mod testing;

pub use context::{Available, ChosenContext, ContextSettings, Limit};
pub use discover::{Discovery, Roots, discover};
pub use error::{GgufError, ModelError};
pub use fit::{Demand, Estimate, Verdict};
pub use gguf::{GgmlType, Header};
pub use hash::{ContentHash, HashCache, Progress};
pub use largest_tensor::LargeTensor;
pub use memory::MachineMemory;
pub use model::ModelFile;
pub use probed::ProbeCache;
pub use resolve::resolve;
pub use sampling::SamplingEntry;
pub use source::Source;
pub use summary::{MemoryKind, Summary};
