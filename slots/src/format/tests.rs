//! What the format promises: whole files are read back, anything else is refused.

use proptest::prelude::*;

use super::*;
use crate::id::{BlockId, ModelHash, Token};
use crate::payload::Payload;
use crate::time::Timestamp;
use crate::ttl::TtlClass;

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

fn slot() -> SlotRecord {
    SlotRecord {
        conversation: "room-1.a".parse().unwrap(),
        class: TtlClass::Extended,
        created_at: Timestamp(1_700_000_000_000),
        used_at: Timestamp(1_700_000_060_000),
        tokens: block().tokens,
        blocks: vec![BlockRef { end: 3, id: block().id(), bytes: block().file_bytes() }],
        snapshots: vec![SnapshotRef { position: 3, id: snapshot().id(), bytes: 136 }],
    }
}

/// A file with its checksums made right again, to see what lies behind them.
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
fn an_object_is_read_back_as_it_was_written() {
    for object in [block(), snapshot()] {
        let file = object.encode();
        assert_eq!(file.len() as u64, object.file_bytes());
        assert_eq!(Object::decode(file), Ok(object));
    }
}

#[test]
fn a_slot_file_is_read_back_as_it_was_written() {
    assert_eq!(SlotRecord::decode(&slot().encode(MODEL)), Ok((MODEL, slot())));
}

#[test]
fn the_payload_is_a_window_into_the_buffer_that_was_read() {
    let file = block().encode();
    let (address, len) = (file.as_ptr() as usize, file.len());
    let payload = Object::decode(file).unwrap().payload;
    assert_eq!(payload.as_ptr() as usize + payload.len(), address + len);
}

#[test]
fn headers_tell_what_a_listing_needs_from_the_first_bytes_alone() {
    let header = ObjectHeader::decode(&block().encode()[..ObjectHeader::BYTES]).unwrap();
    assert_eq!((header.kind, header.model, header.tokens), (ObjectKind::Block, MODEL, 3));
    assert_eq!(header.file_bytes(), block().file_bytes());

    let file = slot().encode(MODEL);
    let header = SlotHeader::decode(&file[..88 + "room-1.a".len()]).unwrap();
    assert_eq!(header.conversation, slot().conversation);
    assert_eq!((header.tokens, header.blocks, header.snapshots), (3, 1, 1));
    assert_eq!(header.object_bytes, block().file_bytes() + 136);
    assert_eq!(header.file_bytes(), file.len() as u64);
}

#[test]
fn every_truncation_is_refused() {
    let (object, slot) = (block().encode(), slot().encode(MODEL));
    for len in 0..object.len() {
        assert!(Object::decode(object[..len].to_vec()).is_err(), "object of {len} bytes");
    }
    for len in 0..slot.len() {
        assert!(SlotRecord::decode(&slot[..len]).is_err(), "slot file of {len} bytes");
    }
}

#[test]
fn every_flipped_bit_is_refused() {
    for file in [block().encode(), snapshot().encode()] {
        for bit in 0..file.len() * 8 {
            let mut flipped = file.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(Object::decode(flipped).is_err(), "object, bit {bit}");
        }
    }
    let file = slot().encode(MODEL);
    for bit in 0..file.len() * 8 {
        let mut flipped = file.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert!(SlotRecord::decode(&flipped).is_err(), "slot file, bit {bit}");
    }
}

#[test]
fn appended_bytes_are_refused() {
    for surplus in [1_usize, 8, 4_096] {
        let expected = FormatError::Trailing { surplus: surplus as u64 };
        let object = [block().encode(), vec![0; surplus]].concat();
        assert_eq!(Object::decode(object), Err(expected.clone()));
        let slot = [slot().encode(MODEL), vec![0; surplus]].concat();
        assert_eq!(SlotRecord::decode(&slot), Err(expected));
    }
}

#[test]
fn something_else_is_told_from_a_damaged_file() {
    assert_eq!(
        Object::decode(b"GGUF and so on".to_vec()),
        Err(FormatError::NotOurs { expected: "object" })
    );
    assert_eq!(
        SlotRecord::decode(&block().encode()),
        Err(FormatError::NotOurs { expected: "slot file" })
    );
    assert_eq!(Object::decode(Vec::new()), Err(FormatError::Truncated { expected: 96, got: 0 }));
}

#[test]
fn a_later_version_is_refused_politely() {
    let mut file = block().encode();
    file[8] = 2;
    assert_eq!(Object::decode(file), Err(FormatError::Newer { version: 2, readable: 1 }));
    let mut file = slot().encode(MODEL);
    file[9] = 1;
    assert_eq!(SlotRecord::decode(&file), Err(FormatError::Newer { version: 257, readable: 1 }));
}

