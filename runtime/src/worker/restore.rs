//! Restores the saved KV of a prompt beyond what is hot.
//!
//! - Memory and disk are read off the thread, and only when they can hold more than is hot. Pieces
//!   arrive in groups of blocks and are imported between micro-batches.
//! - A restore always ends: after `restore_patience` without an event the rest is computed. Events
//!   that wait in the inbox count as arrived, however long a micro-batch takes.
//! - A restore is verified: the sequence must end where the timeline does. Without the rest of a
//!   memory that has one, nothing of it is used.
//!
//! `import` puts one piece into the cells.

use std::ops::Range;
use std::time::{Duration, Instant};

use hob_slots::Token;
use hob_slots::format::SnapshotRef;
use tracing::debug;

use super::running::{Phase, Restoring, Running};
use super::{Core, Worker};
use crate::command::Command;
use crate::miss::MissReason;
use crate::tiers::{FetchEvent, FetchRequest, FetchSummary};
use crate::turn::TokenCounts;

/// How long answers wait for imports between two micro-batches.
const MAX_IMPORT_TIME: Duration = Duration::from_millis(20);

impl Core {
    /// The number of a fetch into the slot, and what sends its events to the engine's thread.
    pub(super) fn number_fetch(
        &mut self,
        slot: usize,
    ) -> (u64, impl Fn(FetchEvent) + Send + 'static + use<>) {
        self.fetches += 1;
        let (fetch, commands) = (self.fetches, self.commands.clone());
        let deliver = move |event| {
            // An error: the engine has stopped, and the turn with it.
            commands.send(Command::Fetched { slot, fetch, event }).ok();
        };
        (fetch, deliver)
    }
}

