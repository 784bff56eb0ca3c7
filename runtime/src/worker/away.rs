//! Blocks of a live conversation leave its cells: as many as `budget` demands, those that the policy chooses.
//!
//! - A block leaves once its bytes are in the tiers. Its tokens stay in the timeline, so positions stay
//!   what they are. What is computed meanwhile does not attend to it, see [`hob_slots::lineage`].
//! - While too much waits for the disk, a block leaves only if the disk has it. A block that has to stay in memory does
//!   not leave while such blocks of running turns and of private conversations use up the memory budget.
//! - A block that is away and that the tiers have lost is computed again at the conversation's next turn.
//! - `recall` brings blocks back; `notes` says what of them stays where they do not come back.

use std::ops::Range;
use std::time::Instant;

use hob_slots::Block;
use hob_slots::away::{BlockFacts, Demand, Limits, Protection, candidates, leaving};
use hob_slots::format::Object;
use tracing::debug;

use super::Worker;
use super::budget::{Frees, low};
use super::slot::Slot;
use crate::map::EvictionReason;
use crate::miss::MissReason;
use crate::tiers::Exported;
use crate::turn::{Moved, Purpose, TurnEvent, Way};

impl Worker<'_> {
    /// The cache is full, and the slot's turn is the only one: blocks of its conversation leave. Returns
    /// whether any did.
    pub(super) fn evict_in_place(&mut self, index: usize) -> bool {
        let turn = self.slots[index].turn.as_ref();
        if turn.is_none_or(|turn| turn.request.purpose.is_prefix()) {
            return false; // Other prompts begin with a prefix: only a whole one is of use.
        }
        let budget = self.budget(index);
        let cells = self.slots[index].cells.len();
        let rows = self.micro_batch(index);
        let wanted = (cells + rows).saturating_sub(low(budget)).max(rows);
        self.evict(index, Demand { needed: rows, wanted }, &[], Frees::Cache) > 0
    }

    /// Lets blocks of the slot leave, to meet the demand of its budget as far as they can. Returns how many
    /// cells they freed.
    pub(super) fn evict_own(&mut self, index: usize, demand: Demand) -> usize {
        self.evict_own_but(index, demand, &[])
    }

    /// [`Self::evict_own`] without the blocks that begin at a position in `stay`, which is ascending.
    pub(super) fn evict_own_but(&mut self, index: usize, demand: Demand, stay: &[usize]) -> usize {
        self.evict(index, demand, stay, self.frees(index))
    }

    /// What a demand on the slot's conversation counts: without a budget of its own, the cells of the cache.
    pub(super) fn frees(&self, index: usize) -> Frees {
        if self.own_budget(index).is_some() { Frees::Budget } else { Frees::Cache }
    }

    fn evict(&mut self, index: usize, demand: Demand, stay: &[usize], frees: Frees) -> usize {
        if !self.can_evict() {
            return 0;
        }
        if let Some(turn) = &mut self.slots[index].turn {
            (turn.is_refused, turn.lacks_memory) = (false, false);
        }
        let began = Instant::now();
        let mut facts = self.block_facts(index, frees);
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
        self.core.counters.decisions += 1;
        let micros = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.core.counters.deciding_micros += micros;
        debug!(blocks = blocks.len(), micros, "chose who leaves");
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

    /// Describes the slot's blocks for the policy that chooses which blocks leave.
    pub(super) fn block_facts(&mut self, index: usize, frees: Frees) -> Vec<BlockFacts> {
        let others = self.slots.iter().enumerate().filter(|(at, _)| *at != index);
        let shared =
            others.map(|(_, other)| self.slots[index].cells.shared_end(&other.cells)).max();
        let Slot { uses, timeline, cells, save, .. } = &mut self.slots[index];
        let frees_shared = frees == Frees::Budget;
        uses.facts(timeline, cells, &save.keep.segments, shared.unwrap_or(0), frees_shared)
    }

    /// Drops the block's cells, once its bytes are in the tiers. Returns whether it did.
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
        let owner = slot.owner.as_ref().expect("its turn has an owner").id();
        // Another conversation may have saved the block, and may be deleted: from here on this one refers to it, too.
        if self.core.tiers.refer(owner, block) {
            return true;
        }
        if slot.save.in_memory || slot.conversation().is_none() || !self.core.tiers.has_disk() {
            return self.hold_block(index, block);
        }
        if slot.save.is_speculative() {
            return false; // A speculation must not be saved.
        }
        // No block leaves unsaved: the turn waits for a disk that is too slow.
        let is_refused = self.core.tiers.is_full();
        if let Some(turn) = &mut self.slots[index].turn {
            turn.is_refused |= is_refused;
        }
        !is_refused && self.export_block(index, block)
    }

    /// Cuts the slot's conversation at the first block that is away and that no tier has, so that it is computed
    /// again, and all behind it: a record cannot name it. Returns the reason, to be reported.
    pub(super) fn cut_at_loss(&mut self, index: usize) -> Option<MissReason> {
        let slot = &mut self.slots[index];
        if slot.view.is_whole() {
            return None;
        }
        let tiers = &self.core.tiers;
        let is_lost = |block: &&Block| !slot.cells.has(&block.range) && !tiers.holds(&block.id);
        let from = slot.timeline.blocks().iter().find(is_lost)?.range.start;
        slot.partly_restored = true; // The tiers may hold earlier blocks that have no cells.
        self.log_eviction(index, from, EvictionReason::Failed);
        self.cut_back(index, from);
        Some(MissReason::lost(from))
    }

    /// Keeps the block in memory until it comes back or its conversation leaves the slot.
    fn hold_block(&mut self, index: usize, block: &Block) -> bool {
        let Some(object) = self.object_of(index, block) else { return false };
        let mut is_held = self.hold_object(index, block, &object);
        // An idle anonymous conversation holds memory, too, and gives way.
        while !is_held && self.drop_idle_anonymous() {
            is_held = self.hold_object(index, block, &object);
        }
        let slot = &mut self.slots[index];
        if is_held {
            slot.away_blocks.hold(block.id);
        } else if let Some(turn) = &mut slot.turn {
            turn.lacks_memory = true;
        }
        is_held
    }

    /// Returns `false` where memory has no room for it.
    fn hold_object(&self, index: usize, block: &Block, object: &Object) -> bool {
        let owner = self.slots[index].owner.as_ref();
        self.core.tiers.hold(Exported {
            conversation: owner.expect("its turn has an owner").id(),
            id: block.id,
            after: block.before(),
            object: object.clone(),
            usage: self.usage(index),
        })
    }

    /// Releases the held blocks that are no longer part of the slot's timeline.
    pub(super) fn release_cut_off(&mut self, index: usize) {
        let Slot { away_blocks, timeline, .. } = &mut self.slots[index];
        let released = away_blocks.remove_cut_off(timeline);
        if !released.is_empty() {
            self.core.tiers.release(released);
        }
    }

    /// Releases all blocks that the slot holds: its conversation leaves it.
    pub(super) fn release_blocks(&mut self, index: usize) {
        let held = self.slots[index].away_blocks.remove_all();
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
            slot.speculation.add_moved(moved);
        }
    }
}
