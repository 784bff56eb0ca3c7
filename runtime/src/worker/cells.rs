//! The only place that changes a slot's cells, so that cells, timeline, hot timelines and registry
//! always agree.
//!
//! - A position below a timeline's end may have no cell: its token is away.
//! - A sequence continues right behind a cell: the last position has one.
//! - `cell_numbers` says which cells slots share.

use std::ops::Range;

use hob_slots::lineage::with_view;
use hob_slots::{Token, View, ViewRun};

use super::Worker;
use super::cell_numbers::CellNumbers;
use super::slot::Slot;
use crate::backend::{Sequence, StateError};
use crate::map::{EvictionReason, Origin, Origins};
use crate::position::narrow_range;
use crate::turn::TokenCounts;

impl Worker<'_> {
    /// Cells in use. Shared cells count once.
    pub(super) fn used_tokens(&self) -> usize {
        CellNumbers::count(self.slots.iter().map(|slot| &slot.cells))
    }

    pub(super) fn free_cells(&self) -> usize {
        self.core.options.context_tokens.saturating_sub(self.used_tokens())
    }

    /// Whether the backend has cells at exactly the slots' resident positions, as far as it tells.
    pub(super) fn cells_agree(&self) -> bool {
        let agrees = |slot: &Slot| {
            let positions = self.backend.positions(slot.sequence);
            positions.is_none_or(|positions| {
                let resident = slot.cells.positions();
                positions.into_iter().eq(resident)
            })
        };
        self.slots.iter().all(agrees)
            && self.backend.positions(self.scratch()).is_none_or(|left| left.is_empty())
    }

    /// Drops the slot's cells and its owner.
    pub(super) fn vacate(&mut self, index: usize) {
        self.clear(index);
        if let Some(drafter) = &mut self.drafter {
            drafter.vacate(index);
        }
        self.slots[index].unpinned();
        self.open_changed = true;
    }

    /// Appends tokens whose cells were just computed.
    pub(super) fn extend(&mut self, index: usize, tokens: &[Token], origin: Origin) {
        let positions = self.positions_behind(index, tokens.len());
        self.number_cells(index, positions);
        self.push_seen(index, tokens);
        self.appended(index, tokens, &Origins::of(tokens.len(), origin));
    }

    /// Appends tokens whose cells were just imported, with the views that they were computed with.
    pub(super) fn extend_restored(
        &mut self,
        index: usize,
        tokens: &[Token],
        views: &[ViewRun],
        origins: &Origins,
    ) {
        let positions = self.positions_behind(index, tokens.len());
        self.number_cells(index, positions);
        self.push_known(index, tokens, views);
        self.appended(index, tokens, origins);
    }

    /// Appends tokens that stay away.
    pub(super) fn extend_away(&mut self, index: usize, tokens: &[Token], views: &[ViewRun]) {
        self.push_known(index, tokens, views);
        let slot = &mut self.slots[index];
        slot.origins.push(tokens.len(), Origin::Disk);
        self.residence_changed(index);
    }

    /// The cells of positions that were away were just imported.
    pub(super) fn fill(&mut self, index: usize, range: Range<usize>, origins: &Origins) {
        self.number_cells(index, range.clone());
        self.slots[index].origins.replace(range, origins);
        self.residence_changed(index);
    }

    /// The cells of `ranges`, each computed in the sequence beside it behind the tokens before it, take the place
    /// of those that the slot has there. Returns those sequences empty.
    pub(super) fn replace(&mut self, index: usize, heads: &[(Range<usize>, Sequence)]) {
        let mut views = self.slots[index].timeline.views();
        for (range, sequence) in heads {
            let slot = &mut self.slots[index];
            let own = slot.sequence;
            // Behind pure tokens the KV follows from the text alone, and keeps that name when the moved KV leaves.
            let view = if range.start <= slot.timeline.pure() {
                View::WHOLE
            } else {
                View::repaired(slot.timeline.id_at(range.start))
            };
            views = with_view(&views, narrow_range(range), view);
            slot.cells.remove(range.clone());
            self.backend.remove(own, range.clone()).expect("this memory drops parts of sequences");
            self.backend.share(*sequence, own, range.clone());
            self.backend.clear(*sequence);
            self.number_cells(index, range.clone());
            let origins = Origins::of(range.len(), Origin::Computed);
            self.slots[index].origins.replace(range.clone(), &origins);
        }
        let Some((first, _)) = heads.first() else { return };
        let slot = &mut self.slots[index];
        let behind = slot.timeline.tokens()[first.start..].to_vec();
        slot.timeline.truncate(first.start);
        slot.uses.truncate(first.start);
        self.push_known(index, &behind, &views);
        self.residence_changed(index);
    }

    /// Drops the cells of positions before the last one; their tokens stay in the timeline.
    ///
    /// # Errors
    /// [`StateError::Partial`]: nothing has changed.
    pub(super) fn drop_cells(
        &mut self,
        index: usize,
        range: Range<usize>,
    ) -> Result<(), StateError> {
        let slot = &mut self.slots[index];
        assert!(range.end < slot.timeline.len(), "the top block stays");
        self.backend.remove(slot.sequence, range.clone())?;
        slot.cells.remove(range);
        self.residence_changed(index);
        Ok(())
    }

    /// Shares the cells of `from` in `range` with the slot, which ends where the range starts and
    /// holds the same tokens before it. Both are whole up to its end. `tokens`: those of the range.
    pub(super) fn share(
        &mut self,
        from: usize,
        index: usize,
        range: Range<usize>,
        tokens: &[Token],
    ) {
        assert_eq!(self.slots[index].timeline.len(), range.start);
        assert!(self.slots[index].is_whole() && self.slots[from].cells.has(&range));
        let sequence = self.slots[index].sequence;
        let mut shared = range;
        if !self.is_plain() {
            // A running state is of all of its tokens: the slot takes the state and all of these cells from `from`.
            self.backend.clear(sequence);
            self.slots[index].cells.remove(0..shared.start);
            shared.start = 0;
        }
        self.backend.share(self.slots[from].sequence, sequence, shared.clone());
        for run in self.slots[from].cells.runs_within(shared) {
            self.slots[index].cells.put(run.positions(), run.first);
        }
        self.push_seen(index, tokens);
        self.appended(index, tokens, &Origins::of(tokens.len(), Origin::Shared));
    }

    fn positions_behind(&self, index: usize, count: usize) -> Range<usize> {
        let end = self.slots[index].timeline.len();
        end..end + count
    }

    /// The cells of these positions were moved.
    pub(super) fn renumber(&mut self, index: usize, positions: Range<usize>) {
        self.slots[index].cells.remove(positions.clone());
        self.number_cells(index, positions);
    }

    fn number_cells(&mut self, index: usize, positions: Range<usize>) {
        let first = self.cells_given[index];
        self.cells_given[index] += positions.len() as u64;
        let known = self.slots[index].scattered_from.is_some_and(|from| from <= positions.start);
        let scattered = !known && self.has_neighbours(index);
        let slot = &mut self.slots[index];
        if scattered {
            slot.scattered_from = Some(positions.start);
        }
        assert!(slot.cells.lacks(&positions), "a position has one cell");
        slot.cells.put(positions, first);
    }

    /// Appends tokens that attended to what the slot's next token attends to.
    fn push_seen(&mut self, index: usize, tokens: &[Token]) {
        let vocabulary = self.core.model.vocabulary();
        let slot = &mut self.slots[index];
        slot.timeline.push_seeing(tokens, slot.view, |token| vocabulary.is_eog(token));
        slot.tail.clear();
    }

    fn push_known(&mut self, index: usize, tokens: &[Token], views: &[ViewRun]) {
        let vocabulary = self.core.model.vocabulary();
        let slot = &mut self.slots[index];
        slot.timeline.push_runs(tokens, views, |token| vocabulary.is_eog(token));
        slot.tail.clear();
    }

    /// The tokens were appended to the timeline, and have cells.
    fn appended(&mut self, index: usize, tokens: &[Token], origins: &Origins) {
        assert_eq!(tokens.len(), origins.len());
        let slot = &mut self.slots[index];
        slot.origins.append(origins);
        if slot.is_whole() {
            self.hot.extend(slot.root(), slot.id, tokens);
        }
        self.cells_changed(index);
    }

    /// Positions below the end have got cells, or have lost them.
    fn residence_changed(&mut self, index: usize) {
        let slot = &mut self.slots[index];
        let away = slot.cells.away(slot.timeline.len());
        let shared = away.first().map_or(slot.timeline.len(), |first| first.start);
        slot.view = View::without(away);
        // Other slots may share a beginning that has all of its cells and is a function of its tokens alone.
        let shared = shared.min(slot.timeline.pure());
        self.hot.set(slot.root(), slot.id, &slot.timeline.tokens()[..shared]);
        self.cells_changed(index);
    }

    fn cells_changed(&mut self, index: usize) {
        let slot = &mut self.slots[index];
        let cells = slot.cells.len();
        slot.peak = slot.peak.max(cells);
        self.registry.set_load(slot.id, cells);
        self.core.change_log.touch();
    }

    /// Drops the cells after the first `len` tokens, and those before that would then end with a hole: a
    /// sequence continues right behind a cell.
    pub(super) fn cut_back(&mut self, index: usize, len: usize) {
        let slot = &self.slots[index];
        let end = slot.timeline.len();
        let len = slot.resident_end(len);
        if len == 0 {
            return self.clear(index);
        }
        if len < end {
            if self.backend.remove(slot.sequence, len..end).is_err() {
                return self.clear(index); // This memory cannot drop a part of a sequence.
            }
            self.drop_tokens_behind(index, len);
        }
    }

    /// The cells behind the first `len` tokens are gone.
    pub(super) fn drop_tokens_behind(&mut self, index: usize, len: usize) {
        self.slots[index].cut_back(len);
        self.release_cut_off(index);
        self.residence_changed(index);
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
            self.residence_changed(index);
        }
        self.core.change_log.touch();
        Ok(())
    }

    /// The slot's cells cannot be trusted: drops them. Its turn, if it has one, computes its whole prompt, and has
    /// reused nothing of it.
    pub(super) fn start_over(&mut self, index: usize) {
        self.log_eviction(index, 0, EvictionReason::Failed);
        self.clear(index);
        if let Some(turn) = &mut self.slots[index].turn {
            turn.away.clear();
            if !turn.started {
                turn.report.tokens = TokenCounts::default();
            }
        }
    }

    /// Drops all cells of the slot.
    pub(super) fn clear(&mut self, index: usize) {
        self.release_blocks(index);
        let slot = &mut self.slots[index];
        self.backend.clear(slot.sequence);
        if let Some(turn) = &mut slot.turn {
            turn.heads.clear();
        }
        slot.cut_back(0);
        slot.view = View::WHOLE;
        self.hot.remove(slot.root(), slot.id);
        self.cells_changed(index);
    }
}
