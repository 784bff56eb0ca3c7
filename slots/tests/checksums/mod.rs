//! Corrects the lengths and checksums of a changed file, so that decoding reaches the fields behind
//! them. The tests of mutated files and the fuzz targets use it; offsets are in `docs/FORMAT.md`.

use std::ops::Range;

use xxhash_rust::xxh3::{xxh3_64, xxh3_128};

/// Longer files have several chunks and are not corrected.
const CHUNK_BYTES: usize = 1 << 20;

/// Corrects an object, as far as it goes.
pub fn correct_object(file: &mut [u8]) {
    if file.len() < 104 || file.len() > CHUNK_BYTES {
        return;
    }
    let tokens_bytes = 4 * u64::from(u32::from_le_bytes(file[56..60].try_into().unwrap()));
    if file[8] == 1 {
        put_u64(file, 64, (file.len() as u64 - 96).saturating_sub(tokens_bytes));
        put_u128(file, 72, xxh3_128(&file[96..]));
        put_u64(file, 88, xxh3_64(&file[..88]));
        return;
    }
    let stored = (file.len() as u64 - 104).saturating_sub(tokens_bytes);
    put_u64(file, 72, stored);
    if file[11] == 0 {
        put_u64(file, 64, stored);
    }
    let digests = match &file[104..] {
        [] => Vec::new(),
        body => xxh3_128(body).to_le_bytes().to_vec(),
    };
    put_u128(file, 80, xxh3_128(&digests));
    put_u64(file, 96, xxh3_64(&file[..96]));
}

/// Corrects a slot file, as far as it goes. The table keeps its length if possible.
pub fn correct_slot_file(file: &mut [u8]) {
    if file.len() < 120 {
        return;
    }
    let name_bytes = usize::from(file[11]);
    if file[8] == 1 {
        let Some(record) = file.get(88 + name_bytes..) else { return };
        let (len, checksum) = (record.len() as u64, xxh3_128(record));
        put_u64(file, 56, len);
        put_u128(file, 64, checksum);
        return put_header_checksum(file, 80, 88..88 + name_bytes);
    }
    let header_bytes = match file[8] {
        2 => 120,
        3 | 4 => 128,
        _ => 136,
    };
    let name = header_bytes..header_bytes + name_bytes;
    let Some(parts) = file.get(name.end..) else { return };
    let table_bytes = u64::from_le_bytes(file[64..72].try_into().unwrap());
    let (table, tokens) = parts.split_at((parts.len() as u64).min(table_bytes) as usize);
    let (table, tokens) = [table, tokens].map(|part| (part.len() as u64, xxh3_128(part))).into();
    for (at, (len, checksum)) in [(64, table), (88, tokens)] {
        put_u64(file, at, len);
        put_u128(file, at + 8, checksum);
    }
    put_header_checksum(file, header_bytes - 8, name);
}

fn put_header_checksum(file: &mut [u8], at: usize, name: Range<usize>) {
    let covered = [&file[..at], &file[name]].concat();
    put_u64(file, at, xxh3_64(&covered));
}

fn put_u64(file: &mut [u8], at: usize, value: u64) {
    file[at..at + 8].copy_from_slice(&value.to_le_bytes());
}

fn put_u128(file: &mut [u8], at: usize, value: u128) {
    file[at..at + 16].copy_from_slice(&value.to_le_bytes());
}