impl Worker<'_> {
    /// Fetches what is saved of the prompt and not hot. Skips the fetch when the conversation
    /// continues where it stopped (`continues`), or when the whole prompt is hot.
    pub(super) fn restore(&mut self, index: usize, continues: bool) {
        let slot = &mut self.slots[index];
        let hot = slot.timeline.len();
        let turn = slot.turn.as_mut().expect("the turn was just begun");
        let limit = turn.reusable_tokens();
        let is_background = turn.request.purpose.is_background();
        turn.report.slot = Some(slot.id);
        turn.away = slot.cells.away(hot);
        if !turn.started {
            let away = turn.away.iter().map(Range::len).sum::<usize>();
            turn.report.tokens = TokenCounts { shared: hot - away, away, ..TokenCounts::default() };
            turn.report.restore_ms = 0.0;
        }
        // The next record continues the conversation's record, which must have been looked up once.
        let conversation = turn.owner.conversation();
        let is_known = || conversation.is_none_or(|id| self.core.tiers.knows(id));
        if continues || (hot == limit && is_known()) {
            turn.expected = hot;
            turn.adds_nothing = continues && hot == limit && is_background;
            return self.end_reuse(index);
        }
        let prompt = turn.request.prompt.clone();
        let prefix_ends = self.hot_prefix_ends(index, &prompt);
        let room = self.room_of_sequel(index, prompt.len());
        let views = std::mem::take(&mut self.slots[index].views_before);
        let (fetch, deliver) = self.core.number_fetch(index);
        let turn = self.slots[index].turn.as_mut().expect("the turn was just begun");
        let request = FetchRequest {
            conversation: turn.owner.conversation().cloned(),
            number: fetch,
            adapters: turn.request.adapters.set().clone(),
            prompt,
            segments: turn.request.keep.segments.clone(),
            hot,
            limit,
            views,
            room,
            prefix_ends,
            record_only: turn.is_cold(),
            accepts_moved: turn.request.accepts_moved(),
            accepts_lossy: self.core.options.accepts_lossy(&turn.request),
        };
        turn.restore = Some(fetch);
        let handle = self.core.tiers.fetch(request, deliver);
        turn.phase =
            Phase::Restoring(Box::new(Restoring::of_sequel(fetch, handle, turn.report.tokens)));
        self.report_progress(index);
    }

    /// The cells for tokens behind the slot's: those of the cache, or what its budget leaves where the prompt is longer.
    fn room_of_sequel(&self, index: usize, prompt: usize) -> usize {
        if !self.can_evict() || prompt < self.budget(index) {
            let cells = self.slots[index].cells.len();
            return self.core.options.context_tokens.saturating_sub(cells);
        }
        self.room_left(index).saturating_sub(self.piece_cells())
    }

    /// The ends of those beginnings of the prompt that are hot in prefix slots, which are saved by then. Plain
    /// memories share cells instead.
    fn hot_prefix_ends(&mut self, index: usize, prompt: &[Token]) -> Vec<usize> {
        if self.is_plain() || index >= self.core.options.slots {
            return Vec::new();
        }
        let root = self.slots[index].root();
        let mut ends = Vec::new();
        for prefix in self.core.options.slots..self.slots.len() {
            let timeline = &self.slots[prefix].timeline;
            let is_alike = timeline.root() == root && !timeline.is_empty();
            if is_alike && prompt.starts_with(timeline.tokens()) {
                if self.slots[prefix].will_need_record() {
                    self.save(prefix);
                }
                ends.push(self.slots[prefix].timeline.len());
            }
        }
        ends
    }

    /// Queues an event for import, unless its turn is gone.
    pub(super) fn fetched(&mut self, index: usize, fetch: u64, event: FetchEvent) {
        if let Some(restoring) = self.slots[index].restoring_mut()
            && restoring.fetch == fetch
        {
            restoring.waits_since = Instant::now();
            restoring.heard = true;
            restoring.arrived.push_back(event);
        }
    }

    /// Imports what arrived, for at most [`MAX_IMPORT_TIME`]. Returns whether there was anything.
    pub(super) fn import_arrivals(&mut self) -> bool {
        let began = Instant::now();
        let mut any = false;
        while began.elapsed() < MAX_IMPORT_TIME {
            let Some(index) = self.next_arrival() else { break };
            any = true;
            // The reader goes on only now: it was as many groups ahead as it may be.
            self.restoring(index).waits_since = Instant::now();
            match self.restoring(index).arrived.pop_front().expect("it has arrivals") {
                FetchEvent::GoesBack(len) => self.go_back(index, len),
                FetchEvent::Views(views) => self.restoring(index).views = views,
                FetchEvent::Chunks(imports) => {
                    let turn = self.slots[index].turn.as_mut().expect("it restores");
                    turn.imports = imports.into();
                }
                FetchEvent::Recalled(recalled) => self.make_room_for(index, recalled),
                FetchEvent::Pieces(pieces) => self.import_pieces(index, pieces),
                FetchEvent::End(summary) => self.end_restore(index, summary),
                FetchEvent::Failed(reason) => self.abandon_restore(index, reason),
            }
        }
        self.time_out_restores();
        any
    }

    /// Gives up the slot's cells behind its first `len` tokens, for saved ones that did not attend to the same.
    fn go_back(&mut self, index: usize, len: usize) {
        self.cut_back(index, len);
        let slot = &self.slots[index];
        let hot = slot.timeline.len();
        let away = slot.cells.away(hot);
        let without = away.iter().map(Range::len).sum::<usize>();
        self.restoring(index).tokens =
            TokenCounts { shared: hot - without, away: without, ..TokenCounts::default() };
        self.slots[index].turn.as_mut().expect("it restores").away = away;
        if hot != len {
            self.abandon_restore(index, "the slot cannot go back to it".to_owned());
        }
    }

    /// The time until the first restore times out.
    pub(super) fn restores_end_in(&self) -> Option<Duration> {
        let waits = self.slots.iter().filter_map(|slot| Some(slot.restoring()?.waits_since));
        let patience = self.core.options.restore_patience;
        waits.min().map(|since| patience.saturating_sub(since.elapsed()))
    }

    /// The slot that has waited longest with something to import.
    fn next_arrival(&self) -> Option<usize> {
        let arrivals = (0..self.slots.len()).filter(|&index| self.slots[index].has_arrivals());
        arrivals.min_by_key(|&index| self.slots[index].restoring().map(|r| r.waits_since))
    }

    fn time_out_restores(&mut self) {
        let patience = self.core.options.restore_patience;
        for index in 0..self.slots.len() {
            let Some(restoring) = self.slots[index].restoring() else { continue };
            if restoring.arrived.is_empty() && restoring.waits_since.elapsed() >= patience {
                let reason = format!("the restore timed out after {} s", patience.as_secs_f32());
                self.abandon_restore(index, reason);
            }
        }
    }

    /// Drops what a restore that ended early has imported, if its rest is missing. Returns whether the rest is missing.
    pub(super) fn drop_half_restored(&mut self, index: usize) -> bool {
        let slot = &self.slots[index];
        let is_half = !self.is_plain() && self.backend.end(slot.sequence) != slot.timeline.len();
        if is_half {
            self.clear(index);
        }
        is_half
    }

    /// Ends the restore early: imported tokens stay where they can be continued, the others are
    /// computed.
    pub(super) fn abandon_restore(&mut self, index: usize, reason: String) {
        if self.restoring(index).recalled.is_some() {
            debug!(reason, "blocks stay away");
            return self.end_recall(index);
        }
        if self.restoring(index).chunk.is_some() {
            debug!(reason, "a part of the prompt is not moved");
            return self.end_chunk(index);
        }
        self.slots[index].partly_restored = true;
        self.drop_half_restored(index);
        if self.slots[index].timeline.is_empty() {
            self.restoring(index).tokens = TokenCounts::default();
        }
        let from = self.slots[index].timeline.len();
        let turn = self.slots[index].turn.as_ref().expect("it restores");
        // The fetch may have ended before it reported the record.
        let record = turn.owner.conversation().and_then(|id| self.core.tiers.known_record(id));
        let prompt = &turn.request.prompt;
        let adapters = turn.request.adapters.set();
        let expected = record.as_ref().map_or(from, |r| r.shared_with(adapters, prompt));
        let reachable = |snapshot: &&SnapshotRef| snapshot.position as usize <= expected;
        let snapshots = record.iter().flat_map(|r| r.snapshots.iter().filter(reachable)).copied();
        let snapshots = snapshots.collect();
        let miss = Some(MissReason::Unusable { from, reason });
        self.end_restore(index, FetchSummary { expected, record, snapshots, miss });
    }

    /// Reports what was restored. The prompt's other tokens are computed.
    fn end_restore(&mut self, index: usize, summary: FetchSummary) {
        if self.restoring(index).recalled.is_some() {
            return self.end_recall(index);
        }
        if self.restoring(index).chunk.is_some() {
            return self.end_chunk(index);
        }
        let FetchSummary { expected, record, snapshots, mut miss } = summary;
        self.slots[index].sketch_blocks();
        let mut counts = self.restoring(index).tokens;
        // No snapshot within the blocks that were found could be read.
        if self.restoring(index).lacks_rest && self.drop_half_restored(index) {
            counts = TokenCounts::default();
        }
        if self.backend.end(self.slots[index].sequence) != self.slots[index].timeline.len() {
            // llama.cpp and the timeline disagree: none of these cells can be trusted.
            self.core.counters.wasted_restores += 1;
            self.start_over(index);
            counts = TokenCounts::default();
        }
        if !self.is_plain() {
            self.slots[index].save.snapshots = snapshots;
        }
        let turn = self.slots[index].turn.as_mut().expect("it restores");
        if miss.is_none()
            && let Some(record) = record
            && expected < record.tokens.len().min(turn.reusable_tokens())
        {
            let differs = || MissReason::differs(&record.tokens, expected);
            let is_alike = record.adapters == *turn.request.adapters.set();
            miss = Some(if is_alike { differs() } else { MissReason::OtherAdapters });
        }
        turn.expected = expected;
        if turn.is_cold() {
            (turn.expected, miss) = (0, None); // A cold turn computes everything on purpose.
        }
        turn.phase = Phase::Prefill; // Drops the fetch.
        if !turn.started {
            turn.report.tokens = counts;
            turn.report.restore_ms = turn.admitted.elapsed().as_secs_f64() * 1e3;
            turn.report.miss = miss.or(turn.report.miss.take());
        }
        self.core.change_log.touch();
        // A newer turn of the conversation may have waited for this restore, to supersede the turn.
        self.slot_may_be_free |= self.is_background(index);
        self.end_reuse(index);
    }

    /// The blocks that were asked for are back. The rest of the prompt is computed.
    fn end_recall(&mut self, index: usize) {
        let counts = self.restoring(index).tokens;
        let turn = self.slots[index].turn.as_mut().expect("it restores");
        turn.phase = Phase::Prefill; // Drops the fetch.
        if !turn.started {
            turn.report.tokens = counts;
        }
        self.count_lossy(index);
        let turn = self.slots[index].turn.as_mut().expect("it restores");
        let recall = turn.report.recall.as_mut().zip(turn.recall_began.take());
        if let Some((recall, began)) = recall {
            recall.took = began.elapsed();
            debug!(?recall, "blocks are back");
        }
        self.slot_may_be_free |= self.is_background(index); // As after any restore.
        self.report_progress(index);
    }

    /// All saved KV of the prompt is hot. Others may have computed more of it since the turn was
    /// admitted. The rest is computed, if there is a rest.
    fn end_reuse(&mut self, index: usize) {
        self.catch_up(index);
        self.count_lossy(index);
        self.report_reuse(index);
        let slot = &self.slots[index];
        let is_complete = slot.turn.as_ref().is_none_or(|Running { request, .. }| {
            request.restores_only || slot.timeline.len() == request.prompt.len()
        });
        if is_complete {
            return self.finish_prefill(index);
        }
        self.set_recall_position(index);
        if !self.find_chunks(index) && !self.recall_if_due(index) {
            self.report_progress(index);
        }
    }

    /// The turn reports how many of the tokens in its cells were rounded while they were saved.
    fn count_lossy(&mut self, index: usize) {
        let slot = &mut self.slots[index];
        let blocks = slot.timeline.blocks().iter();
        let lossy = blocks.filter(|it| it.view.is_lossy() && slot.cells.has(&it.range));
        let lossy = lossy.map(|block| block.range.len()).sum();
        if let Some(turn) = slot.turn.as_mut().filter(|turn| !turn.started) {
            turn.report.tokens.lossy = lossy;
        }
    }

    pub(super) fn restoring(&mut self, index: usize) -> &mut Restoring {
        self.slots[index].restoring_mut().expect("it restores")
    }
}
