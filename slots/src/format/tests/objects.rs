use super::*;

#[test]
fn an_object_is_read_back_as_it_was_written() {
    for object in [block(), snapshot(), partial(), lossy()] {
        let file = object.encode();
        assert_eq!(file.len() as u64, object.file_bytes());
        assert_eq!(Object::decode(file), Ok(object));
    }
}

#[test]
fn the_payload_is_a_range_of_the_buffer_that_was_read() {
    let file = block().encode();
    let (address, len) = (file.as_ptr() as usize, file.len());
    let payload = Object::decode(file).unwrap().payload;
    assert_eq!(payload.as_ptr() as usize + payload.len(), address + len);
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
fn an_incompressible_payload_stays_raw() {
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

/// An object with a compressed payload of `raw` zeros.
fn zeros(raw: usize) -> Vec<u8> {
    let payload = vec![0; raw];
    let stored = pack::pack(&payload, pack::Arrangement::Planes, 1, usize::MAX).unwrap();
    let mut checksum = chunks::BodyHash::from(ObjectHeader::BYTES as u64);
    checksum.update(&stored);
    let mut file = Object { payload: payload.into(), ..snapshot() }.encode_head();
    file[11] = 1;
    file[72..80].copy_from_slice(&(stored.len() as u64).to_le_bytes());
    file[80..96].copy_from_slice(&checksum.finish().to_le_bytes());
    file.extend_from_slice(&stored);
    resealed(file, 96, 0..0)
}

#[test]
fn a_file_that_unpacks_to_more_than_a_thousand_times_its_bytes_is_neither_read_nor_written() {
    let piece = 1 << 20;
    assert_eq!(Object::decode(zeros(piece)).unwrap().payload.len(), piece);
    let file = zeros(16 * piece);
    assert!(file.len() < 4_096, "{} bytes", file.len());
    let refused = FormatError::Field { field: "payload bytes", value: 16 << 20 };
    assert_eq!(ObjectHeader::decode(&file), Err(refused.clone()));
    assert_eq!(Object::decode(file), Err(refused));
    let raw = Object { payload: vec![0; 16 * piece].into(), ..snapshot() }.encode();
    assert_eq!(Object::compressed(&raw, 1), Ok(None));
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

proptest! {
    #[test]
    fn any_object_is_read_back_raw_compressed_and_sealed(
        tokens in 0_usize..70,
        words in prop::collection::vec(0_u16..600, 0..2_000),
        odd: bool,
        start: u32,
        level in 1..6,
    ) {
        let mut payload: Vec<u8> = words.into_iter().flat_map(u16::to_le_bytes).collect();
        payload.extend(odd.then_some(9));
        let kind = if tokens == 0 { ObjectKind::Snapshot } else { ObjectKind::Block };
        let tokens = (0..tokens as i32).map(Token).collect();
        let object = Object { kind, start, tokens, payload: payload.into(), ..block() };
        let file = object.encode();
        prop_assert_eq!(file.len() as u64, object.file_bytes());
        prop_assert_eq!(Object::decode(file.clone()), Ok(object.clone()));

        let seal = Seal::new([7; 32]);
        let opened = seal.open(b"name", seal.seal(b"name", &[&object.encode_head(), &object.payload]));
        prop_assert_eq!(opened.as_ref(), Ok(&file));

        let compressed = Object::compressed(&file, level).unwrap();
        if let Some(compressed) = compressed {
            prop_assert!(compressed.len() as f64 <= 0.95 * file.len() as f64);
            prop_assert_eq!(Object::decode(compressed), Ok(object));
        }
    }
}
