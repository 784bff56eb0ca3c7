//! A slot file: which objects make up a conversation.
//!
//! - What a listing needs comes first, in three parts that verify by themselves: the header with
//!   the conversation's name, some 300 bytes at most; the table, which tells every object's name
//!   and length, so that own bytes are told from shared ones; and last the tokens, compressed.
//! - The entries of the table are bincode, see `codec`.

mod header;
mod table;

pub use header::SlotHeader;
pub use table::SlotTable;

use super::bytes::{check_length, token_bytes, tokens_from};
use super::codec::Counts;
use super::pack::{Arrangement, pack, unpack};
use super::{FormatError, codec};
use crate::id::{BlockId, ConversationId, ModelHash, Token};
use crate::layer::Layer;
use crate::time::Timestamp;
use crate::ttl::TtlClass;
use header::Body;

/// Tokens are written with every turn and are few: the usual level takes a fraction of a
/// millisecond for thousands.
const TOKEN_LEVEL: i32 = 3;

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
    /// How many turns it has had; 0 when that was not counted.
    pub turns: u32,
    /// The whole timeline.
    pub tokens: Vec<Token>,
    /// The timeline's blocks that are kept, in order.
    pub blocks: Vec<BlockRef>,
    /// The snapshots that are kept, in order of position.
    pub snapshots: Vec<SnapshotRef>,
    /// Which part of the prompt the timeline's tokens belong to, in order; empty when that is not
    /// known.
    pub segments: Vec<SegmentRef>,
}

/// A block of a timeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockRef {
    /// Where it ends in the timeline.
    pub end: u32,
    /// Its name.
    pub id: BlockId,
    /// [The length](super::Object::file_bytes) of its object's file, when that is raw.
    pub bytes: u64,
}

/// A snapshot of a timeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotRef {
    /// How many tokens of the timeline it holds.
    pub position: u32,
    /// Its name.
    pub id: BlockId,
    /// [The length](super::Object::file_bytes) of its object's file, when that is raw.
    pub bytes: u64,
}

/// A run of a timeline's tokens that belongs to one part of the prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentRef {
    /// Where it ends in the timeline; it begins where the one before ends.
    pub end: u32,
    /// What it is for.
    pub layer: Layer,
    /// What it is called among its kind. What exceeds [`SegmentRef::MAX_KEY_BYTES`] is not kept.
    pub key: String,
}

impl SegmentRef {
    /// The longest key, in bytes.
    pub const MAX_KEY_BYTES: usize = 200;

    /// The beginning of `key` that is kept.
    pub fn bounded(key: &str) -> &str {
        let end =
            (0..=key.len().min(Self::MAX_KEY_BYTES)).rev().find(|&at| key.is_char_boundary(at));
        &key[..end.expect("every text has a border at 0")]
    }
}

impl SlotRecord {
    /// The objects that it names, blocks first, with the lengths of their files.
    pub fn objects(&self) -> impl Iterator<Item = (BlockId, u64)> {
        objects(&self.blocks, &self.snapshots)
    }

    /// The whole file.
    pub fn encode(&self, model: ModelHash) -> Vec<u8> {
        let table = codec::encode(self);
        let tokens = token_bytes(&self.tokens);
        let tokens = pack(&tokens, Arrangement::Plain, TOKEN_LEVEL, usize::MAX)
            .expect("nothing is longer than the longest");
        let header = SlotHeader {
            model,
            conversation: self.conversation.clone(),
            class: self.class,
            created_at: self.created_at,
            used_at: self.used_at,
            turns: self.turns,
            tokens: self.tokens.len() as u32,
            blocks: self.blocks.len() as u32,
            snapshots: self.snapshots.len() as u32,
            segments: self.segments.len() as u32,
            object_bytes: total(self.objects()),
            body: Body::of(&table, &tokens),
        };
        [header.encode(), table, tokens].concat()
    }

    /// Verifies every byte of a file and returns what it holds and whose model it belongs to.
    pub fn decode(file: &[u8]) -> Result<(ModelHash, Self), FormatError> {
        let header = SlotHeader::decode(file)?;
        check_length(header.file_bytes(), file.len() as u64)?;
        let (tokens, table) = match &header.body {
            Body::Record(_) => table::decode_v1(header, file)?,
            Body::Parts { tokens: part, .. } => {
                let stored = &file[header.head_bytes() as usize..];
                part.verify("tokens", stored)?;
                let bytes = unpack(stored, Arrangement::Plain, 4 * u64::from(header.tokens))?;
                (tokens_from(&bytes), SlotTable::decode(file)?)
            }
        };
        let SlotTable { header, blocks, snapshots, segments } = table;
        let record = Self {
            conversation: header.conversation,
            class: header.class,
            created_at: header.created_at,
            used_at: header.used_at,
            turns: header.turns,
            tokens,
            blocks,
            snapshots,
            segments,
        };
        Ok((header.model, record))
    }
}

fn objects(blocks: &[BlockRef], snapshots: &[SnapshotRef]) -> impl Iterator<Item = (BlockId, u64)> {
    let blocks = blocks.iter().map(|block| (block.id, block.bytes));
    blocks.chain(snapshots.iter().map(|snapshot| (snapshot.id, snapshot.bytes)))
}

fn total(objects: impl Iterator<Item = (BlockId, u64)>) -> u64 {
    objects.fold(0, |sum, (_, bytes)| sum.saturating_add(bytes))
}

impl SlotHeader {
    fn counts(&self) -> Counts {
        let Self { blocks, snapshots, segments, .. } = *self;
        Counts { blocks, snapshots, segments }
    }
}
