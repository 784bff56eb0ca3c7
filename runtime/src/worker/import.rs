//! Puts the pieces of a restore into the cells of its slot.
//!
//! - An import without room makes room, as a micro-batch does. A state that llama.cpp refuses
//!   although there is room is a counted miss.
//! - A memory with a rest takes its cells first, and then the rest.
//! - A piece is appended to the slot's timeline after its import.

use hob_slots::away::Demand;
use hob_slots::lineage::lossy_tokens;

use super::Worker;
use crate::backend::StateError;
use crate::fault::{self, Place};
use crate::map::Origin;
use crate::splice;
use crate::tiers::{Part, Piece};
use crate::turn::TokenCounts;

enum Import {
    Done,
    /// llama.cpp refused the state although there was room.
    Refused(StateError),
    /// No other slot holds cells, and there are still too few.
    NoRoom,
    /// Other turns needed the cells: this turn was preempted.
    Preempted,
}

impl Worker<'_> {
    /// Imports pieces that arrived together. A piece that cannot be imported ends the restore.
    pub(super) fn import_pieces(&mut self, index: usize, pieces: Vec<Piece>) {
        for piece in &pieces {
            fault::point(Place::Restore);
            if self.restoring(index).recalled.is_some() {
                self.bring_back(index, piece);
                continue;
            }
            if piece.part == Part::Whole {
                self.clear(index); // The snapshot replaces what is hot.
                self.restoring(index).tokens = TokenCounts::default();
            }
            if !self.fits_budget(index, piece) {
                return self.abandon_restore(index, "its budget has no room for it".to_owned());
            }
            match self.import_with_room(index, piece) {
                Import::Done => {}
                Import::Preempted => return,
                Import::NoRoom => {
                    return self.abandon_restore(index, "the cache has no room for it".to_owned());
                }
                Import::Refused(error) => {
                    self.core.counters.import_failures += 1;
                    return self.abandon_restore(index, error.to_string());
                }
            }
            self.append_piece(index, piece);
        }
        self.restoring(index).handle.consumed(pieces);
        self.report_progress(index);
    }

    /// Whether the conversation may have the piece's cells, those included that it does not want and has only while
    /// the piece is imported; lets blocks of it leave for them. What an idle slot shares is freed with that slot.
    fn fits_budget(&mut self, index: usize, piece: &Piece) -> bool {
        while self.can_evict() {
            let cells = self.slots[index].cells.len() + piece.held.len();
            let needed = cells.saturating_sub(self.budget(index));
            if needed == 0 {
                return true;
            }
            let has_left = self.evict_own(index, Demand { needed, wanted: needed }) > 0
                || (self.own_budget(index).is_none() && self.evict_idle(Some(index)));
            if !has_left {
                return false;
            }
        }
        true
    }

    /// Adds the tokens of an imported piece to the slot, and those before it that stay away.
    fn append_piece(&mut self, index: usize, piece: &Piece) {
        self.restoring(index).lacks_rest = piece.part == Part::Cells && !self.is_plain();
        if piece.part == Part::Rest {
            return self.count_before_rest(index);
        }
        let slot = &mut self.slots[index];
        let len = slot.timeline.len();
        slot.peak = slot.peak.max(slot.cells.len() + piece.held.len());
        let turn = slot.turn.as_mut().expect("it restores");
        let prompt = &turn.request.prompt;
        let away = prompt[len..piece.wanted.start.max(len)].to_vec();
        let tokens = prompt[piece.wanted.clone()].to_vec();
        if !away.is_empty() {
            turn.away.push(len..piece.wanted.start);
        }
        let restoring = slot.restoring_mut().expect("it restores");
        let (views, is_moved) = (restoring.views.clone(), restoring.chunk.is_some());
        let counts = &mut restoring.tokens;
        counts.away += away.len();
        if is_moved {
            counts.moved += tokens.len();
        } else {
            counts.memory += piece.origins.count(Origin::Memory);
            counts.disk += piece.origins.count(Origin::Disk);
            let lossy = |end| lossy_tokens(&views, end);
            let lossy = lossy(piece.wanted.end).saturating_sub(lossy(piece.wanted.start));
            self.core.counters.lossy_tokens += lossy as u64;
        }
        if !away.is_empty() {
            self.extend_away(index, &away, &views);
        }
        self.extend_restored(index, &tokens, &views, &piece.origins);
    }

    /// A rest has dropped the restored cells behind its position: the turn computes their tokens.
    fn count_before_rest(&mut self, index: usize) {
        let slot = &mut self.slots[index];
        let hot = slot.restoring().map_or(0, |restoring| restoring.tokens.shared);
        let kept = slot.ahead_counts(hot.min(slot.timeline.len()));
        let counts = &mut slot.restoring_mut().expect("it restores").tokens;
        (counts.memory, counts.disk) = (kept.memory, kept.disk);
    }

    fn import_with_room(&mut self, index: usize, piece: &Piece) -> Import {
        // A rest has its cells already.
        let needed = if piece.part == Part::Rest { 0 } else { piece.held.len() };
        loop {
            let Err(error) = self.import(index, piece) else { return Import::Done };
            // llama.cpp reports a full cache and a refused state alike.
            if self.free_cells() >= needed {
                return Import::Refused(error);
            }
            if self.evict_idle(Some(index)) {
                continue;
            }
            match self.running().as_slice() {
                [_, .., youngest] => {
                    self.preempt(*youngest);
                    if *youngest == index {
                        return Import::Preempted;
                    }
                }
                _ => return Import::NoRoom,
            }
        }
    }

    fn import(&mut self, index: usize, piece: &Piece) -> Result<(), StateError> {
        let sequence = self.slots[index].sequence;
        let state = piece.state.as_bytes();
        match piece.part {
            Part::Whole => self.backend.import(sequence, state),
            Part::Rest => self.rewind(index, state, piece.held.end),
            Part::Cells => self.import_cells(index, piece),
        }
    }

    pub(super) fn import_cells(&mut self, index: usize, piece: &Piece) -> Result<(), StateError> {
        let (scratch, sequence) = (self.scratch(), self.slots[index].sequence);
        let (state, wanted) = (piece.state.as_bytes(), piece.wanted.clone());
        splice::import(self.backend, scratch, sequence, state, &piece.held, wanted)
    }
}
