//! A slot file: which objects make up a conversation.
//!
//! - The header and the conversation's name are under a checksum of their own, so a listing reads
//!   some 300 bytes of each file and still trusts them.
//! - The record behind them is bincode, see `codec`.

use xxhash_rust::xxh3::xxh3_128;

use super::bytes::{Fields, check_length};
use super::{FormatError, codec};
use crate::id::{BlockId, ConversationId, ModelHash, Token};
use crate::time::Timestamp;
use crate::ttl::TtlClass;

const MAGIC: &[u8; 8] = b"HOBSLT\0\x01";
const VERSION: u16 = 1;
const WHAT: &str = "slot file";

/// Places of the header's fields.
mod at {
    pub const CLASS: usize = 10;
    pub const CONVERSATION_BYTES: usize = 11;
    pub const TOKENS: usize = 12;
    pub const MODEL: usize = 16;
    pub const CREATED_AT: usize = 24;
    pub const USED_AT: usize = 32;
    pub const BLOCKS: usize = 40;
    pub const SNAPSHOTS: usize = 44;
    pub const OBJECT_BYTES: usize = 48;
    pub const RECORD_BYTES: usize = 56;
    pub const RECORD_CHECKSUM: usize = 64;
    pub const HEADER_CHECKSUM: usize = 80;
    pub const END: usize = 88;
}

/// What is kept of a conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotRecord {
    /// Whose it is.
    pub conversation: ConversationId,
    /// How long it deserves its disk space.
    pub class: TtlClass,
    /// When it was first saved.
    pub created_at: Timestamp,
    /// When it was last used.
    pub used_at: Timestamp,
    /// The whole timeline.
    pub tokens: Vec<Token>,
    /// The timeline's blocks that are kept, in order.
    pub blocks: Vec<BlockRef>,
    /// The snapshots that are kept, in order of position.
    pub snapshots: Vec<SnapshotRef>,
}

/// A block of a timeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockRef {
    /// Where it ends in the timeline.
    pub end: u32,
    /// Its name.
    pub id: BlockId,
    /// The length of its object's file.
    pub bytes: u64,
}

/// A snapshot of a timeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotRef {
    /// How many tokens of the timeline it holds.
    pub position: u32,
    /// Its name.
    pub id: BlockId,
    /// The length of its object's file.
    pub bytes: u64,
}

/// What the first part of a slot file tells: enough for a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotHeader {
    /// The model that the objects belong to.
    pub model: ModelHash,
    /// See [`SlotRecord::conversation`].
    pub conversation: ConversationId,
    /// See [`SlotRecord::class`].
    pub class: TtlClass,
    /// See [`SlotRecord::created_at`].
    pub created_at: Timestamp,
    /// See [`SlotRecord::used_at`].
    pub used_at: Timestamp,
    /// How long the timeline is.
    pub tokens: u32,
    /// How many blocks are kept.
    pub blocks: u32,
    /// How many snapshots are kept.
    pub snapshots: u32,
    /// The length of all those objects' files together.
    pub object_bytes: u64,
    record_bytes: u64,
    record_checksum: u128,
}

impl SlotRecord {
    /// The objects that it names, blocks first, with the lengths of their files.
    pub fn objects(&self) -> impl Iterator<Item = (BlockId, u64)> {
        let blocks = self.blocks.iter().map(|block| (block.id, block.bytes));
        blocks.chain(self.snapshots.iter().map(|snapshot| (snapshot.id, snapshot.bytes)))
    }

    /// The whole file.
    pub fn encode(&self, model: ModelHash) -> Vec<u8> {
        let name = self.conversation.as_str().as_bytes();
        let record = codec::encode(self);
        let name_bytes = u8::try_from(name.len()).expect("an id has at most 200 bytes");
        let class = TtlClass::ALL.into_iter().position(|class| class == self.class);
        let class = class.expect("every class is listed") as u8;
        let object_bytes: u64 = self.objects().map(|(_, bytes)| bytes).sum();

        let mut header = Fields::<{ at::END }>::zeroed(MAGIC, VERSION);
        header.put(at::CLASS, &[class]);
        header.put(at::CONVERSATION_BYTES, &[name_bytes]);
        header.put(at::TOKENS, &(self.tokens.len() as u32).to_le_bytes());
        header.put(at::MODEL, &model.0);
        header.put(at::CREATED_AT, &self.created_at.0.to_le_bytes());
        header.put(at::USED_AT, &self.used_at.0.to_le_bytes());
        header.put(at::BLOCKS, &(self.blocks.len() as u32).to_le_bytes());
        header.put(at::SNAPSHOTS, &(self.snapshots.len() as u32).to_le_bytes());
        header.put(at::OBJECT_BYTES, &object_bytes.to_le_bytes());
        header.put(at::RECORD_BYTES, &(record.len() as u64).to_le_bytes());
        header.put(at::RECORD_CHECKSUM, &xxh3_128(&record).to_le_bytes());
        let checksum = header.checksum(at::HEADER_CHECKSUM, name);
        header.put(at::HEADER_CHECKSUM, &checksum.to_le_bytes());
        [&header.0[..], name, &record].concat()
    }

