//! What the format promises: whole files are read back, anything else is refused.

use proptest::prelude::*;

use super::*;
use crate::id::{BlockId, ModelHash, Token};
use crate::payload::Payload;
use crate::segment::Layer;
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

fn snapshot_of(bytes: usize) -> Object {
    let payload = (0..bytes).map(|n| (n / 5_000) as u8).collect::<Vec<_>>();
    Object { payload: payload.into(), ..snapshot() }
}

fn slot() -> SlotRecord {
    SlotRecord {
        conversation: "room-1.a".parse().unwrap(),
        class: TtlClass::Extended,
        created_at: Timestamp(1_700_000_000_000),
        used_at: Timestamp(1_700_000_060_000),
        turns: 7,
        tokens: block().tokens,
        blocks: vec![BlockRef { end: 3, id: block().id(), bytes: block().file_bytes() }],
        snapshots: vec![SnapshotRef { position: 3, id: snapshot().id(), bytes: 144 }],
        segments: vec![
            SegmentRef { end: 1, layer: Layer::Rules, key: String::new() },
            SegmentRef { end: 3, layer: Layer::Document, key: "file:config.py".into() },
        ],
    }
}

/// What the fixture of version 1 holds: no turns, no segments, and shorter object headers.
fn slot_of_version_one() -> SlotRecord {
    let mut slot = SlotRecord { turns: 0, segments: Vec::new(), ..slot() };
    slot.blocks[0].bytes = 148;
    slot.snapshots[0].bytes = 136;
    slot
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
    let header = SlotHeader::decode(&file[..120 + "room-1.a".len()]).unwrap();
    assert_eq!(header.conversation, slot().conversation);
    assert_eq!((header.tokens, header.blocks, header.snapshots), (3, 1, 1));
    assert_eq!(header.object_bytes, block().file_bytes() + 144);
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
    assert_eq!(Object::decode(Vec::new()), Err(FormatError::Truncated { expected: 104, got: 0 }));
}

#[test]
fn a_later_version_is_refused_politely() {
    let mut file = block().encode();
    file[8] = 3;
    assert_eq!(Object::decode(file), Err(FormatError::Newer { version: 3, readable: 2 }));
    let mut file = slot().encode(MODEL);
    file[9] = 1;
    assert_eq!(SlotRecord::decode(&file), Err(FormatError::Newer { version: 258, readable: 2 }));
}

#[test]
fn values_that_are_never_written_are_refused_behind_a_right_checksum() {
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
        SlotRecord::decode(&resealed(file, 112, 120..128)).unwrap_err().to_string()
    };
    assert_eq!(slot(10, 4), "its field class holds 4");
    assert_eq!(slot(71, 0xff), "its field table bytes holds 18374686479671623808");
    assert_eq!(slot(95, 0xff), "its field token bytes holds 18374686479671623701");
    assert_eq!(slot(120, 7), "its record is malformed: its conversation has no valid id");
    assert_eq!(slot(12, 9), "what it holds does not unpack: a frame has another length");
    assert_eq!(slot(40, 0), "its record is malformed: LimitExceeded");
    assert_eq!(
        slot(48, 0),
        "its record is malformed: its objects have other lengths than its header says"
    );
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

#[test]
fn a_compressed_file_holds_the_same_object() {
    let object = Object {
        payload: (0..3_000_001).map(|n| (n / 5_000) as u8).collect::<Vec<_>>().into(),
        ..block()
    };
    for file in [object.encode(), snapshot_of(3_000_000).encode()] {
        let compressed = Object::compressed(&file, 1).unwrap().unwrap();
        let header = ObjectHeader::decode(&compressed).unwrap();
        assert!(header.is_compressed() && header.stored_bytes < 10_000);
        assert_eq!(header.file_bytes(), compressed.len() as u64);
        assert_eq!(Object::compressed(&compressed, 1), Ok(None));
        let object = Object::decode(compressed).unwrap();
        assert_eq!(object.file_bytes(), file.len() as u64);
        assert_eq!(object.encode(), file);
    }
}

