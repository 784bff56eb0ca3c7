//! The lists of a slot file in bincode 2: fixed-width integers, little-endian. The only module that
//! uses bincode.
//!
//! - The header has the number of entries. Memory for them is bounded by the bytes of the file.

use std::ops::Range;

use bincode::config::{Configuration, Fixint, Limit, LittleEndian};
use bincode::{Decode, Encode};

use super::entries::{BlockRef, BranchRef, SegmentRef, SnapshotRef};
use super::{FormatError, ObjectKind, SlotRecord};
use crate::adapters::AdapterSet;
use crate::fingerprint::{FileDigest, Lora};
use crate::id::{BlockId, Token};
use crate::layer::Layer;
use crate::lineage::{Lineage, View, ViewRun};

/// Bytes of the longest entry: a segment with the longest key.
const ENTRY_BYTES: usize = 256;

const FORMAT: Configuration<LittleEndian, Fixint, Limit<ENTRY_BYTES>> = bincode::config::standard()
    .with_little_endian()
    .with_fixed_int_encoding()
    .with_limit::<ENTRY_BYTES>();

/// A block or a snapshot: end of its tokens, name, length of its file.
#[derive(Encode, Decode)]
struct ObjectEntry {
    end: u32,
    id: [u8; 32],
    bytes: u64,
}

/// A segment: end of its tokens, layer, key.
#[derive(Encode, Decode)]
struct SegmentEntry {
    end: u32,
    layer: u8,
    key: String,
}

/// A segment since version 5, with weight and pin.
#[derive(Encode, Decode)]
struct WeighedSegmentEntry {
    labelled: SegmentEntry,
    weight: u8,
    pinned: bool,
}

/// An object of an earlier branch: kind, start, end, name, length of its file.
#[derive(Encode, Decode)]
struct BranchEntry {
    kind: u8,
    start: u32,
    end: u32,
    id: [u8; 32],
    bytes: u64,
}

/// Content and factor of an adapter.
#[derive(Encode, Decode)]
struct AdapterEntry {
    sha256: [u8; 32],
    scale: f32,
}

/// End and view of a run of tokens.
#[derive(Encode, Decode)]
struct ViewEntry {
    end: u32,
    view: [u8; View::BYTES],
}

/// Start and end of a range of tokens.
#[derive(Encode, Decode)]
struct RangeEntry {
    start: u32,
    end: u32,
}

/// The number of entries of each list.
pub struct Counts {
    /// Whether segments have weights and pins.
    pub has_weights: bool,
    pub blocks: u32,
    pub snapshots: u32,
    pub segments: u32,
    pub branches: u32,
    pub adapters: u32,
    pub views: u32,
    pub away: u32,
}

pub struct Lists {
    pub blocks: Vec<BlockRef>,
    pub snapshots: Vec<SnapshotRef>,
    pub segments: Vec<SegmentRef>,
    pub branches: Vec<BranchRef>,
    pub adapters: AdapterSet,
    pub lineage: Lineage,
}

/// The table of versions 3 to 5. The former two leave out the weights and pins of segments, and a lineage.
pub fn encode(record: &SlotRecord, has_weights: bool) -> Vec<u8> {
    let mut table = Vec::new();
    for block in &record.blocks {
        put(&mut table, ObjectEntry { end: block.end, id: block.id.0, bytes: block.bytes });
    }
    for snapshot in &record.snapshots {
        put(
            &mut table,
            ObjectEntry { end: snapshot.position, id: snapshot.id.0, bytes: snapshot.bytes },
        );
    }
    for segment in &record.segments {
        let key = SegmentRef::bounded(&segment.key).to_owned();
        let labelled = SegmentEntry { end: segment.end, layer: layer_code(segment.layer), key };
        let SegmentRef { weight, pinned, .. } = *segment;
        if has_weights {
            put(&mut table, WeighedSegmentEntry { labelled, weight, pinned });
        } else {
            put(&mut table, labelled);
        }
    }
    for &BranchRef { kind, start, end, id, bytes } in &record.branches {
        put(&mut table, BranchEntry { kind: kind.code(), start, end, id: id.0, bytes });
    }
    for &Lora { sha256, scale } in record.adapters.loras() {
        put(&mut table, AdapterEntry { sha256: sha256.0, scale });
    }
    for &ViewRun { end, view } in &record.lineage.views {
        put(&mut table, ViewEntry { end, view: view.bytes() });
    }
    for &Range { start, end } in &record.lineage.away {
        put(&mut table, RangeEntry { start, end });
    }
    table
}

/// Reads the table of version 5 and those of versions 4 to 2: version 4 has neither weights nor a lineage,
/// version 3 no adapters either, version 2 no branches either.
pub fn decode(table: &[u8], counts: &Counts) -> Result<Lists, FormatError> {
    let mut entries = Entries(table);
    let lists = Lists {
        blocks: entries.take(counts.blocks, block)?,
        snapshots: entries.take(counts.snapshots, snapshot)?,
        segments: if counts.has_weights {
            entries.take(counts.segments, weighed)?
        } else {
            entries.take(counts.segments, segment)?
        },
        branches: entries.take(counts.branches, branch)?,
        adapters: adapters(entries.take(counts.adapters, adapter)?)?,
        lineage: Lineage {
            views: entries.take(counts.views, view)?,
            away: entries.take(counts.away, range)?,
        },
    };
    entries.finish()?;
    Ok(lists)
}

