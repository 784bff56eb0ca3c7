//! An object: the KV of one block, or one snapshot.
//!
//! - It carries what its name is made of, so a reader can tell whether it holds what it is called.
//! - Decoding takes the file's buffer and keeps it: the payload is a window into it.

use xxhash_rust::xxh3::{Xxh3, xxh3_128};

use super::FormatError;
use super::bytes::{Fields, check_length, token_bytes, tokens_from};
use crate::id::{BlockId, ModelHash, Token};
use crate::payload::Payload;

const MAGIC: &[u8; 8] = b"HOBOBJ\0\x01";
const VERSION: u16 = 1;
const WHAT: &str = "object";

/// Places of the header's fields.
mod at {
    pub const KIND: usize = 10;
    pub const ENCODING: usize = 11;
    pub const START: usize = 12;
    pub const MODEL: usize = 16;
    pub const PARENT: usize = 24;
    pub const TOKENS: usize = 56;
    pub const RESERVED: usize = 60;
    pub const PAYLOAD_BYTES: usize = 64;
    pub const BODY_CHECKSUM: usize = 72;
    pub const HEADER_CHECKSUM: usize = 88;
    pub const END: usize = 96;
}

/// What an object holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ObjectKind {
    /// The KV of a block's tokens.
    Block,
    /// The whole state of a sequence at one position.
    Snapshot,
}

impl ObjectKind {
    fn code(self) -> u8 {
        match self {
            Self::Block => 1,
            Self::Snapshot => 2,
        }
    }

    fn from_code(code: u8) -> Result<Self, FormatError> {
        match code {
            1 => Ok(Self::Block),
            2 => Ok(Self::Snapshot),
            other => Err(FormatError::Field { field: "kind", value: other.into() }),
        }
    }
}

/// A block or snapshot, as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    /// What it is.
    pub kind: ObjectKind,
    /// The model that computed it.
    pub model: ModelHash,
    /// Of a block: the block before it. Of a snapshot: the chain's name at its position.
    pub parent: BlockId,
    /// Of a block: the position of its first token. Of a snapshot: its position.
    pub start: u32,
    /// A block's tokens; a snapshot has none.
    pub tokens: Vec<Token>,
    /// The bytes for llama.cpp.
    pub payload: Payload,
}

/// What the fixed first part of an object tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObjectHeader {
    /// What it is.
    pub kind: ObjectKind,
    /// The model that computed it.
    pub model: ModelHash,
    /// See [`Object::parent`].
    pub parent: BlockId,
    /// See [`Object::start`].
    pub start: u32,
    /// How many tokens it holds.
    pub tokens: u32,
    /// How long its payload is.
    pub payload_bytes: u64,
    body_checksum: u128,
}

impl Object {
    /// The name that its content gives it.
    pub fn id(&self) -> BlockId {
        match self.kind {
            ObjectKind::Block => BlockId::child(self.parent, &self.tokens),
            ObjectKind::Snapshot => BlockId::snapshot(self.parent),
        }
    }

    /// How long its file is.
    pub fn file_bytes(&self) -> u64 {
        (at::END + 4 * self.tokens.len() + self.payload.len()) as u64
    }

    /// Everything that comes before the payload in the file. The payload follows as it is, so that
    /// writing copies nothing.
    ///
    /// # Panics
    /// When a block has no tokens or a snapshot has some.
    pub fn encode_head(&self) -> Vec<u8> {
        let is_block = self.kind == ObjectKind::Block;
        assert_eq!(is_block, !self.tokens.is_empty(), "blocks have tokens and snapshots none");

        let tokens = token_bytes(&self.tokens);
        let mut body = Xxh3::new();
        body.update(&tokens);
        body.update(&self.payload);

        let mut header = Fields::<{ at::END }>::zeroed(MAGIC, VERSION);
        header.put(at::KIND, &[self.kind.code()]);
        header.put(at::START, &self.start.to_le_bytes());
        header.put(at::MODEL, &self.model.0);
        header.put(at::PARENT, &self.parent.0);
        header.put(at::TOKENS, &(self.tokens.len() as u32).to_le_bytes());
        header.put(at::PAYLOAD_BYTES, &(self.payload.len() as u64).to_le_bytes());
        header.put(at::BODY_CHECKSUM, &body.digest128().to_le_bytes());
        let checksum = header.checksum(at::HEADER_CHECKSUM, &[]);
        header.put(at::HEADER_CHECKSUM, &checksum.to_le_bytes());
        [&header.0[..], &tokens].concat()
    }

    /// The whole file.
    pub fn encode(&self) -> Vec<u8> {
        let mut file = self.encode_head();
        file.extend_from_slice(&self.payload);
        file
    }

    /// Verifies every byte of a file and keeps its buffer as the payload's.
    pub fn decode(file: Vec<u8>) -> Result<Self, FormatError> {
        let header = ObjectHeader::decode(&file)?;
        check_length(header.file_bytes(), file.len() as u64)?;
        let body = &file[at::END..];
        if xxh3_128(body) != header.body_checksum {
            return Err(FormatError::Checksum { part: "body" });
        }
        let token_bytes = 4 * header.tokens as usize;
        let tokens = tokens_from(&body[..token_bytes]);
        let payload = at::END + token_bytes..file.len();
        Ok(Self {
            kind: header.kind,
            model: header.model,
            parent: header.parent,
            start: header.start,
            tokens,
            payload: Payload::within(file, payload),
        })
    }
}

impl ObjectHeader {
    /// The length of the fixed first part of an object's file.
    pub const BYTES: usize = at::END;

    /// Reads and verifies the first part of a file; what follows it is not looked at.
    pub fn decode(file: &[u8]) -> Result<Self, FormatError> {
        let fields = Fields::<{ at::END }>::begin(file, WHAT, MAGIC, VERSION)?;
        if fields.checksum(at::HEADER_CHECKSUM, &[]) != fields.u64(at::HEADER_CHECKSUM) {
            return Err(FormatError::Checksum { part: "header" });
        }
        fields.expect_zero("encoding", fields.u8(at::ENCODING).into())?;
        fields.expect_zero("reserved", fields.u32(at::RESERVED))?;
        let kind = ObjectKind::from_code(fields.u8(at::KIND))?;
        let tokens = fields.u32(at::TOKENS);
        if (kind == ObjectKind::Block) == (tokens == 0) {
            return Err(FormatError::Field { field: "tokens", value: tokens.into() });
        }
        let payload_bytes = fields.u64(at::PAYLOAD_BYTES);
        if payload_bytes > u64::MAX / 2 {
            return Err(FormatError::Field { field: "payload bytes", value: payload_bytes });
        }
        Ok(Self {
            kind,
            model: ModelHash(fields.get(at::MODEL)),
            parent: BlockId(fields.get(at::PARENT)),
            start: fields.u32(at::START),
            tokens,
            payload_bytes,
            body_checksum: fields.u128(at::BODY_CHECKSUM),
        })
    }

    /// How long the whole file is.
    pub fn file_bytes(&self) -> u64 {
        at::END as u64 + 4 * u64::from(self.tokens) + self.payload_bytes
    }
}
