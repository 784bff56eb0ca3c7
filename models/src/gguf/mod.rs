//! The header of a GGUF file.
//!
//! ```text
//! magic "GGUF" | version u32 | tensors u64 | entries u64          all little-endian
//! entries:  key (length u64, bytes) | type u32 | value
//! tensors:  name | dimensions u32 | each u64 | type u32 | offset u64
//! padding to `general.alignment` (32), then the tensors' bytes
//! ```
//!
//! - The reader checks counts and lengths against the size of the file before it allocates or
//!   loops, and refuses counts that no model has: reading a hostile header takes bounded memory.
//! - It counts and skips long arrays (a vocabulary), and returns the items of short ones.
//! - Every tensor of a valid header is inside the file.

mod cursor;
mod ggml;
mod header;
mod read;
mod value;

pub use ggml::GgmlType;
pub use header::{Header, Tensor};
pub use read::read;
pub use value::{Array, Value};
