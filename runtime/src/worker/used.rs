//! What the policies behind memory are told of a request.

use std::hash::{DefaultHasher, Hash, Hasher};

use hob_slots::evict::{Ended, Run};
use hob_slots::{BLOCK_TOKENS, Use};

use super::Worker;

impl Worker<'_> {
    /// The request that is in the slot; between two of them, the one that was answered there.
    pub(super) fn used(&self, index: usize) -> Use {
        let slot = &self.slots[index];
        let now = self.now();
        let Some(turn) = &slot.turn else { return Use { run: slot.answered, now } };
        let mut hasher = DefaultHasher::new();
        turn.conversation.hash(&mut hasher);
        let conversation = hasher.finish();
        let turns = match slot.answered.conversation == conversation {
            true => slot.answered.turn,
            // It was answered in another slot, or before the start.
            false => u32::from(self.tiers.known_record(&turn.conversation).is_some()),
        };
        let blocks = turn.request.prompt.len().div_ceil(BLOCK_TOKENS);
        let blocks = u32::try_from(blocks).unwrap_or(u32::MAX);
        let run = Run { conversation, turn: turns + 1, blocks, ended: Ended::Unknown };
        Use { run, now }
    }
}
