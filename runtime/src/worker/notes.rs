//! What stays of blocks that left a live conversation, with [`Recovery::Breadcrumb`].
//!
//! - A *note* is the beginning of a block in its own cells. Nothing is written or computed for it, so it is exact, and
//!   the view of what is computed meanwhile names it by its positions.
//! - Notes have at most a quarter of the budget. Beyond that, the oldest notes leave.

use std::ops::Range;

use super::Worker;
use crate::options::Recovery;
use crate::turn::Way;

/// Tokens of a note: about a line.
const NOTE_TOKENS: usize = 12;

/// A block with fewer tokens leaves whole: its note would be most of it.
const MIN_NOTED: usize = 2 * NOTE_TOKENS;

/// The part of the budget that notes may have (1/4).
const SHARE: usize = 4;

impl Worker<'_> {
    /// The positions of a block that stay when it leaves.
    pub(super) fn note_of(&self, block: &Range<usize>) -> Range<usize> {
        let has_note =
            self.core.options.recovery == Recovery::Breadcrumb && block.len() >= MIN_NOTED;
        block.start..block.start + if has_note { NOTE_TOKENS } else { 0 }
    }

    /// Drops the oldest notes of the slot: as many as free `needed` cells, and those beyond their part of the
    /// budget. Returns how many cells that freed.
    pub(super) fn drop_notes(&mut self, index: usize, needed: usize) -> usize {
        if self.core.options.recovery != Recovery::Breadcrumb {
            return 0;
        }
        let slot = &self.slots[index];
        let is_noted = |block: &Range<usize>| {
            let note = self.note_of(block);
            !note.is_empty() && slot.cells.has(&note) && !slot.cells.has(block)
        };
        let blocks = slot.timeline.blocks().iter().map(|block| &block.range);
        let notes: Vec<Range<usize>> =
            blocks.filter(|block| is_noted(block)).map(|block| self.note_of(block)).collect();
        let cells: usize = notes.iter().map(ExactSizeIterator::len).sum();
        let surplus = cells.saturating_sub(self.budget(index) / SHARE).max(needed);
        let mut freed = 0;
        for note in notes {
            if freed >= surplus {
                break;
            }
            let len = note.len();
            if self.drop_cells(index, note.clone()).is_ok() {
                self.report_moved(index, note, Way::Out);
                freed += len;
            }
        }
        freed
    }
}