#[test]
fn what_does_not_compress_well_stays_raw() {
    let mut noise = 1_u64;
    let mut byte = || {
        noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (noise >> 56) as u8
    };
    let payload: Vec<u8> = (0..10_000).map(|_| byte()).collect();
    let object = Object { payload: payload.into(), ..block() };
    assert_eq!(Object::compressed(&object.encode(), 9), Ok(None));
    assert_eq!(Object::compressed(&snapshot_of(0).encode(), 9), Ok(None));
}

#[test]
fn a_damaged_file_is_not_compressed() {
    let mut file = block().encode();
    *file.last_mut().unwrap() ^= 1;
    assert_eq!(Object::compressed(&file, 1), Err(FormatError::Checksum { part: "body" }));
}

#[test]
fn a_file_is_checked_chunk_by_chunk_as_at_once() {
    let most = CHUNK_BYTES as usize;
    let lengths = [0, 1, most - 105, most - 104, most - 103, 2 * most, 3 * most + 7];
    for object in lengths.map(snapshot_of) {
        let file = object.encode();
        let header = ObjectHeader::decode(&file).unwrap();
        let chunks: Vec<_> = header.chunks().collect();
        let piece = |(n, piece): (usize, &[u8])| {
            let start = n * most;
            start.max(ObjectHeader::BYTES) as u64..(start + piece.len()) as u64
        };
        let pieces = file.chunks(most).enumerate().map(piece);
        let pieces: Vec<_> = pieces.filter(|piece| !piece.is_empty()).collect();
        assert_eq!(chunks, pieces, "one chunk in each piece of the file");

        let digest = |chunk: &std::ops::Range<u64>| {
            chunk_digest(&file[chunk.start as usize..chunk.end as usize])
        };
        let digests: Vec<_> = chunks.iter().map(digest).collect();
        assert_eq!(Object::from_checked(file.clone(), &digests), Ok(object.clone()));
        assert_eq!(Object::decode(file.clone()), Ok(object));
        let refused = Err(FormatError::Checksum { part: "body" });
        if let Some((_, fewer)) = digests.split_last() {
            assert_eq!(Object::from_checked(file.clone(), fewer), refused);
            let wrong: Vec<_> = digests.iter().map(|digest| digest ^ 1).collect();
            assert_eq!(Object::from_checked(file, &wrong), refused);
        }
    }
}

#[test]
fn a_head_with_many_tokens_is_hashed_in_the_same_chunks() {
    let tokens: Vec<_> = (0..600_000).map(Token).collect();
    let object = Object { tokens, payload: vec![3; 1 << 20].into(), ..block() };
    let file = [object.encode_head(), object.payload.to_vec()].concat();
    assert_eq!(Object::decode(file), Ok(object));
}

#[test]
fn the_table_is_read_from_the_first_part_of_a_slot_file() {
    let file = slot().encode(MODEL);
    let header = SlotHeader::decode(&file).unwrap();
    let head = &file[..header.head_bytes() as usize];
    assert!(head.len() < file.len());
    let table = SlotTable::decode(head).unwrap();
    assert_eq!((table.header.turns, table.header.segments), (7, 2));
    assert!(table.objects().eq(slot().objects()));
    assert_eq!(table.blocks, slot().blocks);
    assert_eq!(table.snapshots, slot().snapshots);
    assert_eq!(table.segments, slot().segments);
    for len in 0..head.len() {
        assert!(SlotTable::decode(&head[..len]).is_err(), "{len} bytes");
    }
}

#[test]
fn a_key_that_is_too_long_keeps_its_beginning() {
    let key = "é".repeat(150);
    let segments = vec![SegmentRef { end: 3, layer: Layer::Tool, key }];
    let (_, read) = SlotRecord::decode(&SlotRecord { segments, ..slot() }.encode(MODEL)).unwrap();
    assert_eq!(read.segments[0].key, "é".repeat(100));
    assert_eq!(SegmentRef::bounded(&format!("x{}", "é".repeat(150))).len(), 199);
}

