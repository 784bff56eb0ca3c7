//! Keeps live conversations within their budget of cells: blocks of them leave.
//!
//! - A block leaves once its bytes are in the tiers. Its tokens stay in the timeline, so positions stay
//!   what they are. What is computed meanwhile does not see it, see [`hob_slots::lineage`].
//! - Between two micro-batches, a conversation that would have more cells than the high watermark is
//!   reduced to the low one. With the rows of a micro-batch it never has more than its budget.
//! - Without a budget of its own, a conversation has the cells of the cache. Blocks of it leave only
//!   when nothing else can: idle cells go first, and turns that began later wait (see `room`).
//! - `recall` brings blocks back; `notes` says what of them stays where they do not come back.

use std::ops::Range;
use std::time::{Duration, Instant};

use hob_slots::away::{BlockFacts, Demand, Limits, Minimum, Protection, candidates, leaving};
use hob_slots::{BLOCK_TOKENS, Block, BlockId, ModelHash, Timeline, Token};
use tracing::debug;

use super::Worker;
use super::block_uses::BlockUses;
use super::cell_numbers::CellNumbers;
use super::slot::Slot;
use crate::draft;
use crate::map::EvictionReason;
use crate::no_eviction::NoEviction;
use crate::turn::{Moved, Purpose, TurnError, TurnEvent, TurnRequest, Way};

/// Blocks leave from this part of the budget on (0.95).
const HIGH_PERCENT: usize = 95;

/// They leave down to this part of it (0.75), so that they do not leave one by one.
const LOW_PERCENT: usize = 75;

/// Cells that stay free for pieces on their way, of which not all tokens are wanted: each passes through the
/// scratch sequence.
pub(super) const PIECE_CELLS: usize = 2 * BLOCK_TOKENS;

/// How long a block that must leave waits for the disk.
const MAX_WAIT: Duration = Duration::from_secs(30);

