//! Whole files are read back; anything else is refused.

use proptest::prelude::*;

use super::*;
use crate::adapters::AdapterSet;
use crate::fingerprint::{FileDigest, Lora};
use crate::id::{BlockId, ModelHash, Token};
use crate::layer::Layer;
use crate::lineage::{Lineage, View, ViewRun};
use crate::lossy::Lossy;
use crate::payload::Payload;
use crate::time::Timestamp;
use crate::ttl::TtlClass;

mod damage;
mod fixtures;
mod lineage;
mod objects;
mod slots;

const MODEL: ModelHash = ModelHash(*b"\x11model\x22\x33");

fn block() -> Object {
    Object {
        kind: ObjectKind::Block,
        model: MODEL,
        parent: BlockId::root(MODEL),
        start: 0,
        tokens: vec![Token(1), Token(70_000), Token(-1)],
        payload: Payload::from((0..40).collect::<Vec<u8>>()),
    }
}

fn snapshot() -> Object {
    let parent = block().id();
    let payload = Payload::from(vec![0x5a; 40]);
    Object { kind: ObjectKind::Snapshot, parent, start: 3, tokens: Vec::new(), payload, ..block() }
}

fn partial() -> Object {
    Object { kind: ObjectKind::Partial, ..snapshot() }
}

/// A block whose KV was rounded.
fn lossy() -> Object {
    let view = View::lossy(Lossy::Q8, block().id());
    let payload = Payload::from(b"HOBLSY\0\x01\x01\0\0\0\x05\0\0\0headsand groups".to_vec());
    Object { kind: ObjectKind::Lossy, parent: view.parent(block().parent), payload, ..block() }
}

fn snapshot_of(bytes: usize) -> Object {
    let payload = (0..bytes).map(|n| (n / 5_000) as u8).collect::<Vec<_>>();
    Object { payload: payload.into(), ..snapshot() }
}

fn slot() -> SlotRecord {
    SlotRecord {
        lineage: Default::default(),
        conversation: "room-1.a".parse().unwrap(),
        adapters: Default::default(),
        class: TtlClass::Extended,
        created_at: Timestamp(1_700_000_000_000),
        used_at: Timestamp(1_700_000_060_000),
        turns: 7,
        tokens: block().tokens,
        blocks: vec![BlockRef { end: 3, id: block().id(), bytes: block().file_bytes() }],
        snapshots: vec![SnapshotRef { position: 3, id: snapshot().id(), bytes: 144 }],
        segments: vec![
            SegmentRef::new(1, Layer::Rules, ""),
            SegmentRef::new(3, Layer::Document, "file:config.py"),
        ],
        branches: vec![
            BranchRef {
                kind: ObjectKind::Block,
                start: 2,
                end: 9,
                id: BlockId([0xb1; 32]),
                bytes: 7_000,
            },
            BranchRef {
                kind: ObjectKind::Snapshot,
                start: 0,
                end: 9,
                id: BlockId([0xb2; 32]),
                bytes: 9_000,
            },
        ],
    }
}

/// The content of the version 4 fixture.
fn slot_with_adapters() -> SlotRecord {
    let lora = |content, scale| Lora { sha256: FileDigest([content; 32]), scale };
    SlotRecord { adapters: AdapterSet::new(vec![lora(2, 1.0), lora(1, 0.5)]).unwrap(), ..slot() }
}

/// The content of the version 5 fixture: four blocks, of which the second is away and the last two were
/// computed without the first.
fn slot_with_lineage() -> SlotRecord {
    let block = |end: u32| BlockRef { end, id: BlockId([end as u8; 32]), bytes: 100 };
    let mut slot = SlotRecord {
        tokens: (1..=8).map(Token).collect(),
        blocks: [2, 4, 6, 8].map(block).to_vec(),
        lineage: Lineage {
            views: vec![
                ViewRun { end: 4, view: View::WHOLE },
                ViewRun { end: 8, view: View::from_bytes([0xc1; View::BYTES]) },
            ],
            away: vec![2..4],
        },
        ..slot_with_adapters()
    };
    (slot.segments[0].pinned, slot.segments[1].weight) = (true, 90);
    slot
}

/// The content of the version 2 fixture: no branches.
fn slot_of_version_two() -> SlotRecord {
    SlotRecord { branches: Vec::new(), ..slot() }
}

/// The content of the version 1 fixture: no turns, no segments, and shorter object headers.
fn slot_of_version_one() -> SlotRecord {
    let mut slot = SlotRecord { turns: 0, segments: Vec::new(), ..slot_of_version_two() };
    slot.blocks[0].bytes = 148;
    slot.snapshots[0].bytes = 136;
    slot
}

/// A file with its checksums corrected.
fn resealed(
    mut file: Vec<u8>,
    header_checksum_at: usize,
    covered_after: std::ops::Range<usize>,
) -> Vec<u8> {
    let covered = [&file[..header_checksum_at], &file[covered_after]].concat();
    let checksum = xxhash_rust::xxh3::xxh3_64(&covered).to_le_bytes();
    file[header_checksum_at..header_checksum_at + 8].copy_from_slice(&checksum);
    file
}

