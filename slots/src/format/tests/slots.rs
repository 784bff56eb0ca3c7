//! What the format promises about slot files.

use super::*;

#[test]
fn a_slot_file_is_read_back_as_it_was_written() {
    assert_eq!(SlotRecord::decode(&slot().encode(MODEL)), Ok((MODEL, slot())));
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