impl Worker<'_> {
    /// Whether blocks may leave a live conversation of this model.
    pub(super) fn can_evict(&self) -> bool {
        self.core.options.evicts(self.core.model.facts())
    }

    /// The cells that the slot's conversation may have.
    pub(super) fn budget(&self, index: usize) -> usize {
        let cells = self.core.options.context_tokens;
        self.own_budget(index).map_or(cells, |budget| budget.min(cells))
    }

    /// The budget that the slot's turn asks for. It does not count where nothing can leave.
    fn own_budget(&self, index: usize) -> Option<usize> {
        let asked = self.slots[index].turn.as_ref().and_then(|turn| turn.request.budget);
        asked.filter(|_| self.can_evict())
    }

    /// Why nothing could leave the conversation of the slot's turn, where that mattered: it asks for a
    /// budget, or its answer ends `for_cells`.
    pub(super) fn no_eviction(&self, index: usize, for_cells: bool) -> Option<NoEviction> {
        let (options, model) = (&self.core.options, self.core.model.facts());
        let asks =
            self.slots[index].turn.as_ref().is_some_and(|turn| turn.request.budget.is_some());
        if asks {
            options.no_eviction(model)
        } else {
            options.ends_with_cells(model).filter(|_| for_cells)
        }
    }

    /// Cells that are left for the slot: of its budget, and of the cache beside other turns.
    pub(super) fn room_left(&self, index: usize) -> usize {
        let others = self.slots.iter().enumerate().filter(|(at, slot)| {
            *at != index && (slot.turn.is_some() || *at >= self.core.options.slots)
        });
        let others: Vec<_> = others.map(|(_, slot)| &slot.cells).collect();
        let mine = &self.slots[index].cells;
        let used = CellNumbers::count(others.into_iter().chain([mine]));
        let of_cache = self.core.options.context_tokens.saturating_sub(used);
        of_cache.min(self.budget(index).saturating_sub(mine.len()))
    }

    /// Rows of one micro-batch of the slot's prompt: a small budget has small micro-batches.
    fn micro_batch(&self, index: usize) -> usize {
        micro_batch(self.budget(index), self.core.options.max_rows())
    }

    /// How many rows of the slot's prompt the next micro-batch may have.
    pub(super) fn rows_within_budget(&self, index: usize) -> usize {
        let slot = &self.slots[index];
        let Some(turn) = &slot.turn else { return 0 };
        let until_recall = match turn.recalls_at {
            Some(at) if at > slot.timeline.len() && !slot.view.is_whole() => {
                at - slot.timeline.len()
            }
            _ => usize::MAX,
        };
        match self.own_budget(index) {
            Some(_) => {
                let left = self.budget(index).saturating_sub(slot.cells.len());
                left.min(self.micro_batch(index)).min(until_recall)
            }
            // A full cache is no reason to let more leave than a small micro-batch needs.
            None if self.can_evict() => {
                self.room_left(index).max(self.micro_batch(index)).min(until_recall)
            }
            None => until_recall,
        }
    }

    /// Lets blocks of conversations with a budget leave where the next micro-batch would exceed the high
    /// watermark. A turn that finds no room ends with an error.
    pub(super) fn keep_within_budgets(&mut self) {
        for index in 0..self.slots.len() {
            let slot = &self.slots[index];
            let Some(turn) = &slot.turn else { continue };
            if self.own_budget(index).is_none() || turn.is_restoring() {
                continue;
            }
            let wanted = if slot.is_decoding() {
                draft::MAX_ROWS
            } else {
                self.tokens_left(index).min(self.micro_batch(index))
            };
            let (budget, cells) = (self.budget(index), slot.cells.len());
            if cells + wanted > high(budget) {
                let needed = (cells + wanted).saturating_sub(budget);
                self.evict_own(index, Demand { needed, wanted: cells + wanted - low(budget) });
            }
            if self.slots[index].cells.len() >= budget {
                let error = self.too_small(index);
                self.fail_turn(index, error);
            }
        }
    }

    /// Refuses a budget in which the conversation cannot be held, once its beginning is known.
    fn too_small(&mut self, index: usize) -> TurnError {
        let (budget, micro_batch) = (self.budget(index), self.micro_batch(index));
        let facts = self.block_facts(index);
        match Minimum::of(&facts, micro_batch).check(budget) {
            Err(error) => TurnError::BudgetTooSmall(error.to_string()),
            Ok(()) => TurnError::BudgetTooSmall(format!(
                "a budget of {budget} cells is spent, and no block could be saved to make room: see the \
                 log for what the disk refused"
            )),
        }
    }

    /// The cache is full, and the slot's turn is the only one: blocks of its conversation leave. Returns
    /// whether any did.
    pub(super) fn evict_in_place(&mut self, index: usize) -> bool {
        let turn = self.slots[index].turn.as_ref();
        if turn.is_none_or(|turn| turn.request.purpose.is_prefix()) {
            return false; // Others begin with it: it is of use as a whole alone.
        }
        let budget = self.budget(index);
        let cells = self.slots[index].cells.len();
        let rows = self.micro_batch(index);
        let wanted = (cells + rows).saturating_sub(low(budget)).max(rows);
        self.evict_own(index, Demand { needed: rows, wanted }) > 0
    }

    /// Lets blocks of the slot leave, to meet the demand as far as they can. Returns how many cells they
    /// freed.
    pub(super) fn evict_own(&mut self, index: usize, demand: Demand) -> usize {
        self.evict_own_but(index, demand, &[])
    }

    /// The same. Blocks that begin in `stay`, which is ascending, do not leave.
    pub(super) fn evict_own_but(&mut self, index: usize, demand: Demand, stay: &[usize]) -> usize {
        if !self.can_evict() {
            return 0;
        }
        let began = Instant::now();
        let mut facts = self.block_facts(index);
        for block in facts.iter_mut().filter(|block| stay.binary_search(&block.range.start).is_ok())
        {
            block.resident = false;
        }
        for block in &mut facts {
            block.own_cells = block.own_cells.saturating_sub(self.note_of(&block.range).len());
        }
        let limits = Limits { budget: self.budget(index), micro_batch: self.micro_batch(index) };
        let slot = &self.slots[index];
        let Some(policy) = self.core.options.away else { return 0 };
        let scorer = policy.scorer(slot.timeline.len() as u64);
        let chosen = leaving(&*scorer, &facts, limits, slot.uses.turn(), demand);
        let blocks: Vec<Block> =
            chosen.iter().map(|&at| slot.timeline.blocks()[at].clone()).collect();
        debug!(blocks = blocks.len(), micros = began.elapsed().as_micros(), "chose who leaves");
        let mut freed = 0;
        for (block, at) in blocks.iter().zip(chosen) {
            if self.evict_block(index, block) {
                freed += facts[at].own_cells;
            }
        }
        freed += self.drop_notes(index, demand.needed.saturating_sub(freed));
        if freed > 0 {
            self.learn_words(index);
        }
        freed
    }

    /// The indexes of the slot's blocks that may leave for what its prompt asks for, ascending: what it asks
    /// for comes before what was said last. In 275 cells, a quarter of them kept for that is a block too many.
    pub(super) fn blocks_that_may_leave(&self, index: usize, facts: &[BlockFacts]) -> Vec<usize> {
        let limits = Limits { budget: self.budget(index), micro_batch: self.micro_batch(index) };
        let turn = self.slots[index].uses.turn();
        let mut leave = candidates(facts, limits, turn, Protection::Least);
        leave.retain(|&at| facts[at].own_cells > 0);
        leave
    }

    /// What the policy of who leaves is told of the slot's blocks.
    pub(super) fn block_facts(&mut self, index: usize) -> Vec<BlockFacts> {
        let others = self.slots.iter().enumerate().filter(|(at, _)| *at != index);
        let shared =
            others.map(|(_, other)| self.slots[index].cells.shared_end(&other.cells)).max();
        let Slot { uses, timeline, cells, keep, .. } = &mut self.slots[index];
        uses.facts(timeline, cells, &keep.segments, shared.unwrap_or(0))
    }

    /// Takes the block's cells, once its bytes are in the tiers. Returns whether it did.
    fn evict_block(&mut self, index: usize, block: &Block) -> bool {
        let leaves = self.note_of(&block.range).end..block.range.end;
        if !self.save_block(index, block) || self.drop_cells(index, leaves.clone()).is_err() {
            return false;
        }
        self.core.counters.blocks_out += 1;
        if let Some(turn) = &mut self.slots[index].turn {
            turn.has_left = true;
        }
        self.log_departure(index, block, EvictionReason::Budget);
        self.report_moved(index, leaves, Way::Out);
        true
    }

    /// Whether the tiers have the block, or take it now.
    fn save_block(&mut self, index: usize, block: &Block) -> bool {
        let slot = &self.slots[index];
        if slot.in_memory || slot.conversation().is_none() || !self.core.tiers.has_disk() {
            return self.hold_block(index, block);
        }
        if self.core.tiers.has(&block.id, false) {
            return true;
        }
        if slot.is_speculative() {
            return false; // It must not be saved.
        }
        // A disk that is too slow stalls this turn: what leaves is not lost.
        self.core.tiers.await_room(Instant::now() + MAX_WAIT);
        !self.core.tiers.is_full() && self.export_block(index, block)
    }

    /// Keeps the block in memory until it comes back or its conversation leaves the slot.
    fn hold_block(&mut self, index: usize, block: &Block) -> bool {
        let Some(object) = self.object_of(index, block) else { return false };
        let usage = self.usage(index);
        let slot = &mut self.slots[index];
        let owner = slot.owner.as_ref().expect("its turn has an owner").id();
        let (id, after) = (block.id, block.before());
        let is_held = self.core.tiers.hold(owner, id, after, object, usage);
        if is_held {
            slot.held_blocks.push(block.id);
        }
        is_held
    }

    /// The same, for blocks that are no longer part of the slot's timeline.
    pub(super) fn release_cut_off(&mut self, index: usize) {
        let Slot { held_blocks, timeline, .. } = &mut self.slots[index];
        let is_cut_off = |id: &BlockId| !timeline.blocks().iter().any(|block| block.id == *id);
        let released: Vec<BlockId> = held_blocks.extract_if(.., |id| is_cut_off(id)).collect();
        self.core.tiers.release(released);
    }

    /// What the slot holds in memory may leave it: its conversation leaves the slot.
    pub(super) fn release_blocks(&mut self, index: usize) {
        let held = std::mem::take(&mut self.slots[index].held_blocks);
        if !held.is_empty() {
            self.core.tiers.release(held);
        }
    }

    pub(super) fn report_moved(&mut self, index: usize, range: Range<usize>, way: Way) {
        let slot = &mut self.slots[index];
        let Some(turn) = &slot.turn else { return };
        let moved = Moved { at: slot.timeline.len(), range, way };
        turn.events.send(TurnEvent::Moved(moved.clone()));
        if turn.request.purpose == Purpose::Speculate {
            slot.add_moved_ahead(moved);
        }
    }
}

