//! The bytes of a file. No path, no clock, no policy.
//!
//! - [`Object`]: the KV of one block, or one snapshot. [`SlotRecord`]: which objects make up a
//!   conversation. `docs/FORMAT.md` has the byte tables.
//! - Every byte of a file is under a checksum, so no flipped, missing or appended byte passes.
//! - A reader checks in this order: magic, version, the header's checksum, the fields, the file's
//!   length, the body's checksum. Nothing is allocated by a length that was not verified.
//! - What decodes is not trusted further than that: whether a file belongs where it was found is
//!   for the reader of the directory to say.

mod bytes;
mod chunks;
mod codec;
mod error;
mod object;
mod pack;
mod sealed;
mod slot;

pub(crate) use bytes::check_length;
pub use chunks::{CHUNK_BYTES, chunk_digest};
pub use error::FormatError;
pub use object::{Object, ObjectHeader, ObjectKind};
pub use sealed::Seal;
pub use slot::{BlockRef, SegmentRef, SlotHeader, SlotRecord, SlotTable, SnapshotRef};

#[cfg(test)]
mod tests;
