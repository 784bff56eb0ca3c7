//! A slot file: the objects of a saved conversation.
//!
//! - It has three parts, each with its own checksum, so a listing reads only the first ones: the
//!   header with the conversation's name, 336 bytes at most; the table with every object's name and
//!   length; the compressed tokens.
//! - The entries of the table are bincode, see `codec`.

mod header;
mod lineage;
mod table;

pub use header::SlotHeader;
pub use table::SlotTable;

use super::bytes::{check_length, token_bytes, tokens_from};
use super::codec::Counts;
use super::entries::{BlockRef, BranchRef, SegmentRef, SnapshotRef};
use super::pack::{Arrangement, pack, unpack};
use super::{FormatError, ObjectKind, codec};
use crate::adapters::AdapterSet;
use crate::block::common_prefix;
use crate::id::{BlockId, ConversationId, ModelHash, Token};
use crate::lineage::Lineage;
use crate::time::Timestamp;
use crate::ttl::TtlClass;
use header::Body;

/// A turn writes few tokens: the usual level takes less than a millisecond for thousands.
const TOKEN_LEVEL: i32 = 3;

/// A saved conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotRecord {
    pub conversation: ConversationId,
    /// The adapters that computed the timeline; branches may have others.
    pub adapters: AdapterSet,
    pub class: TtlClass,
    pub created_at: Timestamp,
    pub used_at: Timestamp,
    /// 0 when turns were not counted.
    pub turns: u32,
    pub tokens: Vec<Token>,
    /// The saved blocks, in order.
    pub blocks: Vec<BlockRef>,
    /// By position, ascending.
    pub snapshots: Vec<SnapshotRef>,
    /// The segment of each token range, in order; empty when unknown.
    pub segments: Vec<SegmentRef>,
    /// Objects of earlier branches that are not on this timeline, the newest branch first. A
    /// block's parent is on the timeline or before it in this list.
    pub branches: Vec<BranchRef>,
    pub lineage: Lineage,
}

impl SlotRecord {
    /// A conversation without tokens, made and used at `used_at`, of no counted turn.
    pub fn empty(conversation: ConversationId, class: TtlClass, used_at: Timestamp) -> Self {
        Self {
            conversation,
            adapters: AdapterSet::default(),
            class,
            created_at: used_at,
            used_at,
            turns: 0,
            tokens: Vec::new(),
            blocks: Vec::new(),
            snapshots: Vec::new(),
            segments: Vec::new(),
            branches: Vec::new(),
            lineage: Lineage::default(),
        }
    }

    /// The objects of the record, blocks first, those of branches last, with the lengths of their raw files.
    pub fn objects(&self) -> impl Iterator<Item = (BlockId, u64)> {
        objects(&self.blocks, &self.snapshots, &self.branches)
    }

    /// The objects of the record with their places in the timeline, a block before those that continue it.
    pub fn placed(&self) -> impl Iterator<Item = BranchRef> {
        let mut start = 0;
        let blocks = self.blocks.iter().map(move |&BlockRef { end, id, bytes }| {
            let start = std::mem::replace(&mut start, end);
            BranchRef { kind: ObjectKind::Block, start, end, id, bytes }
        });
        let snapshots = self.snapshots.iter().map(|&SnapshotRef { position, id, bytes }| {
            BranchRef { kind: ObjectKind::Snapshot, start: 0, end: position, id, bytes }
        });
        blocks.chain(snapshots).chain(self.branches.iter().copied())
    }

    /// Whether the record begins with `tokens`, computed with `adapters`, and has more: then a record of these
    /// alone does not replace it, whatever they attended to.
    pub fn covers(&self, adapters: &AdapterSet, tokens: &[Token]) -> bool {
        self.adapters == *adapters
            && tokens.len() < self.tokens.len()
            && self.tokens.starts_with(tokens)
    }

    /// The length of the common prefix with `tokens`, which `adapters` are for.
    pub fn shared_with(&self, adapters: &AdapterSet, tokens: &[Token]) -> usize {
        if self.adapters == *adapters { common_prefix(&self.tokens, tokens) } else { 0 }
    }

    /// # Panics
    /// When [`SlotRecord::decode`] would refuse the file.
    pub fn encode(&self, model: ModelHash) -> Vec<u8> {
        let Self { blocks, snapshots, segments, branches, lineage, tokens, .. } = self;
        let tokens = tokens.len() as u32;
        let checked = table::check(blocks, snapshots, segments, branches, lineage, tokens);
        if let Err(error) = checked {
            panic!("a record of {} that its reader refuses: {error}", self.conversation);
        }
        self.encode_unchecked(model)
    }

    pub(in crate::format) fn encode_unchecked(&self, model: ModelHash) -> Vec<u8> {
        let version = self.version();
        let table = codec::encode(self, has_weights(version));
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
            branches: self.branches.len() as u32,
            adapters: self.adapters.loras().len() as u32,
            views: self.lineage.views.len() as u32,
            away: self.lineage.away.len() as u32,
            object_bytes: total(self.objects()),
            body: Body::of(version, &table, &tokens),
        };
        [header.encode(), table, tokens].concat()
    }

    /// The earliest version that has all of its content: earlier programs read it, too.
    fn version(&self) -> u16 {
        let is_plain = self.segments.iter().all(SegmentRef::is_plain);
        if self.lineage != Lineage::default() || !is_plain {
            header::VERSION
        } else if !self.adapters.loras().is_empty() {
            header::VERSION_WITH_ADAPTERS
        } else {
            header::VERSION_WITH_BRANCHES
        }
    }

    /// Verifies every byte of a file. Returns the record and its model.
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
        let SlotTable { header, adapters, blocks, snapshots, segments, branches, lineage } = table;
        let record = Self {
            conversation: header.conversation,
            adapters,
            class: header.class,
            created_at: header.created_at,
            used_at: header.used_at,
            turns: header.turns,
            tokens,
            blocks,
            snapshots,
            segments,
            branches,
            lineage,
        };
        Ok((header.model, record))
    }
}

fn objects(
    blocks: &[BlockRef],
    snapshots: &[SnapshotRef],
    branches: &[BranchRef],
) -> impl Iterator<Item = (BlockId, u64)> {
    let blocks = blocks.iter().map(|block| (block.id, block.bytes));
    let snapshots = snapshots.iter().map(|snapshot| (snapshot.id, snapshot.bytes));
    blocks.chain(snapshots).chain(branches.iter().map(|object| (object.id, object.bytes)))
}

fn total(objects: impl Iterator<Item = (BlockId, u64)>) -> u64 {
    objects.fold(0, |sum, (_, bytes)| sum.saturating_add(bytes))
}

impl SlotHeader {
    fn counts(&self) -> Counts {
        let Self { blocks, snapshots, segments, branches, adapters, views, away, .. } = *self;
        let has_weights = has_weights(self.version());
        Counts { has_weights, blocks, snapshots, segments, branches, adapters, views, away }
    }
}

fn has_weights(version: u16) -> bool {
    version == header::VERSION
}