#[test]
fn headers_are_decoded_from_the_first_bytes_alone() {
    let header = ObjectHeader::decode(&block().encode()[..ObjectHeader::BYTES]).unwrap();
    assert_eq!((header.kind, header.model, header.tokens), (ObjectKind::Block, MODEL, 3));
    assert_eq!(header.file_bytes(), block().file_bytes());

    let file = slot().encode(MODEL);
    let header = SlotHeader::decode(&file[..128 + "room-1.a".len()]).unwrap();
    assert_eq!(header.conversation, slot().conversation);
    assert_eq!((header.tokens, header.blocks, header.snapshots, header.branches), (3, 1, 1, 2));
    assert_eq!(header.object_bytes, block().file_bytes() + 144 + 7_000 + 9_000);
    assert_eq!(header.file_bytes(), file.len() as u64);
}

#[test]
fn an_unknown_file_is_not_reported_as_damaged() {
    assert_eq!(
        Object::decode(b"GGUF and so on".to_vec()),
        Err(FormatError::NotOurs { expected: "object" })
    );
    assert_eq!(
        SlotRecord::decode(&block().encode()),
        Err(FormatError::NotOurs { expected: "slot file" })
    );
    assert_eq!(Object::decode(Vec::new()), Err(FormatError::Truncated { expected: 104, got: 0 }));
}

#[test]
fn a_later_version_is_refused_as_newer() {
    let mut file = block().encode();
    file[8] = 5;
    assert_eq!(Object::decode(file), Err(FormatError::Newer { version: 5, readable: 4 }));
    let mut file = slot().encode(MODEL);
    file[9] = 1;
    assert_eq!(SlotRecord::decode(&file), Err(FormatError::Newer { version: 259, readable: 5 }));
}

#[test]
fn invalid_values_are_refused_behind_a_right_checksum() {
    let object = |at: usize, value: u8| {
        let mut file = block().encode();
        file[at] = value;
        Object::decode(resealed(file, 96, 0..0)).unwrap_err().to_string()
    };
    assert_eq!(object(8, 0), "its field version holds 0");
    assert_eq!(object(10, 3), "its field kind holds 3");
    assert_eq!(object(10, 2), "its field tokens holds 3");
    assert_eq!(object(11, 2), "its field encoding holds 2");
    assert_eq!(object(60, 1), "its field reserved holds 1");
    assert_eq!(object(64, 41), "its field stored bytes holds 40");
    assert_eq!(object(71, 0xff), "its field payload bytes holds 18374686479671623720");
    assert_eq!(object(79, 0xff), "its field stored bytes holds 18374686479671623720");

    let slot = |at: usize, value: u8| {
        let mut file = slot().encode(MODEL);
        file[at] = value;
        SlotRecord::decode(&resealed(file, 120, 128..136)).unwrap_err().to_string()
    };
    assert_eq!(slot(10, 4), "its field class holds 4");
    assert_eq!(slot(71, 0xff), "its field table bytes holds 18374686479671623906");
    assert_eq!(slot(95, 0xff), "its field token bytes holds 18374686479671623701");
    assert_eq!(slot(116, 1), "its field reserved holds 1");
    assert_eq!(slot(128, 7), "its record is malformed: its conversation has no valid id");
    assert_eq!(slot(15, 0x10), "its field tokens holds 268435459");
    assert_eq!(slot(12, 9), "its content does not unpack: a frame has another length");
    assert_eq!(slot(40, 0), "its record is malformed: LimitExceeded");
    assert_eq!(
        slot(48, 0),
        "its record is malformed: its objects have other lengths than its header says"
    );
}

proptest! {
    #[test]
    fn no_bytes_make_a_decoder_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        for version in 0..6 {
            let object = [&b"HOBOBJ\0\x01"[..], &[version, 0], &bytes].concat();
            prop_assert!(Object::decode(object).is_err());
            let slot = [&b"HOBSLT\0\x01"[..], &[version, 0], &bytes].concat();
            prop_assert!(SlotRecord::decode(&slot).is_err());
            prop_assert!(SlotTable::decode(&slot).is_err());
        }
        prop_assert!(Object::decode(bytes).is_err());
    }

    #[test]
    fn no_record_makes_the_codec_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..200),
        counts in (0_u32..4, 0_u32..4, any::<u32>(), 0_u32..4, 0_u32..4, 0_u32..4, 0_u32..4),
        has_weights in any::<bool>(),
    ) {
        let counts = codec::Counts {
            has_weights,
            blocks: counts.0,
            snapshots: counts.1,
            segments: counts.2,
            branches: counts.3,
            adapters: counts.4,
            views: counts.5,
            away: counts.6,
        };
        let _ = codec::decode(&bytes, &counts);
        let _ = codec::decode_v1(&bytes, counts.segments, &counts);
    }
}
