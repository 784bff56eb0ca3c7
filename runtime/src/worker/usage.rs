//! A slot's request, as the eviction policies of the memory tier see it.

use std::hash::{DefaultHasher, Hash, Hasher};

use hob_slots::evict::{Ended, Run};
use hob_slots::{BLOCK_TOKENS, Use};

use super::Worker;

impl Worker<'_> {
    /// The request that runs in the slot; between two requests, the last one answered there.
    pub(super) fn usage(&self, index: usize) -> Use {
        let slot = &self.slots[index];
        let now = self.now();
        let Some(turn) = &slot.turn else { return Use { run: slot.answered, now } };
        let mut hasher = DefaultHasher::new();
        turn.owner.id().hash(&mut hasher);
        let conversation = hasher.finish();
        let turns = if slot.answered.conversation == conversation {
            slot.answered.turn
        } else {
            // It was answered in another slot, or before the start.
            u32::from(self.core.tiers.known_record(turn.owner.id()).is_some())
        };
        let blocks = turn.request.prompt.len().div_ceil(BLOCK_TOKENS);
        let blocks = u32::try_from(blocks).unwrap_or(u32::MAX);
        let run = Run { conversation, turn: turns + 1, blocks, ended: Ended::Unknown };
        Use { run, now }
    }
}
