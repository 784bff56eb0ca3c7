//! Little-endian fields at fixed offsets, and the parts that all headers share.

use xxhash_rust::xxh3::xxh3_64;

use super::FormatError;
use crate::id::Token;

/// The magic of a sealed file.
pub const SEALED_MAGIC: &[u8; 8] = b"HOBSEA\0\x01";

/// The offset of the version in every header. The magic fills the bytes before it.
const VERSION_AT: usize = 8;

/// The version of a file that begins with `magic`. `header_bytes`: reported when the file is too
/// short.
pub fn version(
    file: &[u8],
    what: &'static str,
    magic: &[u8; 8],
    readable: u16,
    header_bytes: usize,
) -> Result<u16, FormatError> {
    if magic != SEALED_MAGIC && file.starts_with(SEALED_MAGIC) {
        return Err(FormatError::Sealed);
    }
    let known = file.len().min(magic.len());
    if file[..known] != magic[..known] {
        return Err(FormatError::NotOurs { expected: what });
    }
    let Some(version) = file.get(VERSION_AT..VERSION_AT + 2) else {
        return Err(FormatError::Truncated {
            expected: header_bytes as u64,
            got: file.len() as u64,
        });
    };
    match u16::from_le_bytes(version.try_into().expect("two bytes were taken")) {
        0 => Err(FormatError::Field { field: "version", value: 0 }),
        version if version > readable => Err(FormatError::Newer { version, readable }),
        version => Ok(version),
    }
}

/// A header to write or read. Offsets are constants, so one out of bounds is a broken invariant.
pub struct Fields<const N: usize>(pub [u8; N]);

impl<const N: usize> Fields<N> {
    pub fn zeroed(magic: &[u8; 8], version: u16) -> Self {
        let mut fields = Self([0; N]);
        fields.put(0, magic);
        fields.put(VERSION_AT, &version.to_le_bytes());
        fields
    }

    /// The first `N` bytes of a file.
    pub fn first(file: &[u8]) -> Result<Self, FormatError> {
        let header = file.first_chunk::<N>();
        let truncated = FormatError::Truncated { expected: N as u64, got: file.len() as u64 };
        header.map(|header| Self(*header)).ok_or(truncated)
    }

    pub fn put(&mut self, at: usize, bytes: &[u8]) {
        self.0[at..at + bytes.len()].copy_from_slice(bytes);
    }

    pub fn get<const M: usize>(&self, at: usize) -> [u8; M] {
        self.0[at..at + M].try_into().expect("M bytes were taken")
    }

    pub fn u8(&self, at: usize) -> u8 {
        self.0[at]
    }

    pub fn u32(&self, at: usize) -> u32 {
        u32::from_le_bytes(self.get(at))
    }

    pub fn u64(&self, at: usize) -> u64 {
        u64::from_le_bytes(self.get(at))
    }

    pub fn u128(&self, at: usize) -> u128 {
        u128::from_le_bytes(self.get(at))
    }

    /// The checksum of the bytes before `end` and of `more`.
    pub fn checksum(&self, end: usize, more: &[u8]) -> u64 {
        xxh3_64(&[&self.0[..end], more].concat())
    }

    /// Refuses a header whose checksum at `at` is not that of the bytes before it and of `more`.
    pub fn verify(&self, at: usize, more: &[u8]) -> Result<(), FormatError> {
        if self.checksum(at, more) == self.u64(at) {
            Ok(())
        } else {
            Err(FormatError::Checksum { part: "header" })
        }
    }

    /// Refuses a reserved field that is not zero.
    pub fn expect_zero(&self, field: &'static str, value: u32) -> Result<(), FormatError> {
        match value {
            0 => Ok(()),
            other => Err(FormatError::Field { field, value: other.into() }),
        }
    }

    /// A length. A length above `u64::MAX / 8` is refused, so lengths can be added.
    pub fn length(&self, field: &'static str, at: usize) -> Result<u64, FormatError> {
        match self.u64(at) {
            value if value > u64::MAX / 8 => Err(FormatError::Field { field, value }),
            value => Ok(value),
        }
    }
}

/// Refuses a file that is not exactly `expected` bytes long.
pub fn check_length(expected: u64, got: u64) -> Result<(), FormatError> {
    match got.cmp(&expected) {
        std::cmp::Ordering::Less => Err(FormatError::Truncated { expected, got }),
        std::cmp::Ordering::Equal => Ok(()),
        std::cmp::Ordering::Greater => Err(FormatError::Trailing { surplus: got - expected }),
    }
}

pub fn token_bytes(tokens: &[Token]) -> Vec<u8> {
    tokens.iter().flat_map(|token| token.0.to_le_bytes()).collect()
}

pub fn tokens_from(bytes: &[u8]) -> Vec<Token> {
    let token = |four: &[u8]| Token(i32::from_le_bytes(four.try_into().expect("four bytes")));
    bytes.chunks_exact(4).map(token).collect()
}
