//! The only place that changes a slot's cells, so that cells, timeline, hot timelines and registry
//! always agree.
//!
//! A cell has a number, which is given out once. Slots that share cells have equal numbers, so the
//! cells in use are the distinct ones: equal tokens that two slots computed apart take two cells.

use std::ops::Range;

use hob_slots::Token;

use super::Worker;
use crate::backend::StateError;
use crate::map::{Origin, Origins};

/// The numbers of a slot's cells, in the order of positions.
#[derive(Debug, Default)]
pub(super) struct CellNumbers {
    runs: Vec<Range<u64>>,
}

impl CellNumbers {
    fn push(&mut self, run: Range<u64>) {
        match self.runs.last_mut() {
            Some(last) if last.end == run.start => last.end = run.end,
            _ if run.is_empty() => {}
            _ => self.runs.push(run),
        }
    }

    /// Those of the positions in `range`.
    fn within(&self, range: Range<usize>) -> Vec<Range<u64>> {
        let (mut runs, mut skip) = (Vec::new(), range.start as u64);
        let mut left = range.len() as u64;
        for run in &self.runs {
            let start = run.end.min(run.start + skip);
            skip -= start - run.start;
            let count = left.min(run.end - start);
            if count > 0 {
                runs.push(start..start + count);
            }
            left -= count;
        }
        runs
    }

    pub fn truncate(&mut self, len: usize) {
        self.runs = self.within(0..len);
    }

    /// How many cells several slots have together.
    pub fn count<'a>(slots: impl Iterator<Item = &'a Self>) -> usize {
        let mut runs: Vec<&Range<u64>> = slots.flat_map(|slot| &slot.runs).collect();
        runs.sort_by_key(|run| run.start);
        let (mut count, mut counted_to) = (0, 0);
        for run in runs {
            count += run.end.saturating_sub(run.start.max(counted_to));
            counted_to = counted_to.max(run.end);
        }
        count as usize
    }
}

impl Worker<'_> {
    /// Cells in use. Shared cells count once.
    pub(super) fn used_tokens(&self) -> usize {
        CellNumbers::count(self.slots.iter().map(|slot| &slot.cells))
    }

    /// Drops the slot's cells and its owner.
    pub(super) fn vacate(&mut self, index: usize) {
        self.clear(index);
        if let Some(drafter) = &mut self.drafter {
            drafter.clear(index);
        }
        self.slots[index].unpinned();
        self.open_changed = true;
    }

    /// Appends tokens whose cells are in place, and new.
    pub(super) fn extend(&mut self, index: usize, tokens: &[Token], origins: &Origins) {
        let first = self.cells_given;
        self.cells_given += tokens.len() as u64;
        self.slots[index].cells.push(first..self.cells_given);
        self.append(index, tokens, origins);
    }

    /// Shares the cells of `from` in `range` with the slot, which ends where the range starts and
    /// holds the same tokens before it. `tokens`: those of the range.
    pub(super) fn share(
        &mut self,
        from: usize,
        index: usize,
        range: Range<usize>,
        tokens: &[Token],
    ) {
        debug_assert_eq!(self.slots[index].timeline.len(), range.start);
        let sequence = self.slots[index].sequence;
        self.backend.share(self.slots[from].sequence, sequence, range.clone());
        for run in self.slots[from].cells.within(range) {
            self.slots[index].cells.push(run);
        }
        self.append(index, tokens, &Origins::of(tokens.len(), Origin::Shared));
    }

    fn append(&mut self, index: usize, tokens: &[Token], origins: &Origins) {
        debug_assert_eq!(tokens.len(), origins.len());
        let vocabulary = self.core.model.vocabulary();
        let slot = &mut self.slots[index];
        slot.timeline.push(tokens, |token| vocabulary.is_eog(token));
        slot.origins.append(origins);
        self.hot.extend(slot.root(), slot.id, tokens);
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
            self.hot.truncate(slot.root(), slot.id, len);
            self.registry.set_load(slot.id, len);
            self.core.change_log.touch();
        }
    }

    /// Gives the slot the exported rest of its first `len` tokens, and drops its cells after them.
    ///
    /// # Errors
    /// [`StateError::Import`]; the slot's sequence is empty then, and the slot must be cleared.
    pub(super) fn rewind(
        &mut self,
        index: usize,
        rest: &[u8],
        len: usize,
    ) -> Result<(), StateError> {
        self.backend.rewind(self.slots[index].sequence, rest, len)?;
        let slot = &mut self.slots[index];
        if len < slot.timeline.len() {
            slot.cut_back(len);
            self.hot.truncate(slot.root(), slot.id, len);
            self.registry.set_load(slot.id, len);
        }
        self.core.change_log.touch();
        Ok(())
    }

    /// Drops all cells of the slot.
    pub(super) fn clear(&mut self, index: usize) {
        let slot = &mut self.slots[index];
        self.backend.clear(slot.sequence);
        slot.cut_back(0);
        self.hot.remove(slot.root(), slot.id);
        self.registry.set_load(slot.id, 0);
        self.core.change_log.touch();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_cells_count_once_and_equal_tokens_in_other_cells_count() {
        let mut prefix = CellNumbers::default();
        prefix.push(0..100);
        let first = |len| CellNumbers { runs: prefix.within(0..len) };
        let mut chats = [first(80), first(60)];
        chats[0].push(100..120);
        chats[1].push(120..150);
        chats[0].push(150..151);
        let all = || std::iter::once(&prefix).chain(&chats);
        assert_eq!(CellNumbers::count(all()), 151);
        assert_eq!(CellNumbers::count(chats.iter()), 131, "the prefix's own 20 are not theirs");
        assert_eq!(chats[0].within(70..101), [70..80, 100..120, 150..151]);
        assert_eq!(chats[0].within(85..101), [105..120, 150..151]);
        chats[0].truncate(10);
        assert_eq!(CellNumbers::count(chats.iter()), 90);
    }
}
