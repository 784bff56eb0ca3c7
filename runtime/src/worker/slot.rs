//! A sequence of the cache, which a turn may run in. Data and questions about it; no llama.cpp.
//!
//! - `timeline` is what the sequence's cells hold; of its tokens, those that are away have none, see
//!   `cells`.

use std::ops::Range;

use hob_slots::evict::Run;
use hob_slots::format::SegmentRef;
use hob_slots::{
    BLOCK_TOKENS, Block, BlockId, ConversationId, Lineage, ModelHash, SlotId, Timeline, Token,
    View, ViewRun, common_prefix,
};

use super::away_blocks::AwayBlocks;
use super::block_uses::BlockUses;
use super::cell_numbers::CellNumbers;
use super::delivery::Delivery;
use super::rows_beside::RowsBeside;
use super::running::{Owner, Phase, Restoring, Running};
use super::save_state::SaveState;
use super::speculation::Speculation;
use crate::adapters::Adapters;
use crate::backend::Sequence;
use crate::draft::Lookup;
use crate::map::{Origin, Origins};
use crate::position::narrow_range;
use crate::status::SlotState;
use crate::tiers::Labelled;
use crate::turn::{AheadCounts, Purpose, TurnRequest};

pub(super) struct Slot {
    pub id: SlotId,
    pub sequence: Sequence,
    /// Pinned here. The cells may outlive the pin, for other slots to share.
    pub owner: Option<Owner>,
    /// The owner is anonymous and has outgrown its cells. A prompt that begins with this number of tokens of the
    /// timeline, at least one, continues it. See `anonymous`.
    pub goes_on_behind: Option<usize>,
    pub timeline: Timeline,
    /// The adapters that compute the timeline.
    pub adapters: Adapters,
    /// The last micro-batch of these adapters since they are the slot's, see `adapters`.
    pub served: u64,
    /// One origin for each token of `timeline`.
    pub origins: Origins,
    /// The cells of `timeline`'s tokens. Those without one are away.
    pub cells: CellNumbers,
    /// From here on cells may lie behind those of other conversations, see `gather`.
    pub scattered_from: Option<usize>,
    /// What the next token attends to in `timeline`.
    pub view: View,
    /// The most cells since the turn began, with those of pieces on their way.
    pub peak: usize,
    /// How blocks were used, by their start.
    pub uses: BlockUses,
    pub away_blocks: AwayBlocks,
    /// The views of the tokens with which the prompt begins, before those without cells were cut off.
    pub views_before: Vec<ViewRun>,
    /// Covers a beginning of `timeline`: as much as it had when a draft was last made.
    pub lookup: Lookup,
    pub save: SaveState,
    pub speculation: Speculation,
    /// A restore was cancelled or abandoned: the tiers may hold more of the conversation than the
    /// cells, although no record in memory says so.
    pub partly_restored: bool,
    /// The last turn that ended here, as the eviction policy sees it.
    pub answered: Run,
    /// Tokens of the answer behind `timeline`; computed when no prompt waits. Valid until the timeline changes:
    /// a turn that ends before it has computed anything leaves them, see [`Self::pending_tail`].
    pub tail: Vec<Token>,
    /// The caller of the last answer has not dropped its turn.
    pub delivery: Option<Delivery>,
    pub turn: Option<Running>,
    pub beside: RowsBeside,
}

impl Slot {
    pub fn new(id: SlotId, fingerprint: ModelHash) -> Self {
        Self {
            id,
            sequence: Sequence(i32::try_from(id.0).expect("slots are few")),
            owner: None,
            goes_on_behind: None,
            timeline: Timeline::new(fingerprint),
            adapters: Adapters::default(),
            served: 0,
            origins: Origins::default(),
            cells: CellNumbers::default(),
            scattered_from: None,
            view: View::WHOLE,
            peak: 0,
            uses: BlockUses::default(),
            away_blocks: AwayBlocks::default(),
            views_before: Vec::new(),
            lookup: Lookup::default(),
            save: SaveState::default(),
            speculation: Speculation::default(),
            partly_restored: false,
            answered: Run::default(),
            tail: Vec::new(),
            delivery: None,
            turn: None,
            beside: RowsBeside::default(),
        }
    }

