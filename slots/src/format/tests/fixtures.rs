//! Files of every released version. The decoder must read them or refuse them with a reason.
//!
//! `HOB_WRITE_FIXTURES=1 cargo test -p hob-slots fixtures` writes those of the latest version.
//! Released files never change: when an update of zstd produces other frames, the old files stay
//! beside the new ones.

use std::fs;
use std::path::Path;

use super::*;

/// The latest version, as written today.
fn latest() -> [(&'static str, Vec<u8>); 10] {
    let compressed = |object: &Object| Object::compressed(&object.encode(), 1).unwrap().unwrap();
    let nonce = *b"nineteen bytes long";
    [
        ("block-v2.kv", block().encode()),
        ("block-v2.compressed.kv", compressed(&long_block())),
        ("snapshot-v2.kv", snapshot().encode()),
        ("snapshot-v2.compressed.kv", compressed(&snapshot_of(3_000_000))),
        ("partial-v3.kv", partial().encode()),
        ("lossy-v4.kv", lossy().encode()),
        ("slot-v3.extended.bin", slot().encode(MODEL)),
        ("slot-v4.extended.bin", slot_with_adapters().encode(MODEL)),
        ("slot-v5.extended.bin", slot_with_lineage().encode(MODEL)),
        ("block-v2.sealed-v1.kv", seal().seal_with(nonce, b"name", &[&block().encode()])),
    ]
}

/// Words whose high bytes repeat, and an odd last byte.
fn long_block() -> Object {
    let byte = |n: u32| if n % 2 == 1 { 0x3c } else { (n * n / 7) as u8 };
    Object { payload: (0..1_001).map(byte).collect::<Vec<_>>().into(), ..block() }
}

fn seal() -> Seal {
    Seal::new(*b"thirty-two bytes, known to all!!")
}

#[test]
fn files_of_the_latest_version_are_still_written() {
    for (name, file) in latest() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(name);
        if std::env::var_os("HOB_WRITE_FIXTURES").is_some() {
            fs::write(&path, &file).unwrap();
        }
        assert!(fs::read(&path).unwrap() == file, "{name}");
    }
}

#[test]
fn files_of_versions_two_to_five_are_still_read() {
    let object = |file: &[u8]| Object::decode(file.to_vec());
    assert_eq!(object(include_bytes!("../../../fixtures/block-v2.kv")), Ok(block()));
    let file = include_bytes!("../../../fixtures/block-v2.compressed.kv");
    assert_eq!(object(file), Ok(long_block()));
    assert_eq!(object(include_bytes!("../../../fixtures/snapshot-v2.kv")), Ok(snapshot()));
    let file = include_bytes!("../../../fixtures/snapshot-v2.compressed.kv");
    assert_eq!(object(file), Ok(snapshot_of(3_000_000)));
    assert_eq!(object(include_bytes!("../../../fixtures/partial-v3.kv")), Ok(partial()));
    assert_eq!(object(include_bytes!("../../../fixtures/lossy-v4.kv")), Ok(lossy()));
    let file = include_bytes!("../../../fixtures/slot-v2.extended.bin");
    assert_eq!(SlotRecord::decode(file), Ok((MODEL, slot_of_version_two())));
    let file = include_bytes!("../../../fixtures/slot-v3.extended.bin");
    assert_eq!(SlotRecord::decode(file), Ok((MODEL, slot())));
    let file = include_bytes!("../../../fixtures/slot-v4.extended.bin");
    assert_eq!(SlotRecord::decode(file), Ok((MODEL, slot_with_adapters())));
    let file = include_bytes!("../../../fixtures/slot-v5.extended.bin");
    assert_eq!(SlotRecord::decode(file), Ok((MODEL, slot_with_lineage())));
    let file = include_bytes!("../../../fixtures/block-v2.sealed-v1.kv");
    assert_eq!(Object::decode(file.to_vec()), Err(FormatError::Sealed));
    assert_eq!(seal().open(b"name", file.to_vec()), Ok(block().encode()));
}

/// Files of every released version. The decoder must read them or refuse them with a reason.
///
/// `HOB_WRITE_FIXTURES=1 cargo test -p hob-slots fixtures` writes those of the latest version.
/// Released files never change: when an update of zstd produces other frames, the old files stay
/// beside the new ones.
#[test]
fn files_of_version_one_are_still_read() {
    let file = include_bytes!("../../../fixtures/block-v1.kv");
    assert_eq!(Object::decode(file.to_vec()), Ok(block()));
    assert_eq!(Object::from_checked(file.to_vec(), &[]), Ok(block()));
    assert_eq!(ObjectHeader::decode(file).unwrap().file_bytes(), file.len() as u64);
    let upgraded = Object::decode(file.to_vec()).unwrap().encode();
    assert_eq!(ObjectHeader::decode(&upgraded).unwrap().chunks().count(), 1);
    let file = include_bytes!("../../../fixtures/snapshot-v1.kv");
    assert_eq!(Object::decode(file.to_vec()), Ok(snapshot()));

    let file = include_bytes!("../../../fixtures/slot-v1.extended.bin");
    let slot = slot_of_version_one();
    assert_eq!(SlotRecord::decode(file), Ok((MODEL, slot.clone())));
    let table = SlotTable::decode(file).unwrap();
    assert_eq!(table.header.head_bytes(), file.len() as u64);
    assert!(table.objects().eq(slot.objects()));
}

