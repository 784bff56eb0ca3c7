//! Brings back what is kept of a prompt, beyond what is hot.
//!
//! - Memory and disk are asked off the thread, and only when they can have more than is hot.
//! - What was brought in is proven: the sequence must end where the timeline does.
//! - A state that finds no room makes some, as a micro-batch does; a state that is refused although
//!   there is room is a miss, and is counted.

use super::slot::Phase;
use super::{Command, Worker};
use crate::backend::StateError;
use crate::miss::MissReason;
use crate::shelf::{Fetched, Piece, Place, Wanted};
use crate::splice;
use crate::turn::TokenCounts;

/// What became of a piece.
enum Brought {
    In,
    /// By llama.cpp, although there was room.
    Refused(StateError),
    /// Nobody else holds cells, and yet there are too few.
    NoRoom,
    /// Others need the cells: the turn itself was put aside.
    PutAside,
}

impl Worker<'_> {
    /// Asks memory and disk for what is not hot, unless there can be nothing: the conversation goes
    /// on where it stopped, or all of its prompt is here.
    pub(super) fn restore(&mut self, index: usize, goes_on: bool) {
        let slot = &mut self.slots[index];
        let hot = slot.timeline.len();
        let turn = slot.turn.as_mut().expect("the turn was just begun");
        let limit = turn.request.prompt.len() - 1;
        turn.report.slot = Some(slot.id);
        if !turn.started {
            turn.report.tokens = TokenCounts { shared: hot, ..TokenCounts::default() };
        }
        // A conversation that was never looked for may have a record, which the next one continues.
        let known = || turn.anonymous || self.shelf.knows(&turn.conversation);
        if goes_on || (hot == limit && known()) {
            turn.expected = hot;
            return self.snapshot_before_last(index);
        }
        self.fetches += 1;
        turn.phase = Phase::Restoring { fetch: self.fetches };
        let wanted = Wanted {
            conversation: (!turn.anonymous).then(|| turn.conversation.clone()),
            prompt: turn.request.prompt.clone(),
            hot,
        };
        let (commands, fetch) = (self.commands.clone(), self.fetches);
        self.shelf.fetch(wanted, move |fetched| {
            // An error: the engine stopped meanwhile, and the turn with it.
            commands.send(Command::Fetched { slot: index, fetch, fetched: Box::new(fetched) }).ok();
        });
    }

    /// Brings in what the shelf found, unless the turn is gone.
    pub(super) fn fetched(&mut self, index: usize, fetch: u64, fetched: Fetched) {
        let Some(turn) = &self.slots[index].turn else { return };
        if turn.phase != (Phase::Restoring { fetch }) {
            return;
        }
        let prompt = turn.request.prompt.clone();
        let mut counts = turn.report.tokens;
        let mut miss = fetched.miss;
        for piece in &fetched.pieces {
            if !self.is_plain() {
                self.clear(index); // A whole state takes the place of what is hot.
                counts = TokenCounts::default();
            }
            let start = piece.wanted.start;
            match self.bring_in(index, piece) {
                Brought::In => {}
                Brought::PutAside => return,
                Brought::NoRoom => {
                    let reason = "there was no room for it".to_owned();
                    miss = Some(MissReason::Unusable { from: start, reason });
                    break;
                }
                Brought::Refused(error) => {
                    self.counters.import_failures += 1;
                    let reason = error.to_string();
                    miss = Some(MissReason::Unusable { from: start, reason });
                    break;
                }
            }
            self.extend(index, &prompt[piece.wanted.clone()]);
            match piece.place {
                Place::Memory => counts.memory += piece.wanted.len(),
                Place::Disk => counts.disk += piece.wanted.len(),
            }
        }
        if self.backend.end(self.slots[index].sequence) != self.slots[index].timeline.len() {
            // Nothing that was brought in can be trusted now.
            self.counters.wasted_restores += 1;
            self.clear(index);
            counts = TokenCounts::default();
        }
        if !self.is_plain() {
            self.slots[index].snapshots = fetched.snapshots;
        }
        let limit = prompt.len() - 1;
        let differs = fetched.expected < fetched.recorded.min(limit);
        if miss.is_none() && differs {
            miss = Some(MissReason::Differs { at: fetched.expected, kept: fetched.recorded });
        }
        let turn = self.slots[index].turn.as_mut().expect("the turn was found above");
        turn.expected = fetched.expected;
        turn.phase = Phase::Prefill;
        if !turn.started {
            turn.report.tokens = counts;
            turn.report.restore_ms = turn.admitted.elapsed().as_secs_f64() * 1e3;
            turn.report.miss = miss;
        }
        self.snapshot_before_last(index);
    }

    fn bring_in(&mut self, index: usize, piece: &Piece) -> Brought {
        loop {
            let Err(error) = self.import(index, piece) else { return Brought::In };
            // llama.cpp does not tell a refused state from a full cache.
            if self.free_cells() >= piece.held.len() {
                return Brought::Refused(error);
            }
            if self.make_room(index) {
                continue;
            }
            match self.running().as_slice() {
                [_, .., youngest] => {
                    self.preempt(*youngest);
                    if *youngest == index {
                        return Brought::PutAside;
                    }
                }
                _ => return Brought::NoRoom,
            }
        }
    }

    fn import(&mut self, index: usize, piece: &Piece) -> Result<(), StateError> {
        let (scratch, sequence) = (self.scratch(), self.slots[index].sequence);
        if !self.is_plain() {
            return self.backend.import(sequence, &piece.payload);
        }
        let (held, wanted) = (piece.held.clone(), piece.wanted.clone());
        splice::import(self.backend, scratch, sequence, &piece.payload, held, wanted)
    }

    /// Cells that are certainly free: those that slots share are counted more than once.
    fn free_cells(&self) -> usize {
        let held: usize = self.slots.iter().map(|slot| slot.timeline.len()).sum();
        self.options.context_tokens.saturating_sub(held)
    }
}
