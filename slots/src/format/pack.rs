//! Compresses the payload of an object, and unpacks it.
//!
//! - Bytes are compressed in pieces of [`PIECE_BYTES`], each a zstd frame, so a piece stays in the
//!   CPU's cache and any zstd decoder reads the frames as one stream.
//! - Unpacking yields exactly the expected length or an error. It never allocates more than four
//!   times the packed bytes before that many bytes have come out.

use zstd::bulk::{Compressor, Decompressor};
use zstd::zstd_safe::find_frame_compressed_size;

use super::FormatError;

/// Bytes of one frame; the last one may have fewer.
const PIECE_BYTES: usize = 1 << 20;

/// How much longer than its packed bytes a content of several pieces may be. KV shrinks to about 0.85, while a frame of
/// zeros is 20,000 times as long as its bytes.
const MAX_RATIO: u64 = 1 << 10;

/// The maximum length of a content that `packed_bytes` bytes hold: one piece, which may be of zeros, and
/// [`MAX_RATIO`] times the packed bytes.
pub fn most_unpacked(packed_bytes: u64) -> u64 {
    packed_bytes.saturating_mul(MAX_RATIO).saturating_add(PIECE_BYTES as u64)
}

/// The order of a piece's bytes in its frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrangement {
    Plain,
    /// The high byte of every 16-bit word, then the low ones, then an odd last byte. The high
    /// bytes of 16-bit floats (sign and exponent) repeat; their low bytes are noise.
    Planes,
}

/// Compresses `raw`; `None` when that takes more than `max_bytes`.
pub fn pack(raw: &[u8], arrangement: Arrangement, level: i32, max_bytes: usize) -> Option<Vec<u8>> {
    let mut compressor = Compressor::new(level).expect("zstd clamps its levels");
    let (mut packed, mut planes) = (Vec::new(), Vec::new());
    for piece in raw.chunks(PIECE_BYTES) {
        let piece = match arrangement {
            Arrangement::Plain => piece,
            Arrangement::Planes => {
                split(piece, &mut planes);
                &planes
            }
        };
        let frame = compressor.compress(piece).expect("a buffer of the bound's length suffices");
        packed.extend_from_slice(&frame);
        if packed.len() > max_bytes {
            return None;
        }
    }
    Some(packed)
}

/// Unpacks to exactly `raw_bytes` bytes.
pub fn unpack(
    mut packed: &[u8],
    arrangement: Arrangement,
    raw_bytes: u64,
) -> Result<Vec<u8>, FormatError> {
    let malformed = |what: &'static str| FormatError::Packed { what };
    let raw_bytes = usize::try_from(raw_bytes).map_err(|_| malformed("it holds too much"))?;
    let mut raw = Vec::with_capacity(raw_bytes.min(packed.len().saturating_mul(4)));
    let mut unpacker = Decompressor::new().map_err(|_| malformed("zstd does not start"))?;
    let mut piece = Vec::with_capacity(raw_bytes.min(PIECE_BYTES));
    while raw.len() < raw_bytes {
        let bytes = (raw_bytes - raw.len()).min(PIECE_BYTES);
        let frame = find_frame_compressed_size(packed).ok().filter(|&len| len <= packed.len());
        let (frame, rest) = packed.split_at(frame.ok_or(malformed("a frame is missing"))?);
        piece.clear();
        let written = unpacker.decompress_to_buffer(frame, &mut piece);
        if written.map_err(|_| malformed("a frame is damaged"))? != bytes {
            return Err(malformed("a frame has another length"));
        }
        match arrangement {
            Arrangement::Plain => raw.extend_from_slice(&piece),
            Arrangement::Planes => join(&piece, &mut raw),
        }
        packed = rest;
    }
    if packed.is_empty() { Ok(raw) } else { Err(malformed("bytes follow its last frame")) }
}

fn split(piece: &[u8], planes: &mut Vec<u8>) {
    let (words, odd) = piece.as_chunks::<2>();
    planes.clear();
    planes.extend(words.iter().map(|word| word[1]));
    planes.extend(words.iter().map(|word| word[0]));
    planes.extend_from_slice(odd);
}

fn join(planes: &[u8], raw: &mut Vec<u8>) {
    let (high, rest) = planes.split_at(planes.len() / 2);
    let (low, odd) = rest.split_at(high.len());
    let from = raw.len();
    raw.resize(from + planes.len(), 0);
    let (words, last) = raw[from..].as_chunks_mut::<2>();
    for ((word, &high), &low) in words.iter_mut().zip(high).zip(low) {
        *word = [low, high];
    }
    last.copy_from_slice(odd);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn high_bytes_come_first_and_an_odd_byte_last() {
        let mut planes = Vec::new();
        split(&[1, 2, 3, 4, 5], &mut planes);
        assert_eq!(planes, [2, 4, 1, 3, 5]);
        let mut raw = vec![9];
        join(&planes, &mut raw);
        assert_eq!(raw, [9, 1, 2, 3, 4, 5]);
    }

    #[test]
    fn pieces_are_frames_of_one_stream() {
        let raw: Vec<u8> = (0..2 * PIECE_BYTES + 3).map(|n| (n / 7) as u8).collect();
        let packed = pack(&raw, Arrangement::Plain, 1, usize::MAX).unwrap();
        assert_eq!(zstd::stream::decode_all(&packed[..]).unwrap(), raw);
        assert_eq!(unpack(&packed, Arrangement::Plain, raw.len() as u64), Ok(raw));
    }

    #[test]
    fn packing_stops_at_the_maximum_length() {
        assert_eq!(pack(&[7; 4_096], Arrangement::Planes, 1, 10), None);
    }

    #[test]
    fn a_wrong_length_is_refused() {
        let packed = pack(&[7; 4_096], Arrangement::Planes, 1, usize::MAX).unwrap();
        for len in [0, 1, 4_095, 4_097, 1 << 20, 1 << 40, u64::MAX] {
            let error = unpack(&packed, Arrangement::Planes, len).unwrap_err();
            assert!(matches!(error, FormatError::Packed { .. }), "{len}: {error}");
        }
    }

    proptest! {
        #[test]
        fn unpacking_returns_the_packed_bytes(raw in prop::collection::vec(0_u8..4, 0..5_000), level in -5..4) {
            for arrangement in [Arrangement::Plain, Arrangement::Planes] {
                let packed = pack(&raw, arrangement, level, usize::MAX).unwrap();
                let unpacked = unpack(&packed, arrangement, raw.len() as u64);
                prop_assert_eq!(unpacked, Ok(raw.clone()));
            }
        }

        #[test]
        fn no_bytes_make_unpacking_panic(bytes in prop::collection::vec(any::<u8>(), 0..100), len: u64) {
            let frame = [&b"\x28\xb5\x2f\xfd"[..], &bytes].concat();
            let _ = unpack(&frame, Arrangement::Planes, len);
            let _ = unpack(&bytes, Arrangement::Plain, len);
        }
    }
}
