//! What the tiers' threads have done since the start.

use std::sync::atomic::{AtomicU64, Ordering};

/// Disk activity since the start.
#[derive(Debug, Default)]
pub struct Counters {
    /// Objects and slot files.
    pub written_bytes: AtomicU64,
    /// Verified payload.
    pub read_bytes: AtomicU64,
    pub write_errors: AtomicU64,
    /// Files that exist and are not usable.
    pub rejected: AtomicU64,
    /// Objects that were on disk, as this process knew, and could not be read.
    pub lost_blocks: AtomicU64,
    /// The longest time for which the writer or maintenance held locks of the engine.
    pub longest_lock_micros: AtomicU64,
    /// Jobs of the tiers' threads that panicked.
    pub panics: AtomicU64,
    /// The part of `read_bytes` that was read before a question asked for it.
    pub read_ahead_bytes: AtomicU64,
    /// Blocks whose words were read before a question asked for them.
    pub indexed_ahead: AtomicU64,
    /// Blocks whose words were read while a question waited.
    pub indexed_late: AtomicU64,
    /// Blocks of aged conversations that were not rounded, because their layout is not known.
    pub unknown_layouts: AtomicU64,
    /// Blocks that have got a vector.
    pub embedded: AtomicU64,
}

impl Counters {
    pub fn add(counter: &AtomicU64, value: u64) {
        counter.fetch_add(value, Ordering::Relaxed);
    }

    /// Raises a counter to `value`.
    pub fn at_least(counter: &AtomicU64, value: u128) {
        counter.fetch_max(u64::try_from(value).unwrap_or(u64::MAX), Ordering::Relaxed);
    }
}
