//! Brings blocks back that a prompt's newest text asks for, before that text is computed.
//!
//! - The last message of the prompt is the question, from its first token on, also where it was typed ahead: of
//!   a long one, both ends.
//! - Blocks of the message itself that are away are not searched.
//! - The search takes place before the message is computed, so that all of it attends to what came back. Where a message
//!   leaves no room for that, its beginning is computed first.
//! - A reader thread chooses the blocks and reads them, see [`tiers`](crate::tiers). The turn waits as for any restore.
//! - Resident blocks leave down to the low watermark first, to make room; more of them leave for blocks that the
//!   text asks for.
//! - A block that no tier has stays away until the next turn, which computes it again, see `away`.

use std::time::Instant;

use hob_slots::away::graph::likely_next;
use hob_slots::away::{Demand, label_stays};
use hob_slots::format::SegmentRef;
use hob_slots::recall::Residence;
use hob_slots::{BLOCK_TOKENS, Block, Layer, Token};
use tracing::debug;

use super::Worker;
use super::budget::{Frees, high, low};
use super::running::{Phase, Restoring};
use crate::draft;
use crate::map::Origin;
use crate::options::Recovery;
use crate::tiers::{Piece, RecallRequest, Recalled};
use crate::turn::{BackReason, RecallReport, TurnRequest, Way};

/// Tokens at each end of a message by which blocks are recalled, where it has more than twice as many.
const QUERY_END: usize = 512;

/// At least this many tokens of a message are computed after the blocks are back, so that they attend to them. A
/// prompt whose messages are not known recalls blocks by as many tokens at its end.
const MIN_SEEING: usize = 256;

/// A message is computed after the blocks are back where this part of the budget stays free for them.
const ROOM_PERCENT: usize = 25;

/// Blocks that are read to memory between two questions.
const MAX_AHEAD: usize = 32;