    /// The root of the names of its KV.
    pub fn root(&self) -> BlockId {
        self.timeline.root()
    }

    /// The timeline of `owner`, with the segments of its prompt, as the tiers index it.
    pub fn labelled(&self, owner: &ConversationId, segments: &[SegmentRef]) -> Labelled {
        Labelled {
            conversation: owner.clone(),
            tokens: self.timeline.tokens().to_vec(),
            blocks: self.timeline.blocks().to_vec(),
            segments: segments.to_vec(),
        }
    }

    /// How many of the first tokens of `prompt`, which `adapters` are for, the slot holds.
    pub fn shared_with(&self, adapters: &Adapters, prompt: &[Token]) -> usize {
        if self.adapters.set() == adapters.set() {
            common_prefix(self.timeline.tokens(), prompt)
        } else {
            0
        }
    }

    /// The empty slot has these adapters from here on.
    pub fn set_adapters(&mut self, adapters: Adapters, model: ModelHash) {
        debug_assert!(self.timeline.is_empty());
        self.timeline = Timeline::of_root(adapters.set().root(model));
        self.adapters = adapters;
        self.served = 0;
    }

    /// Pins `owner` to the slot. The cells stay: a prompt that begins alike reuses them, but they
    /// are not the owner's to save.
    pub fn pinned_by(&mut self, owner: Owner) {
        self.owner = Some(owner);
        self.goes_on_behind = None;
        self.delivery = None;
        self.save.pinned();
        self.speculation = Speculation::default();
        self.partly_restored = false;
        self.answered = Run::default();
        self.uses = BlockUses::default();
        self.away_blocks.stop_reading();
        self.beside.pinned();
    }

    /// Whether all tokens have cells, and each attended to all tokens before it: the cells are a function of the
    /// tokens.
    pub fn is_whole(&self) -> bool {
        self.view.is_whole() && self.timeline.pure() == self.timeline.len()
    }

    /// The furthest position up to `len` that is right behind a cell.
    pub fn resident_end(&self, len: usize) -> usize {
        let away = self.cells.away(self.timeline.len());
        let hole = away.iter().find(|hole| hole.start < len && len <= hole.end);
        hole.map_or(len, |hole| hole.start)
    }

    /// What its first `len` tokens attended to, and which of them are away.
    pub fn lineage(&self, len: usize) -> Lineage {
        // A block of which a note alone is there is away.
        let is_away = |block: &&Block| !self.view.is_whole() && !self.cells.has(&block.range);
        let blocks = self.timeline.blocks().iter().filter(is_away);
        let within = blocks.map(|block| &block.range).filter(|range| range.end <= len);
        let mut whole: Vec<Range<u32>> = Vec::new();
        for range in within.map(narrow_range) {
            match whole.last_mut().filter(|last| last.end == range.start) {
                Some(last) => last.end = range.end,
                None => whole.push(range),
            }
        }
        Lineage { views: self.timeline.views_within(len), away: whole }
    }

    /// Frees the slot, whose cells were dropped.
    pub fn unpinned(&mut self) {
        self.owner = None;
        self.goes_on_behind = None;
        self.save.unpinned();
        self.tail.clear();
        self.delivery = None;
        self.away_blocks.stop_reading();
    }

    /// A turn begins with the first `hot` tokens in place. Returns how many of them were here
    /// before speculation.
    pub fn turn_begins(&mut self, request: &TurnRequest, hot: usize) -> usize {
        self.delivery = None;
        let speculates = request.purpose == Purpose::Speculate;
        self.save.turn_begins(speculates && !request.is_stored);
        self.speculation.turn_begins(speculates, hot)
    }

    /// The record stays valid when the turn added nothing to the timeline, or less than a block of
    /// what was only computed ahead.
    pub fn turn_ended(&mut self, turn: &Running) {
        self.partly_restored |= turn.is_restoring();
        if !self.save.is_speculative() && !self.speculation.is_last() {
            self.save.turns += u32::from(turn.started);
        }
        let reused = turn.report.tokens.cached();
        let adds_little = turn.request.is_stored && self.timeline.len() < reused + BLOCK_TOKENS;
        let adds_nothing = turn.is_resuming() || turn.adds_nothing || adds_little;
        self.save.turn_ended(adds_nothing);
    }

