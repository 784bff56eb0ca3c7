//! How fast this machine reads weights: the bound of a model's answers on a processor.

use std::hint::black_box;
use std::thread;
use std::time::{Duration, Instant};

/// Larger than the caches of most processors.
const BYTES_PER_THREAD: usize = 48 << 20;
const MEASURED_FOR: Duration = Duration::from_millis(60);

/// A core unpacks quantised weights no faster, however fast the memory is: measured with Q8_0 and
/// AVX2.
const MAX_BYTES_PER_CORE: f64 = 8e9;

/// Bytes of weights a second that `threads` threads compute with, measured in some 0.1 s.
pub fn weights_bytes_per_second(threads: usize) -> f64 {
    let threads = threads.max(1);
    let total: f64 = thread::scope(|scope| {
        let readers: Vec<_> = (0..threads).map(|_| scope.spawn(read)).collect();
        readers.into_iter().map(|reader| reader.join().unwrap_or(0.0)).sum()
    });
    total.min(MAX_BYTES_PER_CORE * threads as f64)
}

/// Bytes a second of one thread.
fn read() -> f64 {
    let words = vec![1_u64; BYTES_PER_THREAD / size_of::<u64>()];
    let began = Instant::now();
    let (mut bytes, mut sum) = (0, 0_u64);
    while began.elapsed() < MEASURED_FOR {
        for piece in words.chunks(1 << 16) {
            sum = sum.wrapping_add(piece.iter().fold(0, |sum, word| sum.wrapping_add(*word)));
            bytes += size_of_val(piece);
            if began.elapsed() >= MEASURED_FOR {
                break;
            }
        }
    }
    black_box(sum);
    bytes as f64 / began.elapsed().as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_reads_something_and_no_core_more_than_it_can() {
        let speed = weights_bytes_per_second(2);
        assert!(speed > 0.0 && speed <= 2.0 * MAX_BYTES_PER_CORE, "{speed}");
    }
}
