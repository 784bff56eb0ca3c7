//! Uses KV for parts of a prompt that was computed at another place, where the request takes that.
//!
//! - The prompt's exact beginning comes first, from the cells and the tiers. Behind it, a reader looks for
//!   chunks; each is fetched, moved to its place, and imported when the tokens before it are in their cells.
//!   What is between two chunks, and the head of the one behind it, is computed like any other text, so that
//!   no micro-batch begins behind a hole. Of chunks right behind each other all is imported, and their heads
//!   are computed together, see [`heads`](super::heads).
//! - What is moved, and all that follows it, is impure: see [`hob_slots::lineage`]. It is not shared, not found
//!   by other conversations, and dropped where a turn of its own conversation wants exact KV.
//! - What cannot be fetched or imported is computed.

use hob_slots::ViewRun;
use hob_slots::content::{Import, Repair};
use hob_slots::lineage::{first_lossy, first_moved};
use tracing::debug;

use super::Worker;
use super::budget::high;
use super::running::{ChunkStage, Phase, Restoring, Running};
use crate::position::narrow;
use crate::tiers::ChunkRequest;
use crate::turn::{Reuse, TokenCounts};

impl Worker<'_> {
    /// The prompt's exact beginning is in the slot: begins to look for chunks behind it, if the request takes
    /// them. Returns whether it did.
    pub(super) fn find_chunks(&mut self, index: usize) -> bool {
        let slot = &mut self.slots[index];
        let Some(turn) = slot.turn.as_mut() else { return false };
        turn.imports.clear();
        turn.heads.clear();
        let (repair, others) = match turn.request.reuse {
            Reuse::Repaired(repair) => (repair, true),
            Reuse::Exact if turn.request.reanchored => (Repair::default(), false),
            Reuse::Exact => return false,
        };
        if turn.request.purpose.is_background() || turn.is_cold() || turn.started {
            return false;
        }
        if let Err(why) = &self.core.model.facts().rope {
            turn.report.immovable = Some(why.clone());
            return false;
        }
        let within = slot.timeline.len()..turn.reusable_tokens();
        if within.len() < repair.min_chunk() {
            return false;
        }
        let own = turn.request.sources_of.as_ref().or(turn.owner.conversation());
        let request = ChunkRequest {
            own: own.cloned(),
            adapters: turn.request.adapters.set().clone(),
            prompt: turn.request.prompt.clone(),
            segments: turn.request.keep.segments.clone(),
            within,
            repair,
            others,
            own_impure: turn.request.reanchored,
        };
        let tokens = turn.report.tokens;
        let (fetch, deliver) = self.core.number_fetch(index);
        let handle = self.core.tiers.find_chunks(request, deliver);
        let restoring = Restoring::of_chunk(fetch, handle, tokens, ChunkStage::Finding);
        self.slots[index].turn.as_mut().expect("it was found above").phase =
            Phase::Restoring(Box::new(restoring));
        true
    }

    /// Begins to fetch the chunks that are next in their prompts.
    pub(super) fn fetch_due_chunks(&mut self) {
        for index in 0..self.slots.len() {
            if self.slots[index].is_prefilling()
                && !self.slots[index].is_stalled()
                && let Some(import) = self.take_due_chunk(index)
            {
                self.fetch_chunk(index, import);
            }
        }
    }

    /// Tokens of the slot's prompt that are computed before the next chunk, or before heads of chunks are.
    pub(super) fn rows_before_chunk(&self, index: usize) -> usize {
        let slot = &self.slots[index];
        if slot.turn.as_ref().is_some_and(|turn| !turn.heads.is_empty()) {
            return 0;
        }
        let next = slot.turn.as_ref().and_then(|turn| turn.imports.front());
        next.map_or(usize::MAX, |next| next.at.start.saturating_sub(slot.timeline.len()))
    }

    fn take_due_chunk(&mut self, index: usize) -> Option<Import> {
        let (max_rows, budget) = (self.core.options.max_rows(), self.budget(index));
        let slot = &mut self.slots[index];
        let end = slot.timeline.len();
        let prompt = slot.turn.as_ref()?.request.prompt.len();
        // Otherwise blocks leave before the heads are computed, and the chunks with them.
        let fits = prompt <= high(budget);
        // A head has cells beside all others while it is computed.
        let max_head = max_rows.min(budget.saturating_sub(prompt));
        let imports = &mut slot.turn.as_mut()?.imports;
        let is_joined = fits && slot.cells.away(end).is_empty();
        while imports.front()?.at.start <= end {
            // The slot may have got more of the prompt meanwhile, shared by another one.
            let Some(import) = imports.pop_front()?.starting_at(end) else { continue };
            if import.head == 0 || (is_joined && import.head <= max_head) {
                return Some(import);
            }
            if let Some(behind) = import.behind_head() {
                imports.push_front(behind);
            }
        }
        None
    }

    fn fetch_chunk(&mut self, index: usize, import: Import) {
        let (fetch, deliver) = self.core.number_fetch(index);
        let end = narrow(import.at.end);
        let (view, repaired) = (import.view, import.repaired);
        let head = (import.at.start, import.head);
        let handle = self.core.tiers.fetch_chunk(import, deliver);
        let turn = self.slots[index].turn.as_mut().expect("it has chunks");
        let stage = ChunkStage::Moving { repaired, head };
        let mut restoring = Restoring::of_chunk(fetch, handle, turn.report.tokens, stage);
        restoring.views = vec![ViewRun { end, view }];
        turn.phase = Phase::Restoring(Box::new(restoring));
    }

    /// A chunk is in its cells, or the chunks of the prompt are known. The tokens behind are computed.
    pub(super) fn end_chunk(&mut self, index: usize) {
        let restoring = self.restoring(index);
        let mut counts = restoring.tokens;
        let (mut head, mut chunk) = (0..0, 0..0);
        if let Some(ChunkStage::Moving { repaired, head: (start, tokens) }) = restoring.chunk {
            let before = self.slots[index].turn.as_ref().map_or(0, |it| it.report.tokens.moved);
            if counts.moved > before {
                chunk = start..self.slots[index].timeline.len();
                head = start..self.slots[index].timeline.len().min(start + tokens);
                counts.repaired += repaired;
            }
        }
        if self.backend.end(self.slots[index].sequence) != self.slots[index].timeline.len() {
            // As at the end of a restore: none of these cells can be trusted.
            self.core.counters.wasted_restores += 1;
            self.start_over(index);
            counts = TokenCounts::default();
            (head, chunk) = (0..0, 0..0);
        }
        let turn = self.slots[index].turn.as_mut().expect("it restores");
        turn.phase = Phase::Prefill; // Drops the fetch.
        turn.report.tokens = counts;
        if !head.is_empty() {
            chunk.start = head.end;
            turn.heads.push(head);
        }
        self.select_deviating(index, chunk);
        debug!(moved = counts.moved, repaired = counts.repaired, "a step of chunks has ended");
        if !self.recall_if_due(index) {
            self.report_progress(index);
        }
    }

    /// Where moved or rounded KV begins in the slot that a turn must not reuse: one that does not take such, or
    /// of another owner.
    pub(super) fn unwanted_impure(
        &self,
        index: usize,
        running: &Running,
        is_own: bool,
    ) -> Option<usize> {
        let views = self.slots[index].timeline.views();
        let accepts_moved = is_own && running.request.accepts_moved();
        let accepts_lossy = is_own && self.core.options.accepts_lossy(&running.request);
        let moved = first_moved(&views).filter(|_| !accepts_moved);
        let lossy = first_lossy(&views).filter(|_| !accepts_lossy);
        moved.into_iter().chain(lossy).min()
    }
}