#[test]
fn the_latest_version_looks_like_its_specification() {
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
    assert_eq!(&file[..16], b"HOBSLT\0\x01\x03\0\x02\x08\x03\0\0\0");
    assert_eq!(&file[56..72], b"\x02\0\0\0\x07\0\0\0\xe2\0\0\0\0\0\0\0");
    assert_eq!(&file[112..120], b"\x02\0\0\0\0\0\0\0");
    let covered = [&file[..120], b"room-1.a"].concat();
    assert_eq!(xxh3_64(&covered).to_le_bytes(), file[120..128]);
    assert_eq!(&file[128..136], b"room-1.a");
    let (table, tokens) = file[136..].split_at(0x80 + 2 * 49);
    assert_eq!(&table[..4], b"\x03\0\0\0");
    assert_eq!(&table[4..36], &block().id().0);
    assert_eq!(&table[88..101], b"\x01\0\0\0\x02\0\0\0\0\0\0\0\0");
    assert_eq!(&table[101..128], b"\x03\0\0\0\x0a\x0e\0\0\0\0\0\0\0file:config.py");
    assert_eq!(&table[128..137], b"\x01\x02\0\0\0\x09\0\0\0");
    assert_eq!(&table[137..169], &[0xb1; 32]);
    assert_eq!(&table[169..177], &7_000_u64.to_le_bytes());
    assert_eq!(&table[177..186], b"\x02\0\0\0\0\x09\0\0\0");
    assert_eq!(xxh3_128(table).to_le_bytes(), file[72..88]);
    assert_eq!(xxh3_128(tokens).to_le_bytes(), file[96..112]);
    assert_eq!(
        zstd::stream::decode_all(tokens).unwrap(),
        b"\x01\0\0\0\x70\x11\x01\0\xff\xff\xff\xff"
    );
}

#[test]
fn a_rounded_block_has_a_version_that_earlier_programs_refuse() {
    let file = lossy().encode();
    assert_eq!(&file[..12], b"HOBOBJ\0\x01\x04\0\x04\0");
    assert_ne!(lossy().id(), block().id());
    assert_eq!(Object::compressed(&file, 3), Ok(None));
    let earlier = [&file[..8], &[3], &file[9..]].concat();
    let earlier = resealed(earlier, 96, 0..0);
    assert_eq!(ObjectHeader::decode(&earlier), Err(FormatError::Field { field: "kind", value: 4 }));
}

#[test]
fn version_five_looks_like_its_specification() {
    use xxhash_rust::xxh3::{xxh3_64, xxh3_128};
    let file = slot_with_lineage().encode(MODEL);
    assert_eq!(&file[..16], b"HOBSLT\0\x01\x05\0\x02\x08\x08\0\0\0");
    assert_eq!(&file[112..128], b"\x02\0\0\0\x02\0\0\0\x02\0\0\0\x01\0\0\0");
    let covered = [&file[..128], b"room-1.a"].concat();
    assert_eq!(xxh3_64(&covered).to_le_bytes(), file[128..136]);
    assert_eq!(&file[136..144], b"room-1.a");
    let table_bytes = 4 * 44 + 44 + 15 + 29 + 2 * 49 + 2 * 36 + 2 * 20 + 8;
    assert_eq!(file[64..72], (table_bytes as u64).to_le_bytes());
    let (table, tokens) = file[144..].split_at(table_bytes);
    assert_eq!(xxh3_128(table).to_le_bytes(), file[72..88]);
    assert_eq!(xxh3_128(tokens).to_le_bytes(), file[96..112]);
    assert_eq!(&table[220..235], b"\x01\0\0\0\x02\0\0\0\0\0\0\0\0\x32\x01");
    assert_eq!(&table[248..264], b"file:config.py\x5a\0");
    let lineage = &table[table_bytes - 48..];
    assert_eq!(&lineage[..20], b"\x04\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0");
    assert_eq!(lineage[20..24], [8, 0, 0, 0]);
    assert_eq!(lineage[24..40], [0xc1; 16]);
    assert_eq!(&lineage[40..], b"\x02\0\0\0\x04\0\0\0");
}
