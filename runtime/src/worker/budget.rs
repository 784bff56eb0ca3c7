//! How many cells a live conversation may have, and how many rows that leaves for it.
//!
//! - Between two micro-batches, a conversation that would have more cells than the high watermark is
//!   reduced to the low one. With the rows of a micro-batch it never has more than its budget; cells that
//!   it shares with others count.
//! - A conversation without a budget, or with one that is no less than the cache, has the cells of the cache. Its
//!   blocks leave only when nothing else can: idle cells go first, and turns that began later wait (see `room`).
//! - A request is refused before it is queued if what must stay does not fit; the error says what needs how many cells.
//! - While the disk does not take a turn's blocks that must leave, that turn has no rows. Other turns go on.

use std::ops::Range;
use std::time::{Duration, Instant};

use hob_slots::away::{BlockFacts, BudgetTooSmall, Demand, Minimum, Sketch};
use hob_slots::{BLOCK_TOKENS, Token, cut};

use super::Worker;
use super::cell_numbers::CellNumbers;
use super::running::Running;
use super::slot::Slot;
use crate::draft;
use crate::labels::{Label, Labels};
use crate::no_eviction::NoEviction;
use crate::options::EngineOptions;
use crate::tiers::MaxGroup;
use crate::turn::{TurnError, TurnRequest};

/// Blocks leave from this part of the budget on (0.95).
const HIGH_PERCENT: usize = 95;

/// Blocks leave down to this part of the budget (0.75), so that they do not leave one by one.
const LOW_PERCENT: usize = 75;

