//! How many blocks are read and imported together.

use std::sync::atomic::Ordering;

use hob_slots::format::SlotRecord;

use super::shared::Shared;
use crate::backend::Model;

/// What is imported at once, at most. Answers wait meanwhile.
#[derive(Clone, Copy)]
pub(crate) struct MaxGroup {
    pub blocks: usize,
    /// Unless one block has more.
    bytes: u64,
}

impl MaxGroup {
    /// 1.5 MB of a model of half a billion weights.
    const ON_PROCESSOR: Self = Self { blocks: 2, bytes: 16 << 20 };

    /// Each group is copied and waited for once a layer for K, and once for V. On an H100, 32,768 tokens in the
    /// shape of Qwen2.5-7B took 505 ms in groups of two and 429 in groups of eight, and 2,048 tokens 34 and 41:
    /// the first group is imported once all of it is read.
    const ON_DEVICES: Self = Self { blocks: 4, bytes: 32 << 20 };

    pub fn of(model: &dyn Model) -> Self {
        if model.kv_on_devices() { Self::ON_DEVICES } else { Self::ON_PROCESSOR }
    }

    /// How many blocks make a group: as many as fit of the largest that the record names, or that was seen before.
    pub(super) fn blocks_of(shared: &Shared, record: Option<&SlotRecord>) -> usize {
        let recorded =
            record.into_iter().flat_map(|record| &record.blocks).map(|block| block.bytes);
        let seen = shared.block_bytes.load(Ordering::Relaxed) as u64;
        Self::of(shared.model.as_ref()).fitting(recorded.max().unwrap_or(0).max(seen))
    }

    /// How many blocks of about `block_bytes` make a group; 0: unknown.
    fn fitting(self, block_bytes: u64) -> usize {
        let fitting = self.bytes.checked_div(block_bytes).unwrap_or(u64::MAX);
        usize::try_from(fitting).unwrap_or(usize::MAX).clamp(1, self.blocks)
    }
}
