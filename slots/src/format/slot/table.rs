//! The lists of a slot file, without its tokens.

use super::header::Body;
use super::lineage;
use super::{BlockRef, BranchRef, SegmentRef, SlotHeader, SnapshotRef, objects, total};
use crate::adapters::AdapterSet;
use crate::format::codec::Lists;
use crate::format::{FormatError, codec};
use crate::id::{BlockId, Token};
use crate::lineage::Lineage;

/// The header and the lists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotTable {
    pub header: SlotHeader,
    pub adapters: AdapterSet,
    pub blocks: Vec<BlockRef>,
    pub snapshots: Vec<SnapshotRef>,
    pub segments: Vec<SegmentRef>,
    pub branches: Vec<BranchRef>,
    pub lineage: Lineage,
}

impl SlotTable {
    /// Decodes and verifies the first [`SlotHeader::head_bytes`] of a file.
    pub fn decode(file: &[u8]) -> Result<Self, FormatError> {
        let header = SlotHeader::decode(file)?;
        let part = match &header.body {
            Body::Record(_) => return Ok(decode_v1(header, file)?.1),
            Body::Parts { table, .. } => table,
        };
        let table = part_of(file, header.bytes(), header.head_bytes())?;
        part.verify("table", table)?;
        let lists = codec::decode(table, &header.counts())?;
        Self::checked(header, lists)
    }

    /// Its objects, blocks first, those of branches last, with the lengths of their raw files.
    pub fn objects(&self) -> impl Iterator<Item = (BlockId, u64)> {
        objects(&self.blocks, &self.snapshots, &self.branches)
    }

    /// Refuses lists that contradict themselves or the header.
    fn checked(header: SlotHeader, lists: Lists) -> Result<Self, FormatError> {
        let Lists { blocks, snapshots, segments, branches, adapters, lineage } = lists;
        check(&blocks, &snapshots, &segments, &branches, &lineage, header.tokens)?;
        let table = Self { header, adapters, blocks, snapshots, segments, branches, lineage };
        if total(table.objects()) != table.header.object_bytes {
            let what = "its objects have other lengths than its header says".to_owned();
            return Err(FormatError::Record { what });
        }
        Ok(table)
    }
}

/// Refuses lists that contradict themselves or a timeline of `tokens` tokens. The writer asserts
/// what the reader refuses.
pub fn check(
    blocks: &[BlockRef],
    snapshots: &[SnapshotRef],
    segments: &[SegmentRef],
    branches: &[BranchRef],
    lineage: &Lineage,
    tokens: u32,
) -> Result<(), FormatError> {
    let malformed = |what: &str| Err(FormatError::Record { what: what.to_owned() });
    if tokens > SlotHeader::MAX_TOKENS {
        return malformed("it has too many tokens");
    }
    if !blocks.is_sorted_by(|before, after| before.end < after.end) {
        return malformed("its blocks are out of order");
    }
    if !segments.is_sorted_by(|before, after| before.end < after.end) {
        return malformed("its segments are out of order");
    }
    let ends = blocks.iter().map(|block| block.end);
    let mut ends = ends.chain(snapshots.iter().map(|snapshot| snapshot.position));
    if ends.any(|end| end > tokens) {
        return malformed("it names an object past its last token");
    }
    if segments.last().is_some_and(|last| last.end > tokens) {
        return malformed("it names a segment past its last token");
    }
    if segments.iter().any(|segment| segment.weight > SegmentRef::MAX_WEIGHT) {
        return malformed("a segment weighs too much");
    }
    if branches.iter().any(|object| object.start >= object.end) {
        return malformed("an object of a branch has no tokens");
    }
    lineage::check(lineage, blocks, tokens)
}

/// Version 1 has its tokens and then its lists in one record.
pub fn decode_v1(header: SlotHeader, file: &[u8]) -> Result<(Vec<Token>, SlotTable), FormatError> {
    let Body::Record(part) = &header.body else { unreachable!("the caller has looked") };
    let record = part_of(file, header.bytes(), header.head_bytes())?;
    part.verify("record", record)?;
    let (tokens, lists) = codec::decode_v1(record, header.tokens, &header.counts())?;
    Ok((tokens, SlotTable::checked(header, lists)?))
}

fn part_of(file: &[u8], start: usize, end: u64) -> Result<&[u8], FormatError> {
    let part = usize::try_from(end).ok().and_then(|end| file.get(start..end));
    part.ok_or(FormatError::Truncated { expected: end, got: file.len() as u64 })
}
