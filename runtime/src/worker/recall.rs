//! Brings blocks back that a prompt's newest text asks for, before that text is computed.
//!
//! - A reader thread chooses and reads them, see [`tiers`](crate::tiers). The turn waits, as for any restore.
//! - What was resident so far leaves down to the low watermark first, so that there is room; and further for
//!   what the text asks for.
//! - A block that is not there stays away until the next turn, which computes it again, see `away`.

use std::time::Instant;

use hob_slots::away::Demand;
use hob_slots::away::graph::neighbours;
use hob_slots::recall::Residence;
use hob_slots::{Block, Layer};
use tracing::debug;

use super::Worker;
use super::budget::{Frees, high, low};
use super::slot::{Phase, Restoring, Running};
use crate::command::Command;
use crate::draft;
use crate::map::Origin;
use crate::options::Recovery;
use crate::tiers::{Piece, RecallRequest, Recalled};
use crate::turn::{BackReason, RecallReport, Way};

/// The newest text of a prompt by which blocks are recalled has at most so many tokens. They are computed
/// after the blocks are back, so that they see them.
const MAX_QUERY: usize = 256;

/// Blocks that are read to memory between two questions.
const MAX_AHEAD: usize = 32;

impl Worker<'_> {
    /// The prompt's known tokens are in the slot: decides where blocks are recalled.
    pub(super) fn set_recall_position(&mut self, index: usize) {
        let slot = &self.slots[index];
        let position = slot.turn.as_ref().map(|turn| recall_position(turn, slot.timeline.len()));
        if let Some(turn) = &mut self.slots[index].turn {
            turn.recalls_at = position;
        }
    }

    /// Begins to recall blocks where the slot's prompt has reached the position for it, and blocks are
    /// away. Returns whether it did.
    pub(super) fn recall_if_due(&mut self, index: usize) -> bool {
        let slot = &mut self.slots[index];
        let Some(turn) = slot.turn.as_mut() else { return false };
        if turn.is_restoring() || turn.recalls_at.is_none_or(|at| slot.timeline.len() < at) {
            return false;
        }
        turn.recalls_at = None;
        slot.reads_ahead = None; // The readers have the disk now.
        let recovers = self.core.options.recovery == Recovery::Restore;
        if slot.view.is_whole() || turn.request.restores_only || !recovers {
            return false;
        }
        let began = Instant::now();
        let left = turn.request.prompt.len() - slot.timeline.len();
        let (budget, cells) = (self.budget(index), self.slots[index].cells.len());
        // What was resident so far makes room for what is asked for now.
        if cells + left > low(budget) {
            let wanted = cells + left - low(budget);
            self.evict_own(index, Demand { needed: 0, wanted });
        }
        let free = self.room_left(index).saturating_sub(self.kept_free(index));
        let request = self.recall_request(index, free);
        self.core.fetches += 1;
        let fetch = self.core.fetches;
        let is_absent = |it: &&Residence| **it == Residence::Absent;
        let away = request.residence.iter().filter(is_absent).count();
        let commands = self.core.commands.clone();
        let handle = self.core.tiers.recall(request, move |event| {
            // An error: the engine has stopped, and the turn with it.
            commands.send(Command::Fetched { slot: index, fetch, event }).ok();
        });
        let turn = self.slots[index].turn.as_mut().expect("it was found above");
        turn.phase =
            Phase::Restoring(Box::new(Restoring::of_recall(fetch, handle, turn.report.tokens)));
        turn.recall_began = Some(began);
        turn.report.recall = Some(RecallReport { away, ..RecallReport::default() });
        self.report_progress(index);
        true
    }

    fn recall_request(&mut self, index: usize, free: usize) -> RecallRequest {
        let facts = self.block_facts(index, self.frees(index));
        let may_leave = self.blocks_that_may_leave(index, &facts);
        let residence = facts.iter().enumerate().map(|(at, facts)| {
            if !facts.resident {
                Residence::Absent
            } else if may_leave.binary_search(&at).is_ok() {
                Residence::MayLeave
            } else {
                Residence::Resident
            }
        });
        let residence = residence.collect();
        let slot = &self.slots[index];
        let turn = slot.turn.as_ref().expect("it recalls");
        let timeline = slot.labelled(turn.owner.id(), &turn.request.keep.segments);
        let query = turn.request.prompt[slot.timeline.len()..].to_vec();
        RecallRequest { timeline, residence, query, by: self.core.options.retrievals, free }
    }

    /// Lets the words of a conversation with blocks away be read, before a question asks for them.
    pub(super) fn learn_words(&self, index: usize) {
        let slot = &self.slots[index];
        let recovers = self.core.options.recovery == Recovery::Restore;
        if let Some(owner) = &slot.owner
            && recovers
            && !slot.view.is_whole()
        {
            self.core.tiers.learn_words(slot.labelled(owner.id(), &slot.keep.segments));
        }
    }

    /// The prompt is computed: what is related to the blocks that came back for it is read to memory until
    /// the conversation's next question.
    pub(super) fn read_ahead(&mut self, index: usize) {
        let slot = &self.slots[index];
        let recovers = self.core.options.recovery == Recovery::Restore;
        if slot.view.is_whole() || !recovers || !self.core.tiers.has_disk() {
            return;
        }
        let turn = slot.uses.turn();
        let facts = self.block_facts(index, Frees::Budget);
        let came_back = |&at: &usize| facts[at].brought_back == Some(turn);
        let used: Vec<usize> = (0..facts.len()).filter(came_back).collect();
        let blocks = self.slots[index].timeline.blocks();
        let near = neighbours(&facts, &used, MAX_AHEAD).into_iter().map(|at| blocks[at].id);
        let near: Vec<_> = near.collect();
        if !near.is_empty() {
            let handle = self.core.tiers.read_ahead(near, self.usage(index));
            self.slots[index].reads_ahead = Some(handle);
        }
    }

    /// Lets others leave for what comes back, where there is no room for it.
    pub(super) fn make_room_for(&mut self, index: usize, recalled: Recalled) {
        let uses = &mut self.slots[index].uses;
        recalled.stay.iter().for_each(|&start| uses.asked_for(start));
        let wanted = recalled.tokens() + self.kept_free(index);
        let needed = wanted.saturating_sub(self.room_left(index));
        let stay = recalled.stay.clone();
        self.restoring(index).recalled = Some(recalled);
        if needed > 0 {
            self.evict_own_but(index, Demand { needed, wanted: needed }, &stay);
        }
    }

    /// Cells that stay free beside what comes back: those of the rest of the prompt, and those above the high
    /// watermark, so that nothing leaves for it again.
    fn kept_free(&self, index: usize) -> usize {
        let slot = &self.slots[index];
        let turn = slot.turn.as_ref().expect("it recalls");
        let left = turn.request.prompt.len() - slot.timeline.len();
        let budget = self.budget(index);
        budget - high(budget) + left + draft::MAX_ROWS
    }

    /// Imports a piece that was away, if there is room for it without others' cells.
    pub(super) fn bring_back(&mut self, index: usize, piece: &Piece) {
        let slot = &self.slots[index];
        let fits = slot.cells.len() + piece.held.len() <= self.budget(index);
        if !fits || !slot.cells.lacks(&piece.wanted) {
            return;
        }
        while self.free_cells() < piece.held.len() {
            if !self.evict_idle(Some(index)) {
                return;
            }
        }
        if let Err(error) = self.import_cells(index, piece) {
            self.core.counters.import_failures += 1;
            debug!(%error, "a block stays away");
            return;
        }
        let slot = &mut self.slots[index];
        slot.peak = slot.peak.max(slot.cells.len() + piece.held.len());
        self.fill(index, piece.wanted.clone(), &piece.origins);
        self.count_back(index, piece);
        let slot = &self.slots[index];
        let is_within = |block: &&Block| {
            piece.wanted.start <= block.range.start && block.range.end <= piece.wanted.end
        };
        let blocks: Vec<Block> = slot.timeline.blocks().iter().filter(is_within).cloned().collect();
        for block in blocks {
            self.slots[index].uses.asked_for(block.range.start);
            if let Some(held) = self.slots[index].held_blocks.iter().position(|id| *id == block.id)
            {
                self.slots[index].held_blocks.swap_remove(held);
                self.core.tiers.release([block.id]);
            }
            self.core.counters.blocks_back += 1;
            let why = self.slots[index]
                .restoring()
                .map_or(BackReason::Room, |restoring| restoring.why(&block.range));
            self.report_moved(index, block.range, Way::Back(why));
        }
    }

    /// Counts what was away when the turn began and is back now.
    fn count_back(&mut self, index: usize, piece: &Piece) {
        let Some(turn) = self.slots[index].turn.as_mut() else { return };
        let mut left = Vec::new();
        let mut back = 0;
        for away in turn.away.drain(..) {
            let (start, end) = (away.start.max(piece.wanted.start), away.end.min(piece.wanted.end));
            if start >= end {
                left.push(away);
                continue;
            }
            back += end - start;
            left.extend([away.start..start, end..away.end].into_iter().filter(|it| !it.is_empty()));
        }
        turn.away = left;
        if let Some(recall) = &mut turn.report.recall {
            recall.tokens += back;
        }
        let disk = piece.origins.count(Origin::Disk).min(back);
        // A turn that was put aside has reported its tokens when it started.
        if !turn.started
            && let Phase::Restoring(restoring) = &mut turn.phase
        {
            let tokens = &mut restoring.tokens;
            tokens.away -= back;
            tokens.disk += disk;
            tokens.memory += back - disk;
        }
    }
}

/// Where blocks are recalled for a prompt of which the slot has the first `hot` tokens: before its last
/// message, and near its end in any case.
fn recall_position(turn: &Running, hot: usize) -> usize {
    let segments = &turn.request.keep.segments;
    let asks = |layer: Layer| matches!(layer, Layer::User | Layer::Tool);
    let last = segments.iter().rposition(|segment| asks(segment.layer));
    let begins = last.and_then(|last| last.checked_sub(1)).map_or(0, |it| segments[it].end);
    let latest = turn.request.prompt.len().saturating_sub(MAX_QUERY);
    hot.max(begins as usize).max(latest)
}