/// Reads the record of version 1, where each list begins with its length.
pub fn decode_v1(
    record: &[u8],
    tokens: u32,
    counts: &Counts,
) -> Result<(Vec<Token>, Lists), FormatError> {
    let mut entries = Entries(record);
    let tokens = entries.counted(tokens)?.take(tokens, |token: i32| Ok(Token(token)))?;
    let blocks = entries.counted(counts.blocks)?.take(counts.blocks, block)?;
    let snapshots = entries.counted(counts.snapshots)?.take(counts.snapshots, snapshot)?;
    entries.finish()?;
    let (segments, branches, adapters, lineage) = Default::default();
    Ok((tokens, Lists { blocks, snapshots, segments, branches, adapters, lineage }))
}

/// The unread rest.
struct Entries<'a>(&'a [u8]);

impl Entries<'_> {
    fn next<T: Decode<()>>(&mut self) -> Result<T, FormatError> {
        let (entry, read) = bincode::decode_from_slice(self.0, FORMAT)
            .map_err(|error| FormatError::Record { what: error.to_string() })?;
        self.0 = &self.0[read..];
        Ok(entry)
    }

    fn take<T: Decode<()>, U>(
        &mut self,
        count: u32,
        read: impl Fn(T) -> Result<U, FormatError>,
    ) -> Result<Vec<U>, FormatError> {
        let fitting = self.0.len() / size_of::<T>();
        let mut entries = Vec::with_capacity(fitting.min(count as usize));
        for _ in 0..count {
            entries.push(read(self.next()?)?);
        }
        Ok(entries)
    }

    fn counted(&mut self, count: u32) -> Result<&mut Self, FormatError> {
        if self.next::<u64>()? == u64::from(count) {
            Ok(self)
        } else {
            malformed("it holds other counts than its header")
        }
    }

    fn finish(self) -> Result<(), FormatError> {
        match self.0.len() {
            0 => Ok(()),
            more => malformed(&format!("{more} bytes follow it")),
        }
    }
}

fn malformed<T>(what: &str) -> Result<T, FormatError> {
    Err(FormatError::Record { what: what.to_owned() })
}

fn put(table: &mut Vec<u8>, entry: impl Encode) {
    bincode::encode_into_std_write(entry, table, FORMAT).expect("numbers and texts always encode");
}

fn block(entry: ObjectEntry) -> Result<BlockRef, FormatError> {
    Ok(BlockRef { end: entry.end, id: BlockId(entry.id), bytes: entry.bytes })
}

fn snapshot(entry: ObjectEntry) -> Result<SnapshotRef, FormatError> {
    Ok(SnapshotRef { position: entry.end, id: BlockId(entry.id), bytes: entry.bytes })
}

fn branch(entry: BranchEntry) -> Result<BranchRef, FormatError> {
    let BranchEntry { kind, start, end, id, bytes } = entry;
    let code = kind;
    let kind = ObjectKind::from_code(code)?;
    if kind.in_slot_file() != kind {
        return Err(FormatError::Field { field: "kind", value: code.into() });
    }
    Ok(BranchRef { kind, start, end, id: BlockId(id), bytes })
}

fn adapter(entry: AdapterEntry) -> Result<Lora, FormatError> {
    Ok(Lora { sha256: FileDigest(entry.sha256), scale: entry.scale })
}

/// The writer has sorted them, and left out those without effect.
fn adapters(listed: Vec<Lora>) -> Result<AdapterSet, FormatError> {
    match AdapterSet::new(listed.clone()) {
        Ok(set) if set.loras() == listed => Ok(set),
        Ok(_) => malformed("its adapters are out of order or have no effect"),
        Err(error) => malformed(&error.to_string()),
    }
}

fn segment(entry: SegmentEntry) -> Result<SegmentRef, FormatError> {
    let layer = Layer::ALL.into_iter().find(|&layer| layer_code(layer) == entry.layer);
    match layer {
        Some(_) if entry.key.len() > SegmentRef::MAX_KEY_BYTES => {
            malformed("the key of a segment is too long")
        }
        Some(layer) => Ok(SegmentRef::new(entry.end, layer, entry.key)),
        None => malformed(&format!("there is no layer {}", entry.layer)),
    }
}

fn weighed(entry: WeighedSegmentEntry) -> Result<SegmentRef, FormatError> {
    let WeighedSegmentEntry { labelled, weight, pinned } = entry;
    Ok(SegmentRef { weight, pinned, ..segment(labelled)? })
}

fn view(entry: ViewEntry) -> Result<ViewRun, FormatError> {
    Ok(ViewRun { end: entry.end, view: View::from_bytes(entry.view) })
}

fn range(entry: RangeEntry) -> Result<Range<u32>, FormatError> {
    Ok(entry.start..entry.end)
}

/// Part of the file format: the numbers never change, the order of the enum may.
fn layer_code(layer: Layer) -> u8 {
    match layer {
        Layer::Axioms => 0,
        Layer::Identity => 1,
        Layer::Rules => 2,
        Layer::Capabilities => 3,
        Layer::Context => 4,
        Layer::Memories => 5,
        Layer::Affect => 6,
        Layer::User => 7,
        Layer::Assistant => 8,
        Layer::Tool => 9,
        Layer::Document => 10,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adapters_that_the_writer_would_not_write_are_refused() {
        let listed = |loras: &[(u8, f32)]| {
            let lora = |&(content, scale)| Lora { sha256: FileDigest([content; 32]), scale };
            adapters(loras.iter().map(lora).collect())
        };
        assert_eq!(listed(&[(1, 0.5), (2, 1.0)]).unwrap().loras().len(), 2);
        for wrong in [&[(2, 1.0), (1, 1.0)], &[(1, 1.0), (1, 1.0)], &[(1, 1.0), (2, 0.0)]] {
            assert!(matches!(listed(wrong), Err(FormatError::Record { .. })), "{wrong:?}");
        }
        assert!(matches!(listed(&[(1, f32::NAN)]), Err(FormatError::Record { .. })));
    }
}
