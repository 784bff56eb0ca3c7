//! A buffer with a maximum length.

use std::io::{self, Write};

/// Accepts UTF-8 up to a limit, then refuses.
pub(super) struct Capped {
    bytes: Vec<u8>,
    limit: usize,
    full: bool,
}

impl Capped {
    pub fn new(limit: usize) -> Self {
        Self { bytes: Vec::new(), limit, full: false }
    }

    /// Whether a write was refused.
    pub fn is_full(&self) -> bool {
        self.full
    }

    pub fn into_text(self) -> String {
        String::from_utf8(self.bytes).expect("templates write strings")
    }
}

impl Write for Capped {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.bytes.len() + bytes.len() > self.limit {
            self.full = true;
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
