//! An object: the KV of one block, or one snapshot.
//!
//! - It contains the input of its name's hash, so a reader can verify the name.
//! - Decoding keeps the buffer of the file: the payload is a range of it. A compressed payload is
//!   unpacked into its own buffer after the stored bytes were verified.
//! - Two files of one object may differ in version and encoding, never in content.

mod header;

pub use header::{ObjectHeader, ObjectKind};

use super::FormatError;
use super::bytes::{check_length, token_bytes, tokens_from};
use super::chunks::BodyHash;
use super::pack::{Arrangement, most_unpacked, pack, unpack};
use crate::id::{BlockId, ModelHash, Token};
use crate::payload::Payload;
use header::{BodyChecksum, Encoding};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    pub kind: ObjectKind,
    pub model: ModelHash,
    /// For a block: the block before it. For a snapshot: the name of the timeline at its position.
    pub parent: BlockId,
    /// For a block: the position of its first token. For a snapshot: its position.
    pub start: u32,
    /// A block's tokens; a snapshot has none.
    pub tokens: Vec<Token>,
    /// The state that llama.cpp wrote; of [`ObjectKind::Lossy`], what the runtime has made of it.
    pub payload: Payload,
}

impl Object {
    /// The level for [`Object::compressed`]. Higher ones save nothing more and lower ones nothing at
    /// all; 1 and 2 save as much, but the small matches that they find are slow to put back.
    ///
    /// `cargo run --release --example compression_levels`, in MB/s of one core: 64-token blocks
    /// that llama.cpp wrote for a model with random weights in the shape of Qwen2.5-0.5B / 16-bit
    /// floats made as the example describes.
    ///
    /// | level | bytes left | compress | decompress and verify |
    /// |---|---|---|---|
    /// | -20 to -1 | 1.000 / 1.000 | 540 / 600 | (raw) |
    /// | 1 | 0.847 / 0.884 | 470 / 480 | 620 / 650 |
    /// | 2 | 0.847 / 0.884 | 450 / 560 | 620 / 1,610 |
    /// | 3 | 0.846 / 0.884 | 370 / 610 | 1,680 / 1,540 |
    /// | 5 | 0.846 / 0.884 | 470 / 570 | 1,690 / 1,490 |
    /// | 9 | 0.846 / 0.884 | 350 / 390 | 1,790 / 1,610 |
    pub const COMPRESSION_LEVEL: i32 = 3;

    pub fn id(&self) -> BlockId {
        match self.kind {
            ObjectKind::Block | ObjectKind::Lossy => BlockId::child(self.parent, &self.tokens),
            ObjectKind::Snapshot => BlockId::snapshot(self.parent),
            ObjectKind::Partial => BlockId::partial(self.parent),
        }
    }

    /// The length of its raw file in the latest version. Slot files contain this length, so
    /// compressing an object does not change them. [`ObjectHeader::file_bytes`] is the length of an
    /// actual file.
    pub fn file_bytes(&self) -> u64 {
        (ObjectHeader::BYTES + 4 * self.tokens.len() + self.payload.len()) as u64
    }

    /// The bytes before the payload. The payload follows unchanged, so writing copies nothing.
    ///
    /// # Panics
    /// When a block has no tokens or a snapshot has some.
    pub fn encode_head(&self) -> Vec<u8> {
        let is_block = self.kind.has_tokens();
        assert_eq!(is_block, !self.tokens.is_empty(), "blocks have tokens and snapshots none");
        let tokens = token_bytes(&self.tokens);
        let header = ObjectHeader {
            version: self.kind.version(),
            kind: self.kind,
            model: self.model,
            parent: self.parent,
            start: self.start,
            tokens: self.tokens.len() as u32,
            encoding: Encoding::Raw,
            payload_bytes: self.payload.len() as u64,
            stored_bytes: self.payload.len() as u64,
            body_checksum: checksum(&tokens, &self.payload),
        };
        [&header.encode()[..], &tokens].concat()
    }

    /// The whole file.
    pub fn encode(&self) -> Vec<u8> {
        let mut file = self.encode_head();
        file.extend_from_slice(&self.payload);
        file
    }

    /// Verifies every byte of a file. The payload is a range of its buffer.
    pub fn decode(file: Vec<u8>) -> Result<Self, FormatError> {
        let header = verified(&file)?;
        open(&header, file)
    }

    /// As [`Object::decode`], for a caller that has hashed the [chunks](ObjectHeader::chunks) of
    /// `file` while reading it. Only the header is hashed here; version 1 has no chunks, so it is
    /// hashed whole.
    pub fn from_checked(file: Vec<u8>, digests: &[u128]) -> Result<Self, FormatError> {
        let header = ObjectHeader::decode(&file)?;
        check_length(header.file_bytes(), file.len() as u64)?;
        match header.body_checksum {
            BodyChecksum::Whole(_) => header.verify_body(&file)?,
            BodyChecksum::Chunked(_) => header.verify_digests(digests.iter().copied())?,
        }
        open(&header, file)
    }

    /// The compressed file of the object in `file`; `None` when that saves less than 5%, when a reader would refuse how
    /// much it saves, or when it is compressed already, or rounded: its bytes are as good as noise.
    pub fn compressed(file: &[u8], level: i32) -> Result<Option<Vec<u8>>, FormatError> {
        let header = verified(file)?;
        if header.is_compressed() || header.kind == ObjectKind::Lossy {
            return Ok(None);
        }
        let (tokens, payload) = body(&header, file);
        let max_bytes = payload.len().checked_sub(file.len().div_ceil(20));
        let pack = |max_bytes| pack(payload, Arrangement::Planes, level, max_bytes);
        let is_readable =
            |stored: &Vec<u8>| header.payload_bytes <= most_unpacked(stored.len() as u64);
        let Some(stored) = max_bytes.and_then(pack).filter(is_readable) else { return Ok(None) };
        let header = ObjectHeader {
            version: header.kind.version(),
            encoding: Encoding::Planes,
            stored_bytes: stored.len() as u64,
            body_checksum: checksum(tokens, &stored),
            ..header
        };
        Ok(Some([&header.encode()[..], tokens, &stored].concat()))
    }
}

fn checksum(tokens: &[u8], stored: &[u8]) -> BodyChecksum {
    let mut hash = BodyHash::from(ObjectHeader::BYTES as u64);
    hash.update(tokens);
    hash.update(stored);
    BodyChecksum::Chunked(hash.finish())
}

fn verified(file: &[u8]) -> Result<ObjectHeader, FormatError> {
    let header = ObjectHeader::decode(file)?;
    check_length(header.file_bytes(), file.len() as u64)?;
    header.verify_body(file)?;
    Ok(header)
}

/// The tokens and the stored payload of a file whose length was checked.
fn body<'a>(header: &ObjectHeader, file: &'a [u8]) -> (&'a [u8], &'a [u8]) {
    file[header.bytes()..].split_at(4 * header.tokens as usize)
}

fn open(header: &ObjectHeader, file: Vec<u8>) -> Result<Object, FormatError> {
    let (tokens, stored) = body(header, &file);
    let tokens = tokens_from(tokens);
    let payload = match header.encoding {
        Encoding::Raw => {
            let range = file.len() - stored.len()..file.len();
            Payload::within(file, range)
        }
        Encoding::Planes => unpack(stored, Arrangement::Planes, header.payload_bytes)?.into(),
    };
    let ObjectHeader { kind, model, parent, start, .. } = *header;
    Ok(Object { kind, model, parent, start, tokens, payload })
}
