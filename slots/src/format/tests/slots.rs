use super::*;

#[test]
fn a_slot_file_is_read_back_as_it_was_written() {
    let without_adapters = SlotRecord { adapters: AdapterSet::default(), ..slot_with_lineage() };
    for slot in [slot(), slot_with_adapters(), slot_with_lineage(), without_adapters] {
        assert_eq!(SlotRecord::decode(&slot.encode(MODEL)), Ok((MODEL, slot)));
    }
}

#[test]
fn a_file_has_the_earliest_version_that_holds_its_content() {
    let weighed = |weight, pinned| {
        let mut slot = slot();
        slot.segments[1] = SegmentRef { weight, pinned, ..slot.segments[1].clone() };
        slot
    };
    let pure = Lineage::default();
    for (slot, version) in [
        (slot(), 3),
        (slot_with_adapters(), 4),
        (weighed(SegmentRef::DEFAULT_WEIGHT, false), 3),
        (weighed(0, false), 5),
        (weighed(SegmentRef::DEFAULT_WEIGHT, true), 5),
        (SlotRecord { segments: Vec::new(), ..slot_with_lineage() }, 5),
        (SlotRecord { lineage: pure, ..slot_with_lineage() }, 5),
        (
            SlotRecord { lineage: Lineage::default(), segments: Vec::new(), ..slot_with_lineage() },
            4,
        ),
    ] {
        let file = slot.encode(MODEL);
        assert_eq!(file[8..10], [version, 0]);
        assert_eq!(SlotRecord::decode(&file), Ok((MODEL, slot)));
    }
}

#[test]
fn the_table_is_read_from_the_first_part_of_a_slot_file() {
    let file = slot().encode(MODEL);
    let header = SlotHeader::decode(&file).unwrap();
    let head = &file[..header.head_bytes() as usize];
    assert!(head.len() < file.len());
    let table = SlotTable::decode(head).unwrap();
    let header = &table.header;
    assert_eq!((header.turns, header.segments, header.branches), (7, 2, 2));
    assert!(table.objects().eq(slot().objects()));
    assert_eq!(table.blocks, slot().blocks);
    assert_eq!(table.snapshots, slot().snapshots);
    assert_eq!(table.segments, slot().segments);
    assert_eq!(table.branches, slot().branches);
    for len in 0..head.len() {
        assert!(SlotTable::decode(&head[..len]).is_err(), "{len} bytes");
    }
}

#[test]
fn a_key_that_is_too_long_keeps_its_beginning() {
    let key = "é".repeat(150);
    let segments = vec![SegmentRef::new(3, Layer::Tool, key)];
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
        branches: Vec::new(),
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
        let record = SlotRecord { blocks, ..slot() };
        let file = record.encode_unchecked(MODEL);
        assert!(matches!(SlotRecord::decode(&file), Err(FormatError::Record { .. })));
        assert!(std::panic::catch_unwind(|| record.encode(MODEL)).is_err(), "it is not written");
    }
    let branches = vec![BranchRef { end: 2, ..slot().branches[0] }];
    let file = SlotRecord { branches, ..slot() }.encode_unchecked(MODEL);
    assert!(matches!(SlotRecord::decode(&file), Err(FormatError::Record { .. })));
}

#[test]
fn a_record_covers_every_strict_prefix_of_its_tokens() {
    let record = slot();
    let none = AdapterSet::default();
    for len in 0..record.tokens.len() {
        assert!(record.covers(&none, &record.tokens[..len]));
        assert!(!record.covers(&slot_with_adapters().adapters, &record.tokens[..len]));
        assert_eq!(record.shared_with(&none, &record.tokens[..len]), len);
        assert_eq!(slot_with_adapters().shared_with(&none, &record.tokens[..len]), 0);
    }
    assert!(!record.covers(&none, &record.tokens));
    assert!(!record.covers(&none, &[record.tokens[0], Token(-1)]));
}

/// By the numbers of tokens and blocks: where views change, and which blocks are away.
type Cuts = (Vec<(u32, u8)>, Vec<bool>);

fn cuts() -> impl Strategy<Value = Cuts> {
    (prop::collection::vec((1_u32..400, 0_u8..3), 0..5), prop::collection::vec(any::<bool>(), 12))
}