/// The high watermark of a budget.
pub(super) fn high(budget: usize) -> usize {
    budget * HIGH_PERCENT / 100
}

/// The low watermark of a budget.
pub(super) fn low(budget: usize) -> usize {
    budget * LOW_PERCENT / 100
}

/// Rows of one micro-batch within a budget.
fn micro_batch(budget: usize, max_rows: usize) -> usize {
    (budget / 8).clamp(1, max_rows)
}

/// Refuses a budget in which the request's conversation cannot be held.
///
/// # Errors
/// [`TurnError::BudgetTooSmall`], with what needs how many cells.
pub(crate) fn check_budget(
    request: &TurnRequest,
    max_rows: usize,
    is_border: impl Fn(Token) -> bool,
) -> Result<(), TurnError> {
    let Some(budget) = request.budget else { return Ok(()) };
    let mut timeline = Timeline::new(ModelHash([0; 8])); // Names do not matter.
    timeline.push(&request.prompt, is_border);
    let (mut uses, cells) = (BlockUses::default(), CellNumbers::default());
    let facts = uses.facts(&timeline, &cells, &request.keep.segments, 0);
    let minimum = Minimum::of(&facts, micro_batch(budget, max_rows));
    minimum.check(budget).map_err(|error| TurnError::BudgetTooSmall(error.to_string()))
}
