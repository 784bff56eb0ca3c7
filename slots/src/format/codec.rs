//! The record of a slot file as bincode 2: integers of fixed width, little-endian, lists behind
//! their length as a u64. The one module that names bincode.

use bincode::config::{Configuration, Fixint, Limit, LittleEndian};
use bincode::{Decode, Encode};

use super::{BlockRef, FormatError, SlotRecord, SnapshotRef};
use crate::id::{BlockId, Token};

/// The longest record: some sixty million tokens. Bounds what a length can make us allocate.
pub const MAX_BYTES: usize = 256 << 20;

const FORMAT: Configuration<LittleEndian, Fixint, Limit<MAX_BYTES>> = bincode::config::standard()
    .with_little_endian()
    .with_fixed_int_encoding()
    .with_limit::<MAX_BYTES>();

#[derive(Encode, Decode)]
struct Record {
    tokens: Vec<i32>,
    blocks: Vec<Named>,
    snapshots: Vec<Named>,
}

/// An object: where its tokens end, its name, the length of its file.
#[derive(Encode, Decode)]
struct Named {
    end: u32,
    id: [u8; 32],
    bytes: u64,
}

pub fn encode(record: &SlotRecord) -> Vec<u8> {
    let block = |b: &BlockRef| Named { end: b.end, id: b.id.0, bytes: b.bytes };
    let snapshot = |s: &SnapshotRef| Named { end: s.position, id: s.id.0, bytes: s.bytes };
    let record = Record {
        tokens: record.tokens.iter().map(|token| token.0).collect(),
        blocks: record.blocks.iter().map(block).collect(),
        snapshots: record.snapshots.iter().map(snapshot).collect(),
    };
    bincode::encode_to_vec(record, FORMAT).expect("lists of numbers always encode")
}

type Parts = (Vec<Token>, Vec<BlockRef>, Vec<SnapshotRef>);

pub fn decode(bytes: &[u8]) -> Result<Parts, FormatError> {
    let malformed = |what: String| FormatError::Record { what };
    let (record, read): (Record, usize) =
        bincode::decode_from_slice(bytes, FORMAT).map_err(|error| malformed(error.to_string()))?;
    if read != bytes.len() {
        return Err(malformed(format!("{} bytes follow it", bytes.len() - read)));
    }
    let block = |n: Named| BlockRef { end: n.end, id: BlockId(n.id), bytes: n.bytes };
    let snapshot = |n: Named| SnapshotRef { position: n.end, id: BlockId(n.id), bytes: n.bytes };
    Ok((
        record.tokens.into_iter().map(Token).collect(),
        record.blocks.into_iter().map(block).collect(),
        record.snapshots.into_iter().map(snapshot).collect(),
    ))
}
