//! Reads little-endian fields, never past the known end of the file.

use std::io::{BufRead, ErrorKind, Seek};

use crate::error::GgufError;

/// Maximum size of a header. Vocabularies have some megabytes.
pub(super) const MAX_HEADER_BYTES: u64 = 256 << 20;

pub(super) struct Cursor<R> {
    reader: R,
    position: u64,
    end: u64,
}

impl<R: BufRead + Seek> Cursor<R> {
    pub(super) fn new(reader: R, file_bytes: u64) -> Self {
        Self { reader, position: 0, end: file_bytes }
    }

    pub(super) fn position(&self) -> u64 {
        self.position
    }

    pub(super) fn end(&self) -> u64 {
        self.end
    }

    /// Fails unless at least `bytes` remain.
    pub(super) fn expect(&self, bytes: u64) -> Result<(), GgufError> {
        match self.position.checked_add(bytes) {
            Some(expected_bytes) if expected_bytes <= self.end => Ok(()),
            other => Err(GgufError::Truncated {
                expected_bytes: other.unwrap_or(u64::MAX),
                actual_bytes: self.end,
            }),
        }
    }

    pub(super) fn bytes<const N: usize>(&mut self) -> Result<[u8; N], GgufError> {
        let mut bytes = [0; N];
        self.fill(&mut bytes)?;
        Ok(bytes)
    }

    pub(super) fn u32(&mut self) -> Result<u32, GgufError> {
        self.bytes().map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self) -> Result<u64, GgufError> {
        self.bytes().map(u64::from_le_bytes)
    }

    /// Reads a text of at most `max_bytes`, which begins with its length.
    pub(super) fn text(&mut self, max_bytes: u64) -> Result<String, GgufError> {
        let len = self.u64()?;
        self.expect(len)?;
        if len > max_bytes {
            return Err(self.damaged("a text is implausibly long"));
        }
        // Each of many texts may be long: all of them are in memory at a time.
        if self.position.saturating_add(len) > MAX_HEADER_BYTES {
            return Err(self.damaged("the header is implausibly large"));
        }
        let mut bytes = vec![0; len as usize];
        self.fill(&mut bytes)?;
        Ok(match String::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
        })
    }

    pub(super) fn skip_text(&mut self) -> Result<(), GgufError> {
        let len = self.u64()?;
        self.skip(len)
    }

    pub(super) fn skip(&mut self, bytes: u64) -> Result<(), GgufError> {
        self.expect(bytes)?;
        let mut left = bytes;
        while left > 0 {
            // A step within the buffer makes no system call.
            let step = i64::try_from(left).unwrap_or(i64::MAX);
            self.reader.seek_relative(step)?;
            left -= step as u64;
        }
        self.position += bytes;
        Ok(())
    }

    pub(super) fn damaged(&self, what: &'static str) -> GgufError {
        GgufError::Damaged { offset: self.position, what }
    }

    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), GgufError> {
        let len = bytes.len() as u64;
        self.expect(len)?;
        self.reader.read_exact(bytes).map_err(|error| match error.kind() {
            // The file has shrunk since its size was read.
            ErrorKind::UnexpectedEof => {
                GgufError::Truncated { expected_bytes: self.position + len, actual_bytes: self.end }
            }
            _ => GgufError::Io(error),
        })?;
        self.position += len;
        Ok(())
    }
}
