//! The header of a GGUF file.
//!
//! ```text
//! magic "GGUF" | version u32 | tensors u64 | entries u64          all little-endian
//! entries:  key (length u64, bytes) | type u32 | value
//! tensors:  name | dimensions u32 | each u64 | type u32 | offset u64
//! padding to `general.alignment` (32), then the tensors' bytes
//! ```
//!
//! - Counts and lengths are taken on trust only as far as the file is long: nothing is allocated
//!   for what a hostile header claims, and no claim makes the reader run longer than the file.
//! - Long arrays (a vocabulary) are counted and skipped; short ones are kept.
//! - A header that reads well proves that every tensor lies inside the file.

mod cursor;
mod ggml;
mod read;
mod value;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader};
use std::path::Path;

pub use ggml::GgmlType;
pub use read::read;
pub use value::{Array, Value};

use crate::error::ModelError;

/// A GGUF file's header.
#[derive(Clone, Debug)]
pub struct Header {
    /// Version of the format: 2 or 3.
    pub version: u32,
    /// The key-value entries.
    pub metadata: BTreeMap<String, Value>,
    /// The tensors, in the file's order.
    pub tensors: Vec<Tensor>,
    /// Size of the whole file.
    pub file_bytes: u64,
}

/// Where a tensor is and what it is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tensor {
    /// Its name, such as `blk.0.attn_k.weight`.
    pub name: String,
    /// Its dimensions, fastest first.
    pub dimensions: Vec<u64>,
    /// The type of its elements.
    pub kind: GgmlType,
    /// Where it starts in the file.
    pub offset: u64,
    /// Its size.
    pub bytes: u64,
}

impl Header {
    /// Reads the header of the file at `path`.
    pub fn open(path: &Path) -> Result<Self, ModelError> {
        let unreadable = |source: io::Error| match source.kind() {
            io::ErrorKind::NotFound => ModelError::Missing { path: path.to_owned() },
            _ => ModelError::Unreadable { path: path.to_owned(), source },
        };
        let file = File::open(path).map_err(unreadable)?;
        let facts = file.metadata().map_err(unreadable)?;
        if !facts.is_file() {
            let source = io::Error::new(io::ErrorKind::IsADirectory, "it is not a file");
            return Err(ModelError::Unreadable { path: path.to_owned(), source });
        }
        let invalid = |source| ModelError::Invalid { path: path.to_owned(), source };
        read(BufReader::with_capacity(1 << 16, file), facts.len()).map_err(invalid)
    }

    /// The entry of that name as text.
    pub fn text(&self, key: &str) -> Option<&str> {
        self.metadata.get(key).and_then(Value::as_text)
    }

    /// The entry of that name as a number that is not negative.
    pub fn number(&self, key: &str) -> Option<u64> {
        self.metadata.get(key).and_then(Value::as_number)
    }

    /// Bytes of all tensors.
    pub fn tensor_bytes(&self) -> u64 {
        self.tensors.iter().map(|tensor| tensor.bytes).fold(0, u64::saturating_add)
    }
}
