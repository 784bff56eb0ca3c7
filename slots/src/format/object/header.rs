//! The header of an object, of every version.

use std::ops::Range;

use xxhash_rust::xxh3::xxh3_128;

use crate::format::FormatError;
use crate::format::bytes::{Fields, version};
use crate::format::chunks::{checksum_of, chunk_digest, chunks};
use crate::format::pack::most_unpacked;
use crate::id::{BlockId, ModelHash};

const MAGIC: &[u8; 8] = b"HOBOBJ\0\x01";
const WHAT: &str = "object";

/// Offsets of the fields, the same in both versions up to `PAYLOAD_BYTES`.
mod at {
    pub const KIND: usize = 10;
    pub const ENCODING: usize = 11;
    pub const START: usize = 12;
    pub const MODEL: usize = 16;
    pub const PARENT: usize = 24;
    pub const TOKENS: usize = 56;
    pub const RESERVED: usize = 60;
    pub const PAYLOAD_BYTES: usize = 64;
    pub const STORED_BYTES: usize = 72;
    pub const BODY_CHECKSUM: usize = 80;
    pub const HEADER_CHECKSUM: usize = 96;
    pub const END: usize = 104;
}

/// Version 1 has no stored length, and one checksum over the whole body.
mod at_v1 {
    pub const BODY_CHECKSUM: usize = 72;
    pub const HEADER_CHECKSUM: usize = 88;
    pub const END: usize = 96;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ObjectKind {
    /// The KV of a block's tokens.
    Block,
    /// The whole state of a sequence at one position.
    Snapshot,
    /// What the blocks do not hold of a sequence at one position: windows and running states.
    Partial,
    /// A block whose KV was rounded, see [`lossy`](crate::lossy).
    Lossy,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObjectHeader {
    pub kind: ObjectKind,
    pub model: ModelHash,
    /// See [`Object::parent`](super::Object::parent).
    pub parent: BlockId,
    /// See [`Object::start`](super::Object::start).
    pub start: u32,
    pub tokens: u32,
    pub payload_bytes: u64,
    /// Less than `payload_bytes` when compressed.
    pub stored_bytes: u64,
    pub(super) version: u16,
    pub(super) encoding: Encoding,
    pub(super) body_checksum: BodyChecksum,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Encoding {
    Raw,
    /// Compressed, with the high bytes before the low ones.
    Planes,
}

/// The checksum of the tokens and the stored payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BodyChecksum {
    /// The checksum of the whole body: version 1.
    Whole(u128),
    /// The checksum of the digests of the chunks.
    Chunked(u128),
}

impl ObjectHeader {
    /// The length of the header; older versions have no longer one.
    pub const BYTES: usize = at::END;

    /// The latest version. An object is written in the first version that has its kind.
    pub(super) const VERSION: u16 = 4;

    /// Decodes and verifies the header alone.
    pub fn decode(file: &[u8]) -> Result<Self, FormatError> {
        match version(file, WHAT, MAGIC, Self::VERSION, at::END)? {
            1 => {
                let fields = Fields::<{ at_v1::END }>::first(file)?;
                fields.verify(at_v1::HEADER_CHECKSUM, &[])?;
                let checksum = BodyChecksum::Whole(fields.u128(at_v1::BODY_CHECKSUM));
                Self::read(&fields, 1, at::PAYLOAD_BYTES, checksum)
            }
            version => {
                let fields = Fields::<{ at::END }>::first(file)?;
                fields.verify(at::HEADER_CHECKSUM, &[])?;
                let checksum = BodyChecksum::Chunked(fields.u128(at::BODY_CHECKSUM));
                Self::read(&fields, version, at::STORED_BYTES, checksum)
            }
        }
    }

    fn read<const N: usize>(
        fields: &Fields<N>,
        version: u16,
        stored_bytes_at: usize,
        body_checksum: BodyChecksum,
    ) -> Result<Self, FormatError> {
        fields.expect_zero("reserved", fields.u32(at::RESERVED))?;
        let (kind, tokens) = (ObjectKind::from_code(fields.u8(at::KIND))?, fields.u32(at::TOKENS));
        let is_first = matches!(kind, ObjectKind::Block | ObjectKind::Snapshot); // In all versions.
        if version < kind.version() && !is_first {
            return Err(FormatError::Field { field: "kind", value: kind.code().into() });
        }
        if kind.has_tokens() == (tokens == 0) {
            return Err(FormatError::Field { field: "tokens", value: tokens.into() });
        }
        let payload_bytes = fields.length("payload bytes", at::PAYLOAD_BYTES)?;
        let stored_bytes = fields.length("stored bytes", stored_bytes_at)?;
        let encoding = match (fields.u8(at::ENCODING), version) {
            (0, _) if stored_bytes != payload_bytes => {
                return Err(FormatError::Field { field: "stored bytes", value: stored_bytes });
            }
            (0, _) => Encoding::Raw,
            // Reading it would take memory for what a file of any length claims to unpack to.
            (1, 2..) if payload_bytes > most_unpacked(stored_bytes) => {
                return Err(FormatError::Field { field: "payload bytes", value: payload_bytes });
            }
            (1, 2..) => Encoding::Planes,
            (other, _) => {
                return Err(FormatError::Field { field: "encoding", value: other.into() });
            }
        };
        Ok(Self {
            version,
            kind,
            model: ModelHash(fields.get(at::MODEL)),
            parent: BlockId(fields.get(at::PARENT)),
            start: fields.u32(at::START),
            tokens,
            encoding,
            payload_bytes,
            stored_bytes,
            body_checksum,
        })
    }

    pub(super) fn encode(&self) -> [u8; Self::BYTES] {
        let BodyChecksum::Chunked(body_checksum) = self.body_checksum else {
            unreachable!("new files are hashed in chunks");
        };
        let mut header = Fields::<{ at::END }>::zeroed(MAGIC, self.version);
        header.put(at::KIND, &[self.kind.code()]);
        header.put(at::ENCODING, &[u8::from(self.is_compressed())]);
        header.put(at::START, &self.start.to_le_bytes());
        header.put(at::MODEL, &self.model.0);
        header.put(at::PARENT, &self.parent.0);
        header.put(at::TOKENS, &self.tokens.to_le_bytes());
        header.put(at::PAYLOAD_BYTES, &self.payload_bytes.to_le_bytes());
        header.put(at::STORED_BYTES, &self.stored_bytes.to_le_bytes());
        header.put(at::BODY_CHECKSUM, &body_checksum.to_le_bytes());
        let checksum = header.checksum(at::HEADER_CHECKSUM, &[]);
        header.put(at::HEADER_CHECKSUM, &checksum.to_le_bytes());
        header.0
    }

    pub fn file_bytes(&self) -> u64 {
        self.bytes() as u64 + 4 * u64::from(self.tokens) + self.stored_bytes
    }

    pub fn is_compressed(&self) -> bool {
        self.encoding == Encoding::Planes
    }

    /// The parts of the file to hash, each with [`chunk_digest`], for
    /// [`Object::from_checked`](super::Object::from_checked). All but the first begin, and all but
    /// the last end, at a multiple of [`CHUNK_BYTES`](crate::format::CHUNK_BYTES).
    pub fn chunks(&self) -> impl Iterator<Item = Range<u64>> + use<> {
        chunks(self.bytes() as u64..self.file_bytes())
    }

    pub(super) fn bytes(&self) -> usize {
        if self.version == 1 { at_v1::END } else { at::END }
    }

    pub(super) fn verify_body(&self, file: &[u8]) -> Result<(), FormatError> {
        match self.body_checksum {
            BodyChecksum::Whole(expected) => agree(xxh3_128(&file[self.bytes()..]), expected),
            BodyChecksum::Chunked(_) => {
                let part = |chunk: Range<u64>| &file[chunk.start as usize..chunk.end as usize];
                self.verify_digests(self.chunks().map(|chunk| chunk_digest(part(chunk))))
            }
        }
    }

    pub(super) fn verify_digests(
        &self,
        digests: impl Iterator<Item = u128>,
    ) -> Result<(), FormatError> {
        let (BodyChecksum::Whole(expected) | BodyChecksum::Chunked(expected)) = self.body_checksum;
        agree(checksum_of(digests), expected)
    }
}

fn agree(found: u128, expected: u128) -> Result<(), FormatError> {
    if found == expected { Ok(()) } else { Err(FormatError::Checksum { part: "body" }) }
}

impl ObjectKind {
    /// Part of the file formats.
    pub(in crate::format) fn code(self) -> u8 {
        match self {
            Self::Block => 1,
            Self::Snapshot => 2,
            Self::Partial => 3,
            Self::Lossy => 4,
        }
    }

    /// The version in which objects of this kind are written.
    pub(super) fn version(self) -> u16 {
        match self {
            Self::Block | Self::Snapshot => 2,
            Self::Partial => 3,
            Self::Lossy => 4,
        }
    }

    /// Whether it is of a block's tokens.
    pub fn has_tokens(self) -> bool {
        matches!(self, Self::Block | Self::Lossy)
    }

    /// The kind that a slot file has for it: names tell whole snapshots from partial ones, and views rounded
    /// blocks from others.
    #[must_use]
    pub fn in_slot_file(self) -> Self {
        if self.has_tokens() { Self::Block } else { Self::Snapshot }
    }

    pub(in crate::format) fn from_code(code: u8) -> Result<Self, FormatError> {
        match code {
            1 => Ok(Self::Block),
            2 => Ok(Self::Snapshot),
            3 => Ok(Self::Partial),
            4 => Ok(Self::Lossy),
            other => Err(FormatError::Field { field: "kind", value: other.into() }),
        }
    }
}
