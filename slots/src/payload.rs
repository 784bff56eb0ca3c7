//! The bytes of a block or snapshot, shared without a copy.
//!
//! A [`Payload`] is a range of a shared buffer: a file is read and verified in one buffer, which
//! then goes to the warm pool and to llama.cpp.

use std::fmt;
use std::ops::{Deref, Range};
use std::sync::Arc;

#[derive(Clone)]
pub struct Payload {
    buffer: Arc<Vec<u8>>,
    range: Range<usize>,
}

impl Payload {
    /// # Panics
    /// When `range` is out of bounds.
    pub fn within(buffer: Vec<u8>, range: Range<usize>) -> Self {
        assert!(
            range.start <= range.end && range.end <= buffer.len(),
            "a payload is within its buffer"
        );
        Self { buffer: Arc::new(buffer), range }
    }

    /// The whole buffer, if this is the last reference.
    pub fn into_buffer(self) -> Option<Vec<u8>> {
        Arc::into_inner(self.buffer)
    }

    /// The memory of the whole buffer.
    pub fn held_bytes(&self) -> usize {
        self.buffer.capacity()
    }
}

impl From<Vec<u8>> for Payload {
    fn from(buffer: Vec<u8>) -> Self {
        let range = 0..buffer.len();
        Self { buffer: Arc::new(buffer), range }
    }
}

impl Deref for Payload {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.buffer[self.range.clone()]
    }
}

impl AsRef<[u8]> for Payload {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl PartialEq for Payload {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Payload {}

/// The length alone: KV bytes would fill the log.
impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Payload({} bytes)", self.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_is_a_range_of_its_buffer() {
        let payload = Payload::within(vec![9, 1, 2, 3, 9], 1..4);
        assert_eq!(*payload, [1, 2, 3]);
        assert_eq!(payload, Payload::from(vec![1, 2, 3]));
        assert_eq!(format!("{payload:?}"), "Payload(3 bytes)");
    }

    #[test]
    fn a_clone_shares_the_bytes() {
        let payload = Payload::from(vec![7; 100]);
        assert!(std::ptr::eq(payload.as_ptr(), payload.clone().as_ptr()));
    }

    #[test]
    fn the_last_reference_gets_the_buffer_back() {
        let payload = Payload::within(vec![9, 1, 9], 1..2);
        let other = payload.clone();
        assert_eq!(payload.into_buffer(), None);
        assert_eq!(other.into_buffer(), Some(vec![9, 1, 9]));
    }
}
