//! Every flipped bit, missing end and appended byte is found, in files of 64 KiB of each kind.
//!
//! Optimized builds test all of them, but only every seventh bit of a sealed file: its tag takes
//! ten times as long as a checksum. Other builds test a sample of the whole file. `HOB_TEST_ALL=1`
//! tests everything.

use std::thread;

use super::*;

const FILE_BYTES: usize = 64 << 10;

/// A file and its decoder.
struct Kind {
    name: &'static str,
    file: Vec<u8>,
    reads: fn(&[u8]) -> bool,
    /// One of this many flips is tested.
    step: usize,
}

fn kinds() -> [Kind; 5] {
    let object = |file: &[u8]| Object::decode(file.to_vec()).is_ok();
    let sealed = |file: &[u8]| seal().open(b"name", file.to_vec()).is_ok();
    let raw = raw_object();
    let clear = FILE_BYTES - Seal::sealed_bytes(0) as usize;
    [
        Kind {
            name: "slot file",
            file: slot_file(Lineage::default()),
            reads: |file| SlotRecord::decode(file).is_ok(),
            step: 1,
        },
        Kind {
            name: "slot file with a lineage",
            file: slot_file(Lineage { views: Vec::new(), away: vec![0..1, 250..499] }),
            reads: |file| SlotRecord::decode(file).is_ok(),
            step: 1,
        },
        Kind { name: "object", file: raw.clone(), reads: object, step: 1 },
        Kind { name: "compressed object", file: compressed_object(), reads: object, step: 1 },
        Kind {
            name: "sealed object",
            file: seal().seal(b"name", &[&raw[..clear]]),
            reads: sealed,
            step: 7,
        },
    ]
}

fn seal() -> Seal {
    Seal::new([7; 32])
}

#[test]
fn every_flipped_bit_is_found() {
    for Kind { name, file, reads, step } in kinds() {
        assert!((FILE_BYTES..FILE_BYTES + 512).contains(&file.len()), "{name}: {}", file.len());
        assert!(reads(&file), "{name}");
        on_all_cores(&file, 8 * file.len(), step, |file, bit| {
            file[bit / 8] ^= 1 << (bit % 8);
            assert!(!reads(file), "{name}, bit {bit}");
            file[bit / 8] ^= 1 << (bit % 8);
        });
    }
}

#[test]
fn every_missing_end_is_found() {
    for Kind { name, file, reads, .. } in kinds() {
        on_all_cores(&file, file.len(), 1, |file, len| {
            assert!(!reads(&file[..len]), "{name} of {len} bytes");
        });
    }
}

#[test]
fn appended_bytes_are_found_up_to_4096() {
    for Kind { name, file, reads, .. } in kinds() {
        for byte in [0, 0xff, *file.last().unwrap()] {
            let longer = [&file[..], &[byte; 4_096]].concat();
            on_all_cores(&longer, 4_096, 1, |longer, more| {
                let len = file.len() + more + 1;
                assert!(!reads(&longer[..len]), "{name} and {more} bytes more");
            });
        }
    }
}

/// Calls `check` with every `step`th number below `count`, or a sample of them, and with a copy of
/// `file` for each core.
fn on_all_cores(file: &[u8], count: usize, step: usize, check: impl Fn(&mut [u8], usize) + Sync) {
    let step = match std::env::var_os("HOB_TEST_ALL") {
        Some(_) => 1,
        None if cfg!(debug_assertions) => 1_021, // A prime, so that every bit of a byte is met.
        None => step,
    };
    let cores = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        for core in 0..cores {
            let (mut file, check) = (file.to_vec(), &check);
            scope.spawn(move || {
                let mine = (core * step..count).step_by(cores * step);
                mine.for_each(|number| check(&mut file, number));
            });
        }
    });
}

fn raw_object() -> Vec<u8> {
    let tokens: Vec<_> = (0..64).map(Token).collect();
    let payload = noise(FILE_BYTES - ObjectHeader::BYTES - 4 * tokens.len());
    Object { tokens, payload: payload.into(), ..block() }.encode()
}

/// Words with random low bytes alone.
fn compressed_object() -> Vec<u8> {
    let words = noise(FILE_BYTES).into_iter().flat_map(|low| [low, 0x3c]);
    let object = Object { payload: words.collect::<Vec<_>>().into(), ..block() };
    Object::compressed(&object.encode(), 1).unwrap().unwrap()
}

fn slot_file(lineage: Lineage) -> Vec<u8> {
    let blocks = (1..=500).map(|end| BlockRef { end, id: block().id(), bytes: 1 });
    let tokens = bytes::tokens_from(&noise(FILE_BYTES - 500 * 44));
    SlotRecord { tokens, blocks: blocks.collect(), lineage, ..slot() }.encode(MODEL)
}

/// Incompressible bytes.
fn noise(bytes: usize) -> Vec<u8> {
    let mut state = 1_u64;
    let byte = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 56) as u8
    };
    std::iter::repeat_with(byte).take(bytes).collect()
}