/// A lineage that these cuts make of a timeline.
fn lineage((cuts, is_away): Cuts, blocks: &[BlockRef], tokens: u32) -> Lineage {
    let mut ends: Vec<(u32, u8)> = cuts.into_iter().filter(|&(end, _)| end < tokens).collect();
    ends.sort_by_key(|&(end, _)| end);
    let mut views: Vec<ViewRun> = Vec::new();
    for (end, digit) in ends.into_iter().chain([(tokens, 1)]) {
        let view = View::from_bytes([digit; View::BYTES]);
        match views.last_mut() {
            Some(last) if last.end == end => {}
            Some(last) if last.view == view => last.end = end,
            _ => views.push(ViewRun { end, view }),
        }
    }
    let starts = [0].into_iter().chain(blocks.iter().map(|block| block.end));
    let ranges = starts.zip(blocks).map(|(start, block)| start..block.end);
    let away = ranges.zip(is_away).filter(|(block, away)| *away && block.end < tokens);
    Lineage { views, away: away.map(|(block, _)| block).collect() }
}

fn records() -> impl Strategy<Value = SlotRecord> {
    let named = || (any::<[u8; 32]>(), any::<u32>());
    let tokens = prop::collection::vec(any::<i32>(), 1..400);
    let blocks = prop::collection::btree_map(1_u32..400, named(), 0..12);
    let snapshots = prop::collection::vec((1_u32..400, named()), 0..3);
    let weight = prop_oneof![2 => Just((SegmentRef::DEFAULT_WEIGHT, false)), 1 => (0_u8..=100, any::<bool>())];
    let label = (prop::sample::select(&Layer::ALL[..]), "\\PC{0,50}", weight);
    let segments = prop::collection::btree_map(1_u32..400, label, 0..6);
    let branches = prop::collection::vec((any::<bool>(), 1_u32..400, named()), 0..6);
    let numbers = (any::<u64>(), any::<u64>(), any::<u32>());
    let class = prop::sample::select(&TtlClass::ALL[..]);
    let adapters = prop::collection::btree_map(any::<[u8; 32]>(), 0.1_f32..2.0, 0..3);
    let cuts = prop::option::of(cuts());
    let lists = (blocks, snapshots, segments, branches, adapters, cuts);
    (tokens, lists, numbers, class, "[a-z.é]{1,60}").prop_map(
        |(tokens, lists, numbers, class, name)| {
            let (mut blocks, mut snapshots, mut segments, branches, adapters, cuts) = lists;
            let lora = |(content, scale)| Lora { sha256: FileDigest(content), scale };
            let adapters = AdapterSet::new(adapters.into_iter().map(lora).collect()).unwrap();
            let end = tokens.len() as u32;
            blocks.retain(|&at, _| at <= end);
            snapshots.retain(|&(at, _)| at <= end);
            segments.retain(|&at, _| at <= end);
            let block =
                |(end, (id, bytes))| BlockRef { end, id: BlockId(id), bytes: u64::from(bytes) };
            let blocks: Vec<BlockRef> = blocks.into_iter().map(block).collect();
            SlotRecord {
                lineage: cuts.map(|cuts| lineage(cuts, &blocks, end)).unwrap_or_default(),
                conversation: name.parse().unwrap(),
                adapters,
                class,
                created_at: Timestamp(numbers.0),
                used_at: Timestamp(numbers.1),
                turns: numbers.2,
                tokens: tokens.into_iter().map(Token).collect(),
                blocks,
                snapshots: snapshots
                    .into_iter()
                    .map(|(position, (id, bytes))| SnapshotRef {
                        position,
                        id: BlockId(id),
                        bytes: bytes.into(),
                    })
                    .collect(),
                segments: segments
                    .into_iter()
                    .map(|(end, (layer, key, (weight, pinned)))| SegmentRef {
                        weight,
                        pinned,
                        ..SegmentRef::new(end, layer, SegmentRef::bounded(&key))
                    })
                    .collect(),
                branches: branches
                    .into_iter()
                    .map(|(is_block, end, (id, bytes))| BranchRef {
                        kind: if is_block { ObjectKind::Block } else { ObjectKind::Snapshot },
                        start: if is_block { end - 1 } else { 0 },
                        end,
                        id: BlockId(id),
                        bytes: bytes.into(),
                    })
                    .collect(),
            }
        },
    )
}

proptest! {
    #[test]
    fn any_record_is_read_back(record in records()) {
        let file = record.encode(MODEL);
        prop_assert_eq!(SlotRecord::decode(&file), Ok((MODEL, record.clone())));
        let header = SlotHeader::decode(&file).unwrap();
        prop_assert_eq!(header.file_bytes(), file.len() as u64);
        let table = SlotTable::decode(&file[..header.head_bytes() as usize]).unwrap();
        prop_assert_eq!(&table.header, &header);
        prop_assert!(table.objects().eq(record.objects()));
        prop_assert_eq!(&table.segments, &record.segments);
        prop_assert_eq!(&table.branches, &record.branches);
        prop_assert_eq!(&table.lineage, &record.lineage);
    }
}
