//! The checksum of a body, in chunks that can be hashed while reading and on several cores.
//!
//! - A file is cut at every multiple of [`CHUNK_BYTES`]; the first chunk begins after the header. A
//!   reader of pieces of that length has one chunk in each.
//! - The checksum of the body is the xxh3-128 of the chunks' digests, in order.

use std::ops::Range;

use xxhash_rust::xxh3::{Xxh3, xxh3_128};

/// Files are cut at multiples of this.
pub const CHUNK_BYTES: u64 = 1 << 20;

/// xxh3-128.
pub fn chunk_digest(chunk: &[u8]) -> u128 {
    xxh3_128(chunk)
}

/// The chunks of a file with its body at `body`.
pub fn chunks(body: Range<u64>) -> impl Iterator<Item = Range<u64>> {
    let mut at = body.start;
    std::iter::from_fn(move || {
        let end = next_cut(at).min(body.end);
        (at < end).then(|| std::mem::replace(&mut at, end)..end)
    })
}

fn next_cut(at: u64) -> u64 {
    (at / CHUNK_BYTES + 1) * CHUNK_BYTES
}

pub fn checksum_of(digests: impl IntoIterator<Item = u128>) -> u128 {
    let mut hash = Xxh3::new();
    for digest in digests {
        hash.update(&digest.to_le_bytes());
    }
    hash.digest128()
}

/// Hashes a body that is not contiguous.
pub struct BodyHash {
    at: u64,
    chunk: Xxh3,
    digests: Xxh3,
    pending: bool, // Whether `chunk` has bytes.
}

impl BodyHash {
    /// For a body that begins at `start` in its file.
    pub fn from(start: u64) -> Self {
        Self { at: start, chunk: Xxh3::new(), digests: Xxh3::new(), pending: false }
    }

    pub fn update(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let room = (next_cut(self.at) - self.at).min(bytes.len() as u64);
            let (now, later) = bytes.split_at(room as usize);
            if !self.pending && next_cut(self.at) == self.at + room {
                // A whole chunk in one slice hashes faster.
                self.digests.update(&chunk_digest(now).to_le_bytes());
                self.at += room;
            } else {
                self.chunk.update(now);
                self.pending = true;
                self.at += room;
                if self.at.is_multiple_of(CHUNK_BYTES) {
                    self.end_chunk();
                }
            }
            bytes = later;
        }
    }

    pub fn finish(mut self) -> u128 {
        if self.pending {
            self.end_chunk();
        }
        self.digests.digest128()
    }

    fn end_chunk(&mut self) {
        self.digests.update(&self.chunk.digest128().to_le_bytes());
        self.chunk.reset();
        self.pending = false;
    }
}
