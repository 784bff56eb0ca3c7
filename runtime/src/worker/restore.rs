//! Brings back what is kept of a prompt, beyond what is hot.
//!
//! - Memory and disk are asked off the thread, and only when they can have more than is hot. What is
//!   found arrives in groups of blocks and is brought in between micro-batches.
//! - A restore has no end that it may not reach: when nothing comes for a while, the rest is
//!   computed.
//! - What was brought in is proven: the sequence must end where the timeline does.
//! - A state that finds no room makes some, as a micro-batch does; a state that is refused although
//!   there is room is a miss, and is counted.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use hob_slots::Token;
use hob_slots::format::SnapshotRef;

use super::slot::{Phase, Restoring};
use super::{Command, Worker};
use crate::backend::StateError;
use crate::map::{EvictionReason, Origin};
use crate::miss::MissReason;
use crate::splice;
use crate::tiers::{FetchEvent, FetchRequest, Found, Piece, common_prefix};
use crate::turn::TokenCounts;

/// How long running answers wait while restored cells are brought in, between two micro-batches.
const SLICE: Duration = Duration::from_millis(20);

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
        let used = self.used(index);
        let slot = &mut self.slots[index];
        let hot = slot.timeline.len();
        let turn = slot.turn.as_mut().expect("the turn was just begun");
        let limit = turn.limit();
        turn.report.slot = Some(slot.id);
        if !turn.started {
            turn.report.tokens = TokenCounts { shared: hot, ..TokenCounts::default() };
        }
        // A conversation that was never looked for may have a record, which the next one continues.
        let known = || turn.anonymous || self.tiers.knows(&turn.conversation);
        if goes_on || (hot == limit && (known() || turn.request.purpose.is_background())) {
            turn.expected = hot;
            turn.changes_nothing = goes_on && hot == limit && turn.request.purpose.is_background();
            return self.prompt_is_in_place(index);
        }
        let prompt = turn.request.prompt.clone();
        let prefixes = self.whole_prefixes(index, &prompt);
        let turn = self.slots[index].turn.as_mut().expect("the turn was just begun");
        self.fetches += 1;
        turn.phase = Phase::Restoring { fetch: self.fetches };
        let wanted = FetchRequest {
            conversation: (!turn.anonymous).then(|| turn.conversation.clone()),
            prompt,
            hot,
            limit,
            prefixes,
            cold: turn.is_cold(),
            used,
        };
        let (commands, fetch) = (self.commands.clone(), self.fetches);
        let handle = self.tiers.fetch(wanted, move |event| {
            // An error: the engine stopped meanwhile, and the turn with it.
            commands.send(Command::Fetched { slot: index, fetch, event }).ok();
        });
        turn.restoring = Some(Restoring {
            handle,
            arrived: VecDeque::new(),
            heard: Instant::now(),
            tokens: turn.report.tokens,
        });
    }

    /// How far the prompt's beginnings reach that are hot as prefixes. Where memory is plain their
    /// cells are shared, and this is not needed.
    fn whole_prefixes(&self, index: usize, prompt: &[Token]) -> Vec<usize> {
        let prefixes = self.slots[self.options.slots..].iter().map(|slot| &slot.timeline);
        let of_prompt = prefixes.filter(|timeline| prompt.starts_with(timeline.tokens()));
        let wanted = !self.is_plain() && index < self.options.slots;
        of_prompt.map(|timeline| timeline.len()).filter(|&end| wanted && end > 0).collect()
    }

    /// Takes what the shelf found, unless the turn is gone.
    pub(super) fn arrived(&mut self, index: usize, fetch: u64, event: FetchEvent) {
        let Some(turn) = &mut self.slots[index].turn else { return };
        if let Some(restoring) = &mut turn.restoring
            && turn.phase == (Phase::Restoring { fetch })
        {
            restoring.heard = Instant::now();
            restoring.arrived.push_back(event);
        }
    }

    /// Brings in what arrived, for a bounded time: others decode meanwhile. Returns whether there
    /// was anything.
    pub(super) fn bring_in_arrivals(&mut self) -> bool {
        let began = Instant::now();
        let mut any = false;
        while began.elapsed() < SLICE {
            let Some(index) = self.next_arrival() else { break };
            any = true;
            let turn = self.slots[index].turn.as_mut().expect("it has arrivals");
            let restoring = turn.restoring.as_mut().expect("it has arrivals");
            match restoring.arrived.pop_front().expect("it has arrivals") {
                FetchEvent::Pieces(pieces) => self.bring_in_pieces(index, pieces),
                FetchEvent::End(found) => self.restored(index, found),
            }
        }
        self.lose_patience();
        any
    }

    /// How long to wait for the next command at most.
    pub(super) fn patience(&self) -> Option<Duration> {
        let heard = self.slots.iter().filter_map(|slot| Some(slot.restoring()?.heard));
        let limit = self.options.restore_patience;
        heard.min().map(|heard| limit.saturating_sub(heard.elapsed()))
    }

    /// Of several restores the one that heard something first.
    fn next_arrival(&self) -> Option<usize> {
        let arrivals = (0..self.slots.len()).filter(|&index| self.slots[index].has_arrivals());
        arrivals.min_by_key(|&index| self.slots[index].restoring().map(|r| r.heard))
    }

    /// Goes on without what does not come: computing it takes an end.
    fn lose_patience(&mut self) {
        let limit = self.options.restore_patience;
        for index in 0..self.slots.len() {
            let Some(restoring) = self.slots[index].restoring() else { continue };
            if restoring.arrived.is_empty() && restoring.heard.elapsed() >= limit {
                let reason = format!("nothing came for {} s", limit.as_secs_f32());
                self.give_up(index, reason);
            }
        }
    }

    fn bring_in_pieces(&mut self, index: usize, pieces: Vec<Piece>) {
        for piece in &pieces {
            if !self.is_plain() {
                self.clear(index); // A whole state takes the place of what is hot.
                self.restoring(index).tokens = TokenCounts::default();
            }
            match self.bring_in(index, piece) {
                Brought::In => {}
                Brought::PutAside => return,
                Brought::NoRoom => {
                    return self.give_up(index, "there was no room for it".to_owned());
                }
                Brought::Refused(error) => {
                    self.counters.import_failures += 1;
                    return self.give_up(index, error.to_string());
                }
            }
            let turn = self.slots[index].turn.as_ref().expect("it restores");
            let tokens = turn.request.prompt[piece.wanted.clone()].to_vec();
            self.extend(index, &tokens, &piece.origins);
            let counts = &mut self.restoring(index).tokens;
            counts.memory += piece.origins.count(Origin::Memory);
            counts.disk += piece.origins.count(Origin::Disk);
        }
        self.restoring(index).handle.consumed(pieces);
    }

    /// Computes the rest: what is in the slot so far stays.
    fn give_up(&mut self, index: usize, reason: String) {
        let from = self.slots[index].timeline.len();
        let turn = self.slots[index].turn.as_ref().expect("it restores");
        let conversation = (!turn.anonymous).then_some(&turn.conversation);
        // It may be that the shelf has not even told what there is.
        let record = conversation.and_then(|c| self.tiers.known_record(c));
        let prompt = &turn.request.prompt;
        let expected = record.as_ref().map_or(from, |r| common_prefix(&r.tokens, prompt));
        let reachable = |snapshot: &&SnapshotRef| snapshot.position as usize <= expected;
        let snapshots = record.iter().flat_map(|r| r.snapshots.iter().filter(reachable)).copied();
        let snapshots = snapshots.collect();
        let miss = Some(MissReason::Unusable { from, reason });
        self.restored(index, Found { expected, record, snapshots, miss });
    }

    /// Nothing more comes: the prompt's other tokens are computed.
    fn restored(&mut self, index: usize, found: Found) {
        let Found { expected, record, snapshots, mut miss } = found;
        let mut counts = self.restoring(index).tokens;
        if self.backend.end(self.slots[index].sequence) != self.slots[index].timeline.len() {
            // Nothing that was brought in can be trusted now.
            self.counters.wasted_restores += 1;
            self.leaves(index, 0, EvictionReason::Failed);
            self.clear(index);
            counts = TokenCounts::default();
        }
        if !self.is_plain() {
            self.slots[index].snapshots = snapshots;
        }
        let turn = self.slots[index].turn.as_mut().expect("it restores");
        let limit = turn.limit();
        if miss.is_none()
            && let Some(record) = record
            && expected < record.tokens.len().min(limit)
        {
            miss = Some(MissReason::differs(&record.tokens, expected));
        }
        if turn.is_cold() {
            miss = None; // It is meant to compute again.
        }
        turn.expected = if turn.is_cold() { 0 } else { expected };
        turn.phase = Phase::Prefill;
        turn.restoring = None; // Nothing more is read for it.
        if !turn.started {
            turn.report.tokens = counts;
            turn.report.restore_ms = turn.admitted.elapsed().as_secs_f64() * 1e3;
            turn.report.miss = miss.or(turn.report.miss.take());
        }
        self.change_log.touch();
        // A newer turn of the conversation may have waited for just this, to take its place.
        self.freed |= self.is_background(index);
        self.prompt_is_in_place(index);
    }

    /// What is kept of the prompt is hot; the rest is computed, if there is a rest.
    fn prompt_is_in_place(&mut self, index: usize) {
        let slot = &self.slots[index];
        let prompt = slot.turn.as_ref().map_or(0, |turn| turn.request.prompt.len());
        if slot.timeline.len() == prompt {
            return self.prewarmed(index);
        }
        self.snapshot_before_last(index);
    }

    fn restoring(&mut self, index: usize) -> &mut Restoring {
        let turn = self.slots[index].turn.as_mut().expect("it restores");
        turn.restoring.as_mut().expect("it restores")
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
            return self.backend.import(sequence, piece.state.as_bytes());
        }
        let (held, wanted) = (piece.held.clone(), piece.wanted.clone());
        splice::import(self.backend, scratch, sequence, piece.state.as_bytes(), held, wanted)
    }

    /// Cells that are certainly free: those that slots share are counted more than once.
    fn free_cells(&self) -> usize {
        let held: usize = self.slots.iter().map(|slot| slot.timeline.len()).sum();
        self.options.context_tokens.saturating_sub(held)
    }
}