#[test]
fn values_that_are_never_written_are_refused_behind_a_right_checksum() {
    let object = |at: usize, value: u8| {
        let mut file = block().encode();
        file[at] = value;
        Object::decode(resealed(file, 88, 0..0)).unwrap_err().to_string()
    };
    assert_eq!(object(8, 0), "its field version holds 0");
    assert_eq!(object(10, 3), "its field kind holds 3");
    assert_eq!(object(10, 2), "its field tokens holds 3");
    assert_eq!(object(11, 1), "its field encoding holds 1");
    assert_eq!(object(60, 1), "its field reserved holds 1");
    assert_eq!(object(71, 0xff), "its field payload bytes holds 18374686479671623720");

    let slot = |at: usize, value: u8| {
        let mut file = slot().encode(MODEL);
        file[at] = value;
        SlotRecord::decode(&resealed(file, 80, 88..96)).unwrap_err().to_string()
    };
    assert_eq!(slot(10, 4), "its field class holds 4");
    assert_eq!(slot(63, 0xff), "its field record bytes holds 18374686479671623804");
    assert_eq!(slot(88, 7), "its record is malformed: its conversation has no valid id");
    assert_eq!(slot(12, 9), "its record is malformed: it holds other counts than its header");
}

#[test]
fn a_record_that_contradicts_itself_is_refused() {
    let id = block().id();
    let twice = [3, 3].map(|end| BlockRef { end, id, bytes: 1 });
    let past = BlockRef { end: 4, id, bytes: 1 };
    for blocks in [twice.to_vec(), vec![past]] {
        let file = SlotRecord { blocks, ..slot() }.encode(MODEL);
        assert!(matches!(SlotRecord::decode(&file), Err(FormatError::Record { .. })));
    }
}

/// Files of version 1, kept: whatever comes later must read them or refuse them politely.
#[test]
fn files_of_version_one_are_still_read() {
    let object = include_bytes!("../../fixtures/block-v1.kv");
    assert_eq!(Object::decode(object.to_vec()), Ok(block()));
    let object = include_bytes!("../../fixtures/snapshot-v1.kv");
    assert_eq!(Object::decode(object.to_vec()), Ok(snapshot()));
    let file = include_bytes!("../../fixtures/slot-v1.extended.bin");
    assert_eq!(SlotRecord::decode(file), Ok((MODEL, slot())));
}

#[test]
fn version_one_looks_like_its_specification() {
    let file = block().encode();
    assert_eq!(&file[..16], b"HOBOBJ\0\x01\x01\0\x01\0\0\0\0\0");
    assert_eq!(&file[16..24], b"\x11model\x22\x33");
    assert_eq!(&file[56..72], b"\x03\0\0\0\0\0\0\0\x28\0\0\0\0\0\0\0");
    assert_eq!(&file[96..108], b"\x01\0\0\0\x70\x11\x01\0\xff\xff\xff\xff");
    assert_eq!(xxhash_rust::xxh3::xxh3_128(&file[96..]).to_le_bytes(), file[72..88]);
    assert_eq!(xxhash_rust::xxh3::xxh3_64(&file[..88]).to_le_bytes(), file[88..96]);

    let file = slot().encode(MODEL);
    assert_eq!(&file[..16], b"HOBSLT\0\x01\x01\0\x02\x08\x03\0\0\0");
    assert_eq!(&file[88..96], b"room-1.a");
    let record = &file[96..];
    assert_eq!(&record[..20], b"\x03\0\0\0\0\0\0\0\x01\0\0\0\x70\x11\x01\0\xff\xff\xff\xff");
    assert_eq!(&record[20..32], b"\x01\0\0\0\0\0\0\0\x03\0\0\0");
    assert_eq!(&record[32..64], &block().id().0);
    assert_eq!(record.len(), 20 + 8 + 44 + 8 + 44);
}

proptest! {
    #[test]
    fn no_bytes_make_a_decoder_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let object = [&b"HOBOBJ\0\x01\x01\0"[..], &bytes].concat();
        prop_assert!(Object::decode(object).is_err());
        let slot = [&b"HOBSLT\0\x01\x01\0"[..], &bytes].concat();
        prop_assert!(SlotRecord::decode(&slot).is_err());
        prop_assert!(Object::decode(bytes).is_err());
    }

    #[test]
    fn no_record_makes_the_codec_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = codec::decode(&bytes);
    }

    #[test]
    fn objects_of_any_size_are_read_back(tokens in 1_usize..70, payload in 0_usize..2_000, start: u32) {
        let object = Object {
            start,
            tokens: (0..tokens as i32).map(Token).collect(),
            payload: Payload::from(vec![7; payload]),
            ..block()
        };
        prop_assert_eq!(Object::decode(object.encode()), Ok(object));
    }
}
