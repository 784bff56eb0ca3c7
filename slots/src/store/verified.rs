//! Reads an object and verifies it while reading.
//!
//! - Each chunk is hashed right after it was read, while it is in the CPU's cache.
//! - Two threads share a long file, each with its own chunks.
//! - A used buffer is read into again, so the system need not clear new memory.
//! - Memory is allocated for the length in the verified header, and only if the file has it.

use std::io;
use std::panic::resume_unwind;

use super::error::Miss;
use super::files::{OpenFile, read_range};
use crate::format::{CHUNK_BYTES, Object, ObjectHeader, check_length, chunk_digest};

/// The minimum length for a second thread: starting one costs as much as reading some bytes.
const BYTES_FOR_TWO: usize = 8 << 20;

const CHUNK: usize = CHUNK_BYTES as usize;

/// Reads an object and verifies every byte. Reuses the memory of `buffer` if it is large enough.
pub fn read_object(file: &dyn OpenFile, mut buffer: Vec<u8>) -> Result<Object, Miss> {
    let mut head = [0; ObjectHeader::BYTES];
    let filled = read_range(file, &mut head, 0)?;
    let header = ObjectHeader::decode(&head[..filled])?;
    check_length(header.file_bytes(), file.facts()?.bytes)?;
    let bytes = usize::try_from(header.file_bytes()).map_err(io::Error::other)?;

    if buffer.capacity() < bytes {
        buffer = vec![0; bytes];
    } else {
        buffer.resize(bytes, 0);
    }
    let body = header.chunks().next().map_or(bytes, |chunk| chunk.start as usize);
    let digests = read_and_hash(file, &mut buffer, body)?;
    Ok(Object::from_checked(buffer, &digests)?)
}

/// Fills `buffer` with the file. Returns the digests of its chunks, the first of which begins at
/// `body`.
fn read_and_hash(file: &dyn OpenFile, buffer: &mut [u8], body: usize) -> io::Result<Vec<u128>> {
    let digests_of = |part: &mut [u8], start: usize| -> io::Result<Vec<u128>> {
        let mut digests = Vec::with_capacity(part.len() / CHUNK + 1);
        for (at, chunk) in (start..).step_by(CHUNK).zip(part.chunks_mut(CHUNK)) {
            let filled = read_range(file, chunk, at as u64)?;
            // A file truncated meanwhile leaves zeros, which have another digest.
            chunk[filled..].fill(0);
            let unhashed = body.saturating_sub(at).min(chunk.len());
            digests.push(chunk_digest(&chunk[unhashed..]));
        }
        Ok(digests)
    };
    if buffer.len() < BYTES_FOR_TWO {
        return digests_of(buffer, 0);
    }
    let half = buffer.len() / 2 / CHUNK * CHUNK;
    let (first, second) = buffer.split_at_mut(half);
    std::thread::scope(|scope| {
        let second = scope.spawn(|| digests_of(second, half));
        let mut digests = digests_of(first, 0)?;
        digests.extend(second.join().unwrap_or_else(|panic| resume_unwind(panic))?);
        Ok(digests)
    })
}
