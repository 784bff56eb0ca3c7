//! Randomly changed files: no decoder panics or allocates what a field claims, and a file is either
//! refused or read whole.
//!
//! Every run tests the same cases. `fuzz/` runs longer.

use hob_slots::{Object, Seal, SlotRecord, SlotTable};

mod checksums;

/// Two seconds of cases, optimized.
const CASES: u64 = if cfg!(debug_assertions) { 1_000 } else { 20_000 };

/// Far above the size of any of these files, far below the claim of a field.
#[cfg(target_os = "linux")]
const MAX_MORE_BYTES: u64 = 32 << 20;

const OBJECTS: [&[u8]; 6] = [
    include_bytes!("../fixtures/block-v1.kv"),
    include_bytes!("../fixtures/snapshot-v1.kv"),
    include_bytes!("../fixtures/block-v2.kv"),
    include_bytes!("../fixtures/block-v2.compressed.kv"),
    include_bytes!("../fixtures/snapshot-v2.kv"),
    include_bytes!("../fixtures/snapshot-v2.compressed.kv"),
];
const SLOT_FILES: [&[u8]; 5] = [
    include_bytes!("../fixtures/slot-v1.extended.bin"),
    include_bytes!("../fixtures/slot-v2.extended.bin"),
    include_bytes!("../fixtures/slot-v3.extended.bin"),
    include_bytes!("../fixtures/slot-v4.extended.bin"),
    include_bytes!("../fixtures/slot-v5.extended.bin"),
];
const SEALED: &[u8] = include_bytes!("../fixtures/block-v2.sealed-v1.kv");

/// The only test of its process: it measures the peak memory of the process.
#[test]
fn a_mutated_file_is_refused_or_whole_and_allocates_no_more_than_its_bytes() {
    let before = peak_bytes();
    let (mut read, mut corrected) = (0, 0);
    for case in 0..CASES {
        let mut random = Random(case);
        let [a, b] = [&OBJECTS[..], &SLOT_FILES].map(|files| files[random.below(files.len())]);
        corrected += u32::from(object(a, &mut random));
        corrected += u32::from(slot_file(b, &mut random));
        read += 2;
        let sealed = mutated(SEALED, &mut random);
        let opened = Seal::new(*b"thirty-two bytes, known to all!!").open(b"name", sealed.clone());
        assert!(opened.is_err() || sealed == SEALED, "case {case}");
    }
    // Many of the cases have valid checksums and are read whole.
    assert!(corrected > read / 50, "{corrected} of {read}");
    let more = peak_bytes().saturating_sub(before);
    #[cfg(target_os = "linux")]
    assert!(more < MAX_MORE_BYTES, "{more} bytes were taken");
    #[cfg(not(target_os = "linux"))]
    let _ = more;
}

/// Whether the corrected file was read.
fn object(original: &[u8], random: &mut Random) -> bool {
    let mut file = mutated(original, random);
    if let Ok(object) = Object::decode(file.clone()) {
        assert!(file == original, "a changed object was taken");
        assert_eq!(Object::decode(object.encode()), Ok(object));
    }
    checksums::correct_object(&mut file);
    let Ok(object) = Object::decode(file.clone()) else { return false };
    let _ = Object::compressed(&file, 1).expect("what is read can be compressed");
    assert_eq!(Object::decode(object.encode()), Ok(object));
    true
}

/// Whether the corrected file was read.
fn slot_file(original: &[u8], random: &mut Random) -> bool {
    let mut file = mutated(original, random);
    if SlotRecord::decode(&file).is_ok() {
        assert!(file == original, "a changed slot file was taken");
    }
    checksums::correct_slot_file(&mut file);
    let table = SlotTable::decode(&file);
    let Ok((model, record)) = SlotRecord::decode(&file) else { return false };
    let table = table.expect("a whole file has a whole table");
    let lists = (table.blocks, table.snapshots, table.segments, table.branches, table.lineage);
    let SlotRecord { blocks, snapshots, segments, branches, lineage, .. } = record.clone();
    assert!(lists == (blocks, snapshots, segments, branches, lineage));
    assert_eq!(SlotRecord::decode(&record.encode(model)), Ok((model, record)));
    true
}

/// One to four changes, as disks, crashes or attackers make them.
fn mutated(original: &[u8], random: &mut Random) -> Vec<u8> {
    let mut file = original.to_vec();
    for _ in 0..=random.below(4) {
        let at = random.below(file.len().max(1));
        match random.below(8) {
            _ if file.is_empty() => file.push(random.byte()),
            0 => file[at] ^= 1 << random.below(8),
            1 => file[at] = random.byte(),
            2 => file.truncate(at),
            3 => file.extend((0..random.below(64)).map(|n| n as u8)),
            4 => drop(file.drain(at..(at + 8).min(original.len()).min(file.len()).max(at))),
            5 => drop(file.splice(at..at, [random.byte(); 8])),
            // A huge or empty field.
            6 => {
                let end = (at + 8).min(file.len());
                file[at..end].fill([0, 0x7f, 0xff][random.below(3)]);
            }
            _ => {
                let from = random.below(file.len());
                let len = random.below(32).min(file.len() - at).min(file.len() - from);
                file.copy_within(from..from + len, at);
            }
        }
    }
    file
}

/// The peak address space of this process.
fn peak_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmPeak:"));
    let kib = peak.and_then(|peak| peak.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    kib.unwrap_or(0) * 1_024
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        // SplitMix64: neighbouring seeds give unlike numbers.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, count: usize) -> usize {
        (self.next() % count as u64) as usize
    }

    fn byte(&mut self) -> u8 {
        self.next() as u8
    }
}