    /// Verifies every byte of a file and returns what it holds and whose model it belongs to.
    pub fn decode(file: &[u8]) -> Result<(ModelHash, Self), FormatError> {
        let header = SlotHeader::decode(file)?;
        check_length(header.file_bytes(), file.len() as u64)?;
        let record = &file[header.bytes()..];
        if xxh3_128(record) != header.record_checksum {
            return Err(FormatError::Checksum { part: "record" });
        }
        let (tokens, blocks, snapshots) = codec::decode(record)?;
        let model = header.model;
        let record = Self {
            conversation: header.conversation.clone(),
            class: header.class,
            created_at: header.created_at,
            used_at: header.used_at,
            tokens,
            blocks,
            snapshots,
        };
        record.check(&header)?;
        Ok((model, record))
    }

    /// What no checksum tells: that the record makes sense, alone and beside its header.
    fn check(&self, header: &SlotHeader) -> Result<(), FormatError> {
        let malformed = |what: &str| Err(FormatError::Record { what: what.to_owned() });
        let len = self.tokens.len();
        let counts = (len as u64, self.blocks.len() as u64, self.snapshots.len() as u64);
        if counts != (header.tokens.into(), header.blocks.into(), header.snapshots.into()) {
            return malformed("it holds other counts than its header");
        }
        if !self.blocks.iter().is_sorted_by(|before, after| before.end < after.end) {
            return malformed("its blocks are out of order");
        }
        let ends = self.blocks.iter().map(|block| block.end);
        if ends.chain(self.snapshots.iter().map(|s| s.position)).any(|end| end as usize > len) {
            return malformed("it names an object past its last token");
        }
        Ok(())
    }
}

impl SlotHeader {
    /// As many bytes as a header can have: enough to read for a listing.
    pub const MAX_BYTES: usize = at::END + ConversationId::MAX_BYTES;

    /// Reads and verifies the first part of a file; what follows it is not looked at.
    pub fn decode(file: &[u8]) -> Result<Self, FormatError> {
        let fields = Fields::<{ at::END }>::begin(file, WHAT, MAGIC, VERSION)?;
        let end = at::END + usize::from(fields.u8(at::CONVERSATION_BYTES));
        let Some(name) = file.get(at::END..end) else {
            return Err(FormatError::Truncated { expected: end as u64, got: file.len() as u64 });
        };
        if fields.checksum(at::HEADER_CHECKSUM, name) != fields.u64(at::HEADER_CHECKSUM) {
            return Err(FormatError::Checksum { part: "header" });
        }
        let class = fields.u8(at::CLASS);
        let Some(&class) = TtlClass::ALL.get(usize::from(class)) else {
            return Err(FormatError::Field { field: "class", value: class.into() });
        };
        let name = std::str::from_utf8(name).ok().and_then(|name| ConversationId::new(name).ok());
        let Some(conversation) = name else {
            return Err(FormatError::Record { what: "its conversation has no valid id".into() });
        };
        let record_bytes = fields.u64(at::RECORD_BYTES);
        if record_bytes > codec::MAX_BYTES as u64 {
            return Err(FormatError::Field { field: "record bytes", value: record_bytes });
        }
        Ok(Self {
            model: ModelHash(fields.get(at::MODEL)),
            conversation,
            class,
            created_at: Timestamp(fields.u64(at::CREATED_AT)),
            used_at: Timestamp(fields.u64(at::USED_AT)),
            tokens: fields.u32(at::TOKENS),
            blocks: fields.u32(at::BLOCKS),
            snapshots: fields.u32(at::SNAPSHOTS),
            object_bytes: fields.u64(at::OBJECT_BYTES),
            record_bytes,
            record_checksum: fields.u128(at::RECORD_CHECKSUM),
        })
    }

    /// How long the whole file is.
    pub fn file_bytes(&self) -> u64 {
        self.bytes() as u64 + self.record_bytes
    }

    fn bytes(&self) -> usize {
        at::END + self.conversation.as_str().len()
    }
}