impl Worker<'_> {
    /// Cells that stay free for pieces on their way, of which not all tokens are wanted: each passes through
    /// the scratch sequence.
    pub(super) fn piece_cells(&self) -> usize {
        MaxGroup::of(self.core.model.as_ref()).blocks * BLOCK_TOKENS
    }

    /// Whether blocks may leave a live conversation of this model.
    pub(super) fn can_evict(&self) -> bool {
        self.core.options.evicts(self.core.model.facts())
    }

    /// The cells that the slot's conversation may have.
    pub(super) fn budget(&self, index: usize) -> usize {
        self.own_budget(index).unwrap_or(self.core.options.context_tokens)
    }

    /// The budget that the slot's turn asks for. It does not count where nothing can leave.
    pub(super) fn own_budget(&self, index: usize) -> Option<usize> {
        let turn = self.slots[index].turn.as_ref()?;
        own_budget(&turn.request, &self.core.options).filter(|_| self.can_evict())
    }

    /// Why nothing could leave the conversation of the slot's turn, where that mattered: it asks for a
    /// budget that does not count, or its answer ends `for_cells`. An answer that reaches the trained context
    /// does not end for them.
    pub(super) fn no_eviction(&self, index: usize, for_cells: bool) -> Option<NoEviction> {
        let (options, model) = (&self.core.options, self.core.model.facts());
        if options.evicts(model) {
            let slot = &self.slots[index];
            let ends = for_cells && slot.timeline.len() + 1 < options.conversation_tokens(model);
            let lacks_memory = slot.turn.as_ref().is_some_and(|turn| turn.lacks_memory);
            let why = if lacks_memory { NoEviction::Memory } else { NoEviction::Protected };
            return ends.then_some(why);
        }
        let asks =
            self.slots[index].turn.as_ref().is_some_and(|turn| turn.request.budget.is_some());
        if asks {
            options.no_eviction(model)
        } else {
            options.ends_with_cells(model).filter(|_| for_cells)
        }
    }

    /// Cells that are left of the slot's own budget; without one, there is no bound.
    pub(super) fn room_of_budget(&self, index: usize) -> usize {
        match self.own_budget(index) {
            Some(_) => self.budget(index).saturating_sub(self.slots[index].cells.len()),
            None => usize::MAX - self.slots[index].timeline.len(),
        }
    }

    /// How many tokens a turn may share with another slot when it begins: what is left of its budget is for
    /// what only it has.
    pub(super) fn most_shared(&self, request: &TurnRequest) -> usize {
        let budget = own_budget(request, &self.core.options).filter(|_| self.can_evict());
        budget.map_or(usize::MAX, low)
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
    pub(super) fn micro_batch(&self, index: usize) -> usize {
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
    /// watermark.
    pub(super) fn keep_within_budgets(&mut self) {
        for index in 0..self.slots.len() {
            self.keep_within_budget(index);
        }
    }

    /// Keeps the slot's conversation within its budget. A turn that finds no room waits for the disk, or ends: an
    /// answer with the text so far, a prompt with an error.
    fn keep_within_budget(&mut self, index: usize) {
        let turn = self.slots[index].turn.as_ref().filter(|turn| !turn.is_restoring());
        let Some(turn) = turn else { return };
        if turn.stalled.is_some() && self.core.tiers.is_full() {
            return self.await_disk(index);
        }
        self.running_mut(index).stalled = None;
        if self.own_budget(index).is_none() {
            return;
        }
        self.reduce_to_budget(index);
        if self.slots[index].cells.len() >= self.budget(index) && !self.stall(index) {
            self.end_for_lack_of_room(index);
        }
    }

    /// Lets blocks of the slot's conversation leave where its next rows would exceed the high watermark.
    pub(super) fn reduce_to_budget(&mut self, index: usize) {
        let slot = &self.slots[index];
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
    }

    /// Refuses a budget, or a cache, in which the conversation cannot be held, once its beginning is known.
    pub(super) fn too_small(&mut self, index: usize) -> TurnError {
        let (own, budget) = (self.own_budget(index), self.budget(index));
        let facts = self.block_facts(index, Frees::Budget);
        let turn = self.slots[index].turn.as_ref().expect("the slot runs a turn");
        if let Err(error) = check(&facts, turn.request.prompt.len(), own, &self.core.options) {
            return error;
        }
        let why = if turn.lacks_memory {
            let why = NoEviction::Memory;
            format!("{why}: {}", why.remedy())
        } else {
            "no block could be saved to make room: see the log for why".to_owned()
        };
        let spent = |what| format!("{what} of {budget} cells is spent, and {why}");
        match own {
            Some(_) => TurnError::BudgetTooSmall(spent("a budget")),
            None => TurnError::CacheTooSmall {
                prompt_tokens: turn.request.prompt.len(),
                cells: self.core.options.context_tokens,
                why: spent("a cache"),
            },
        }
    }

    /// Lets the slot's turn wait, if its last block could not leave because too much waits for the disk.
    /// Returns whether it does. The disk may have taken something since: then the turn tries again at once.
    pub(super) fn stall(&mut self, index: usize) -> bool {
        let turn = self.running_mut(index);
        if turn.is_refused {
            turn.stalled.get_or_insert_with(Instant::now);
        }
        turn.is_refused
    }

    fn running_mut(&mut self, index: usize) -> &mut Running {
        self.slots[index].turn.as_mut().expect("the slot runs a turn")
    }

    /// Whether a turn that waited for the disk can go on. Where none can, the tiers wake the thread once one
    /// can.
    pub(super) fn ends_a_stall(&self) -> bool {
        self.slots.iter().any(Slot::is_stalled) && !self.core.tiers.is_full()
    }

    /// Ends a turn for which the disk has taken nothing for too long.
    fn await_disk(&mut self, index: usize) {
        let turn = self.slots[index].turn.as_ref().expect("it is stalled");
        let patience = self.core.options.disk_patience;
        if turn.stalled.is_some_and(|since| since.elapsed() >= patience) {
            self.fail_turn(index, TurnError::DiskTooSlow { secs: patience.as_secs() });
        }
    }

    /// The time until the first turn has waited for the disk for too long.
    pub(super) fn stalls_end_in(&self) -> Option<Duration> {
        let stalled = self.slots.iter().filter_map(|slot| slot.turn.as_ref()?.stalled);
        let patience = self.core.options.disk_patience;
        stalled.min().map(|since| patience.saturating_sub(since.elapsed()))
    }
}

/// Which cells count as freed by a block that leaves.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Frees {
    /// Cells of its conversation's budget: all cells of the block.
    Budget,
    /// Cells of the cache: those of the block that no other slot shares.
    Cache,
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

/// The budget that a request asks for, where it is less than the cells of the cache.
fn own_budget(request: &TurnRequest, options: &EngineOptions) -> Option<usize> {
    request.budget.filter(|&budget| budget < options.context_tokens)
}

/// Refuses a budget in which the request's conversation cannot be held, or a cache, where the prompt has more
/// tokens than that has cells.
///
/// # Errors
/// [`TurnError::BudgetTooSmall`] and [`TurnError::CacheTooSmall`], with what needs how many cells.
pub(crate) fn check_budget(
    request: &TurnRequest,
    options: &EngineOptions,
    is_border: impl Fn(Token) -> bool,
) -> Result<(), TurnError> {
    let own = own_budget(request, options);
    let prompt_tokens = request.prompt.len();
    if own.is_none() && prompt_tokens <= options.context_tokens {
        return Ok(());
    }
    let mut labels = Labels::new(&request.keep.segments);
    // What stays has a place and a label: neither names nor sketches, which cost a pass over the prompt each.
    let fact = |range: Range<usize>| {
        let Label { layer, pinned, .. } = labels.of(&range);
        BlockFacts { pinned, ..BlockFacts::new(range, layer, 0, Sketch::default()) }
    };
    let facts: Vec<_> = cut(&request.prompt, is_border).into_iter().map(fact).collect();
    check(&facts, prompt_tokens, own, options)
}

/// Whether a conversation of these blocks can be held in its own budget or else in the cells of the cache.
fn check(
    facts: &[BlockFacts],
    prompt_tokens: usize,
    own: Option<usize>,
    options: &EngineOptions,
) -> Result<(), TurnError> {
    let cells = options.context_tokens;
    let check_in = |cells| Minimum::of(facts, micro_batch(cells, options.max_rows())).check(cells);
    let Err(in_budget) = check_in(own.unwrap_or(cells)) else { return Ok(()) };
    match check_in(cells) {
        Err(BudgetTooSmall { budget, minimum }) if own.is_none() || prompt_tokens > cells => {
            let why = format!("a cache of {budget} cells is too small: {minimum}");
            Err(TurnError::CacheTooSmall { prompt_tokens, cells, why })
        }
        _ => Err(TurnError::BudgetTooSmall(in_budget.to_string())),
    }
}
