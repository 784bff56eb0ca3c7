//! The prefix of a profile, remembered with the request that it was computed from.
//!
//! - While that request renders to the same text, the prefix is the same. Keep-alive asks every few
//!   minutes and then costs one rendering instead of two dozen.

use std::sync::Arc;

use hob_slots::Token;
use hob_slots::format::SegmentRef;
use parking_lot::{Mutex, MutexGuard};

/// What all requests of a profile begin with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedPrefix {
    pub tokens: Vec<Token>,
    /// The last one ends with the tokens.
    pub segments: Vec<SegmentRef>,
}

#[derive(Debug, Default)]
pub struct PrefixCache(Mutex<Option<(String, Arc<SharedPrefix>)>>);

impl PrefixCache {
    /// The length of the remembered prefix.
    pub fn tokens(&self) -> Option<usize> {
        self.lock().as_ref().map(|(_, prefix)| prefix.tokens.len())
    }

    /// The remembered prefix, if it was computed from this text.
    pub fn get(&self, text: &str) -> Option<Arc<SharedPrefix>> {
        let lock = self.lock();
        lock.as_ref().filter(|(known, _)| known == text).map(|(_, prefix)| prefix.clone())
    }

    pub fn put(&self, text: String, prefix: SharedPrefix) -> Arc<SharedPrefix> {
        let prefix = Arc::new(prefix);
        *self.lock() = Some((text, prefix.clone()));
        prefix
    }

    fn lock(&self) -> MutexGuard<'_, Option<(String, Arc<SharedPrefix>)>> {
        self.0.lock()
    }
}
