//! The only place that changes a slot's cells, so that cells, timeline, radix tree and registry
//! always agree.

use hob_slots::Token;

use super::Worker;
use crate::map::Origins;

impl Worker<'_> {
    /// Drops the slot's cells and its owner.
    pub(super) fn vacate(&mut self, index: usize) {
        self.clear(index);
        self.slots[index].unpinned();
    }

    /// Appends tokens whose cells are in place.
    pub(super) fn extend(&mut self, index: usize, tokens: &[Token], origins: &Origins) {
        debug_assert_eq!(tokens.len(), origins.len());
        let vocabulary = self.core.model.vocabulary();
        let slot = &mut self.slots[index];
        slot.timeline.push(tokens, |token| vocabulary.is_eog(token));
        slot.origins.append(origins);
        self.radix.extend(slot.id, tokens);
        self.registry.set_load(slot.id, slot.timeline.len());
        self.core.change_log.touch();
    }

    /// Drops the cells after the first `len` tokens.
    pub(super) fn cut_back(&mut self, index: usize, len: usize) {
        let slot = &self.slots[index];
        let end = slot.timeline.len();
        if len == 0 {
            return self.clear(index);
        }
        if len < end {
            if self.backend.remove(slot.sequence, len..end).is_err() {
                return self.clear(index); // This memory cannot drop a part of a sequence.
            }
            let slot = &mut self.slots[index];
            slot.cut_back(len);
            self.radix.truncate(slot.id, len);
            self.registry.set_load(slot.id, len);
            self.core.change_log.touch();
        }
    }

    /// Drops all cells of the slot.
    pub(super) fn clear(&mut self, index: usize) {
        let slot = &mut self.slots[index];
        self.backend.clear(slot.sequence);
        slot.cut_back(0);
        self.radix.remove(slot.id);
        self.registry.set_load(slot.id, 0);
        self.core.change_log.touch();
    }
}
