//! The bytes of a file. No path, no clock, no policy.
//!
//! - [`Object`]: the KV of one block, or one snapshot. [`SlotRecord`]: the objects of a
//!   conversation. `docs/FORMAT.md` has the byte tables.
//! - Checksums cover every byte of a file, so no flipped, missing or appended byte passes.
//! - A reader checks in this order: magic, version, checksum of the header, fields, length of the
//!   file, checksum of the body. No allocation depends on an unverified length.
//! - Decoding does not check whether a file belongs where it was found: the reader of the directory
//!   does.

mod bytes;
mod chunks;
mod codec;
mod entries;
mod error;
mod object;
mod pack;
mod sealed;
mod slot;

pub(crate) use bytes::check_length;
pub use chunks::{CHUNK_BYTES, chunk_digest};
pub use entries::{BlockRef, BranchRef, SegmentRef, SnapshotRef};
pub use error::FormatError;
pub use object::{Object, ObjectHeader, ObjectKind};
pub use sealed::Seal;
pub use slot::{SlotHeader, SlotRecord, SlotTable};

#[cfg(test)]
mod tests;
