//! What each level of compression saves of KV, and what it costs: a table.
//!
//! ```sh
//! cargo run --release -p hob-slots --example compression_levels [object files…]
//! ```
//!
//! Without files it makes blocks of 16-bit floats as a model's cache holds them: normally
//! distributed, each channel with a scale of its own.

use std::hint::black_box;
use std::time::{Duration, Instant};

use hob_slots::format::{Object, ObjectKind, Seal, chunk_digest};
use hob_slots::{BlockId, ModelHash, Token};

const LEVELS: [i32; 12] = [-20, -5, -3, -1, 1, 2, 3, 4, 5, 6, 7, 9];
const SHORTEST: Duration = Duration::from_millis(500);

fn main() {
    let paths: Vec<_> = std::env::args().skip(1).collect();
    let files = if paths.is_empty() {
        (0..4).map(synthetic).collect()
    } else {
        paths.iter().map(|path| std::fs::read(path).expect("a file")).collect::<Vec<_>>()
    };
    let files: Vec<_> =
        files.into_iter().map(|file| Object::decode(file).expect("an object").encode()).collect();
    let bytes: usize = files.iter().map(Vec::len).sum();
    println!("{} objects, {bytes} bytes; speeds of one core, in MB/s of raw bytes\n", files.len());
    println!("level   left  compress  decompress");
    for level in LEVELS {
        let compressed = |file: &Vec<u8>| Object::compressed(file, level).expect("a whole file");
        let stored: Vec<_> =
            files.iter().map(|file| compressed(file).unwrap_or(file.clone())).collect();
        let left: usize = stored.iter().map(Vec::len).sum();
        let ratio = left as f64 / bytes as f64;
        let packing = bytes as f64 / fastest(&files, |file| compressed(file));
        let unpacking = bytes as f64 / fastest(&stored, |file| Object::decode(file.clone()));
        println!("{level:>5}  {ratio:.3}  {packing:>8.0}  {unpacking:>10.0}");
    }
    let seal = Seal::new([7; 32]);
    let sealed: Vec<_> = files.iter().map(|file| seal.seal(b"name", &[file])).collect();
    let hashing = bytes as f64 / fastest(&files, |file| chunk_digest(file));
    let sealing = bytes as f64 / fastest(&files, |file| seal.seal(b"name", &[file]));
    let opening = bytes as f64 / fastest(&sealed, |file| seal.open(b"name", file.clone()));
    println!("\nhashing {hashing:.0}, sealing {sealing:.0}, opening {opening:.0} MB/s");
}

/// The microseconds of the fastest round over `files`: other programs slow down some.
fn fastest<T>(files: &[Vec<u8>], work: impl Fn(&Vec<u8>) -> T) -> f64 {
    let (begun, mut best) = (Instant::now(), Duration::MAX);
    while begun.elapsed() < SHORTEST {
        let round = Instant::now();
        for file in files {
            black_box(work(file));
        }
        best = best.min(round.elapsed());
    }
    best.as_secs_f64() * 1e6
}

/// A block of 64 tokens in the shape of a model of half a billion weights.
fn synthetic(number: u64) -> Vec<u8> {
    const CHANNELS: usize = 6_144;
    let mut random = Random(number);
    let scales: Vec<f64> = (0..CHANNELS).map(|_| random.normal().exp()).collect();
    let values = (0..64 * CHANNELS).map(|n| half(random.normal() * scales[n % CHANNELS]));
    let model = ModelHash([0; 8]);
    let object = Object {
        kind: ObjectKind::Block,
        model,
        parent: BlockId::root(model),
        start: 0,
        tokens: vec![Token(0); 64],
        payload: values.flat_map(u16::to_le_bytes).collect::<Vec<_>>().into(),
    };
    object.encode()
}

/// The 16-bit float next to `value`, towards zero; values that it does not reach become zero.
fn half(value: f64) -> u16 {
    let bits = (value as f32).to_bits();
    let (sign, exponent) = ((bits >> 16) & 0x8000, (bits >> 23 & 0xff) as i32 - 127 + 15);
    match exponent {
        1..31 => (sign | (exponent as u32) << 10 | (bits >> 13 & 0x3ff)) as u16,
        _ => sign as u16,
    }
}

struct Random(u64);

impl Random {
    fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        ((self.0 >> 11) as f64 + 1.0) / (1_u64 << 53) as f64
    }

    fn normal(&mut self) -> f64 {
        (-2.0 * self.uniform().ln()).sqrt() * (std::f64::consts::TAU * self.uniform()).cos()
    }
}