#[test]
fn a_slot_file_without_anything_is_read_back() {
    let empty = SlotRecord {
        tokens: Vec::new(),
        blocks: Vec::new(),
        snapshots: Vec::new(),
        segments: Vec::new(),
        ..slot()
    };
    assert_eq!(SlotRecord::decode(&empty.encode(MODEL)), Ok((MODEL, empty)));
}

/// Files of every released version, kept: whatever comes later must read them or refuse them
/// politely.
#[test]
fn files_of_version_one_are_still_read() {
    let file = include_bytes!("../../fixtures/block-v1.kv");
    assert_eq!(Object::decode(file.to_vec()), Ok(block()));
    assert_eq!(Object::from_checked(file.to_vec(), &[]), Ok(block()));
    assert_eq!(ObjectHeader::decode(file).unwrap().file_bytes(), file.len() as u64);
    let upgraded = Object::decode(file.to_vec()).unwrap().encode();
    assert_eq!(ObjectHeader::decode(&upgraded).unwrap().chunks().count(), 1);
    let file = include_bytes!("../../fixtures/snapshot-v1.kv");
    assert_eq!(Object::decode(file.to_vec()), Ok(snapshot()));

    let file = include_bytes!("../../fixtures/slot-v1.extended.bin");
    let slot = slot_of_version_one();
    assert_eq!(SlotRecord::decode(file), Ok((MODEL, slot.clone())));
    let table = SlotTable::decode(file).unwrap();
    assert_eq!(table.header.head_bytes(), file.len() as u64);
    assert!(table.objects().eq(slot.objects()));
}

#[test]
fn version_two_looks_like_its_specification() {
    use xxhash_rust::xxh3::{xxh3_64, xxh3_128};
    let file = block().encode();
    assert_eq!(&file[..16], b"HOBOBJ\0\x01\x02\0\x01\0\0\0\0\0");
    assert_eq!(&file[16..24], b"\x11model\x22\x33");
    assert_eq!(&file[56..80], b"\x03\0\0\0\0\0\0\0\x28\0\0\0\0\0\0\0\x28\0\0\0\0\0\0\0");
    assert_eq!(&file[104..116], b"\x01\0\0\0\x70\x11\x01\0\xff\xff\xff\xff");
    let digest = xxh3_128(&file[104..]).to_le_bytes();
    assert_eq!(xxh3_128(&digest).to_le_bytes(), file[80..96]);
    assert_eq!(xxh3_64(&file[..96]).to_le_bytes(), file[96..104]);

    let file = slot().encode(MODEL);
    assert_eq!(&file[..16], b"HOBSLT\0\x01\x02\0\x02\x08\x03\0\0\0");
    assert_eq!(&file[56..72], b"\x02\0\0\0\x07\0\0\0\x80\0\0\0\0\0\0\0");
    assert_eq!(&file[120..128], b"room-1.a");
    let (table, tokens) = file[128..].split_at(0x80);
    assert_eq!(&table[..4], b"\x03\0\0\0");
    assert_eq!(&table[4..36], &block().id().0);
    assert_eq!(&table[88..101], b"\x01\0\0\0\x02\0\0\0\0\0\0\0\0");
    assert_eq!(&table[101..], b"\x03\0\0\0\x0a\x0e\0\0\0\0\0\0\0file:config.py");
    assert_eq!(xxh3_128(table).to_le_bytes(), file[72..88]);
    assert_eq!(xxh3_128(tokens).to_le_bytes(), file[96..112]);
    assert_eq!(
        zstd::stream::decode_all(tokens).unwrap(),
        b"\x01\0\0\0\x70\x11\x01\0\xff\xff\xff\xff"
    );
}

proptest! {
    #[test]
    fn no_bytes_make_a_decoder_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        for version in 0..4 {
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
        counts in (0_u32..4, 0_u32..4, any::<u32>()),
    ) {
        let counts = codec::Counts { blocks: counts.0, snapshots: counts.1, segments: counts.2 };
        let _ = codec::decode(&bytes, &counts);
        let _ = codec::decode_v1(&bytes, counts.segments, &counts);
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