    pub fn state(&self) -> SlotState {
        match self.turn.as_ref().map(|turn| &turn.phase) {
            Some(Phase::Restoring(_)) => SlotState::Restoring,
            Some(Phase::Prefill) => SlotState::Prefill,
            Some(Phase::Decoding(_)) => SlotState::Decoding,
            None if self.conversation().is_some() => SlotState::Idle,
            None => SlotState::Free,
        }
    }

    /// Whether the next micro-batch has something to compute here.
    pub fn has_rows(&self) -> bool {
        match &self.turn {
            Some(turn) => !turn.is_restoring() && turn.stalled.is_none(),
            None => !self.tail.is_empty() && !self.is_delivering(),
        }
    }

    /// What is still to be computed of the last answer. A turn computes it with its prompt.
    pub fn pending_tail(&self) -> &[Token] {
        if self.turn.is_none() { &self.tail } else { &[] }
    }

    /// Whether the work behind the last answer waits for its caller.
    pub fn is_delivering(&self) -> bool {
        self.delivery.is_some()
    }

    /// Whether the turn waits for the disk to take what must leave its cells.
    pub fn is_stalled(&self) -> bool {
        self.turn.as_ref().is_some_and(|turn| turn.stalled.is_some())
    }

    pub fn is_restoring(&self) -> bool {
        self.restoring().is_some()
    }

    /// Whether fetched pieces wait to be imported.
    pub fn has_arrivals(&self) -> bool {
        self.restoring().is_some_and(|restoring| !restoring.arrived.is_empty())
    }

    pub fn restoring(&self) -> Option<&Restoring> {
        match &self.turn.as_ref()?.phase {
            Phase::Restoring(restoring) => Some(restoring),
            Phase::Prefill | Phase::Decoding(_) => None,
        }
    }

    pub fn restoring_mut(&mut self) -> Option<&mut Restoring> {
        match &mut self.turn.as_mut()?.phase {
            Phase::Restoring(restoring) => Some(restoring),
            Phase::Prefill | Phase::Decoding(_) => None,
        }
    }

    pub fn is_prefilling(&self) -> bool {
        self.turn.as_ref().is_some_and(|turn| matches!(turn.phase, Phase::Prefill))
    }

    pub fn is_decoding(&self) -> bool {
        self.turn.as_ref().is_some_and(|turn| matches!(turn.phase, Phase::Decoding(_)))
    }

    /// Whether a record is due now: the slot is idle and its answer is computed to the end.
    pub fn needs_record(&self) -> bool {
        self.will_need_record() && self.tail.is_empty()
    }

    /// Whether a record will be due once the tail is computed.
    pub fn will_need_record(&self) -> bool {
        self.save.is_stale() && self.is_savable() && self.turn.is_none()
    }

    /// The conversation that is pinned here; `None` for an anonymous one.
    pub fn conversation(&self) -> Option<&ConversationId> {
        self.owner.as_ref()?.conversation()
    }

    /// Whether this slot holds KV of a conversation.
    pub fn is_savable(&self) -> bool {
        self.conversation().is_some() && !self.timeline.is_empty()
    }

    /// Origins of the tokens from `from` on.
    pub fn ahead_counts(&self, from: usize) -> AheadCounts {
        let count = |origin| self.origins.within(&(from..self.timeline.len()), origin);
        AheadCounts {
            memory: count(Origin::Memory),
            disk: count(Origin::Disk),
            computed: count(Origin::Computed),
        }
    }

    /// Describes restored blocks, so that no decision about which blocks leave waits for it. Only where blocks are away
    /// does one follow soon.
    pub fn sketch_blocks(&mut self) {
        if !self.view.is_whole() {
            self.uses.sketch(&self.timeline);
        }
    }

    /// The timeline is cut back to `len` tokens.
    pub fn cut_back(&mut self, len: usize) {
        self.lookup.truncate(self.timeline.tokens(), len);
        self.timeline.truncate(len);
        self.tail.clear();
        self.origins.truncate(len);
        self.cells.truncate(len);
        self.scattered_from.take_if(|from| *from >= len);
        self.uses.truncate(len);
        self.save.cut_back(len, self.timeline.whole_blocks());
    }
}