impl Worker<'_> {
    /// The prompt's known tokens are in the slot: decides where blocks are recalled.
    pub(super) fn set_recall_position(&mut self, index: usize) {
        let (budget, micro_batch) = (self.budget(index), self.micro_batch(index));
        let slot = &mut self.slots[index];
        let hot = slot.timeline.len();
        if let Some(turn) = &mut slot.turn {
            let at = seeing_from(&turn.request, budget, micro_batch);
            turn.recalls_at = Some(at.max(hot));
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
        slot.away_blocks.stop_reading(); // The readers have the disk now.
        let recovers = self.core.options.recovery == Recovery::Restore;
        if slot.view.is_whole() || turn.request.restores_only || !recovers {
            return false;
        }
        let began = Instant::now();
        let left = turn.request.prompt.len() - slot.timeline.len();
        let (budget, cells) = (self.budget(index), self.slots[index].cells.len());
        // Resident blocks make room for those that the text asks for.
        if cells + left > low(budget) {
            let wanted = cells + left - low(budget);
            self.evict_own(index, Demand { needed: 0, wanted });
        }
        let free = self.room_left(index).saturating_sub(self.kept_free(index));
        let request = self.recall_request(index, free);
        let (fetch, deliver) = self.core.number_fetch(index);
        let is_absent = |it: &&Residence| **it == Residence::Absent;
        let away = request.residence.iter().filter(is_absent).count();
        let handle = self.core.tiers.recall(request, deliver);
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
        let hot = slot.timeline.len();
        RecallRequest {
            timeline,
            residence,
            query: question(&turn.request, hot),
            query_begins: last_message(&turn.request).unwrap_or(hot),
            by: self.core.options.retrievals,
            free,
        }
    }

    /// Lets the words of a conversation with blocks away be read, before a question asks for them.
    pub(super) fn learn_words(&self, index: usize) {
        let slot = &self.slots[index];
        let recovers = self.core.options.recovery == Recovery::Restore;
        if let Some(owner) = &slot.owner
            && recovers
            && !slot.view.is_whole()
        {
            self.core.tiers.learn_words(slot.labelled(owner.id(), &slot.save.keep.segments));
        }
    }

    /// The prompt is computed: what is related to the blocks in use, first to those that came back for it, is
    /// read to memory until the conversation's next question.
    pub(super) fn read_ahead(&mut self, index: usize) {
        let slot = &self.slots[index];
        let recovers = self.core.options.recovery == Recovery::Restore;
        if slot.view.is_whole() || !recovers || !self.core.tiers.has_disk() {
            return;
        }
        let turn = slot.uses.turn();
        let facts = self.block_facts(index, Frees::Budget);
        let blocks = self.slots[index].timeline.blocks();
        let next = likely_next(&facts, turn, MAX_AHEAD).into_iter().map(|at| blocks[at].id);
        let next: Vec<_> = next.collect();
        if !next.is_empty() {
            let handle = self.core.tiers.read_ahead(next, self.usage(index));
            self.slots[index].away_blocks.read_ahead(handle);
        }
    }

    /// Lets resident blocks leave for those that come back, where there is no room.
    pub(super) fn make_room_for(&mut self, index: usize, recalled: Recalled) {
        let uses = &mut self.slots[index].uses;
        recalled.stay.iter().for_each(|&start| uses.count_hit(start));
        let wanted = recalled.tokens() + self.kept_free(index);
        let needed = wanted.saturating_sub(self.room_left(index));
        let stay = recalled.stay.clone();
        self.restoring(index).recalled = Some(recalled);
        if needed > 0 {
            self.evict_own_but(index, Demand { needed, wanted: needed }, &stay);
        }
    }

    /// Cells that stay free beside the blocks that come back: for the rest of the prompt, and above the high
    /// watermark, so that no block leaves for the prompt again.
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
            let slot = &mut self.slots[index];
            slot.uses.count_hit(block.range.start);
            if slot.away_blocks.remove(block.id) {
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

/// Where the last message of a prompt begins, if its messages are known.
fn last_message(request: &TurnRequest) -> Option<usize> {
    let segments = &request.keep.segments;
    let asks = |segment: &SegmentRef| matches!(segment.layer, Layer::User | Layer::Tool);
    let last = segments.iter().rposition(asks)?;
    let before = last.checked_sub(1).map_or(0, |before| segments[before].end as usize);
    Some(before.min(request.prompt.len()))
}

/// From where on the prompt is computed after the blocks are back: from its last message on, or a later token,
/// behind which so little follows that it leaves room for them.
fn seeing_from(request: &TurnRequest, budget: usize, micro_batch: usize) -> usize {
    let len = request.prompt.len();
    let Some(begins) = last_message(request) else { return len.saturating_sub(MIN_SEEING) };
    let mut start = 0;
    let stay = request.keep.segments.iter().map(|segment| {
        let tokens = segment.end.saturating_sub(std::mem::replace(&mut start, segment.end));
        if label_stays(segment.layer, segment.pinned) { tokens as usize } else { 0 }
    });
    let stay = BLOCK_TOKENS + stay.sum::<usize>() + micro_batch;
    let room = high(budget).saturating_sub(budget * ROOM_PERCENT / 100 + stay);
    begins.max(len.saturating_sub(room.max(MIN_SEEING)))
}

/// The parts of a prompt by which blocks are recalled. `hot`: tokens that the slot has.
fn question(request: &TurnRequest, hot: usize) -> Vec<Vec<Token>> {
    let prompt = &request.prompt;
    match last_message(request).map(|begins| &prompt[begins..]) {
        Some(message) if message.len() > 2 * QUERY_END => {
            let ends = [&message[..QUERY_END], &message[message.len() - QUERY_END..]];
            ends.map(<[Token]>::to_vec).into()
        }
        Some(message) => vec![message.to_vec()],
        None => vec![prompt[hot..].to_vec()],
    }
}
