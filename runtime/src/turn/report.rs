//! Reports of a turn: where the tokens of its prompt came from, its cells, its drafts.

use std::ops::{AddAssign, Range};
use std::time::Duration;

use hob_slots::SlotId;

use crate::backend::Immovable;
use crate::miss::MissReason;
use crate::no_eviction::NoEviction;

/// Where the tokens of a prompt came from. All but `repaired` and `lossy` add up to the prompt's length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TokenCounts {
    /// Hot already, in this conversation's cells or in cells of another one with the same prefix.
    pub shared: usize,
    /// Imported from host memory.
    pub memory: usize,
    /// Read from disk, verified, and imported.
    pub disk: usize,
    /// Computed before, and without cells now: saved, and this answer does not attend to it.
    pub away: usize,
    /// Computed at another place, and moved: it attended to another text before it.
    pub moved: usize,
    pub computed: usize,
    /// The part of `computed` at the seams of moved text, whose KV was there, too.
    pub repaired: usize,
    /// The part that was not computed whose KV was rounded while it was saved.
    pub lossy: usize,
}

impl TokenCounts {
    /// Prompt tokens that were not computed: OpenAI's `cached_tokens`.
    pub fn cached(&self) -> usize {
        self.shared + self.memory + self.disk + self.away + self.moved
    }

    pub fn prompt(&self) -> usize {
        self.cached() + self.computed
    }
}

/// Cells of a conversation during a turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CellCounts {
    /// The maximum of cells that the conversation may have.
    pub budget: usize,
    /// The maximum of cells that the conversation had.
    pub peak: usize,
    /// Cells that the conversation had when the turn ended.
    pub resident: usize,
    /// Why no block could leave, where that mattered: the turn's budget did not count, or its answer ended when
    /// its cells were full, those of a budget or of the cache.
    pub no_eviction: Option<NoEviction>,
}

/// A block that left a live conversation's cells, or came back to them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moved {
    /// Tokens of the timeline when it moved: tokens computed before attended to the block as it was, those after as
    /// it is.
    pub at: usize,
    pub range: Range<usize>,
    pub way: Way,
}

/// Which way a block moved, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// The block's cells were needed for others.
    Out,
    Back(BackReason),
}

/// Why a block came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackReason {
    /// There was room.
    Room,
    /// The block always stays: it is pinned, or of axioms, identity or rules.
    Stays,
    /// The new text names it.
    Mention,
    /// The new text has words of it.
    Words,
    /// The new text is near in meaning.
    Meaning,
    /// The block belongs to the group of one that came back.
    Group,
}

/// Tokens that a speculative prefill made hot before the turn, by origin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AheadCounts {
    pub memory: usize,
    pub disk: usize,
    pub computed: usize,
}

/// Tokens of an answer that were guessed and computed ahead of their turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DraftCounts {
    /// Computed in the micro-batch of an earlier token.
    pub drafted: usize,
    /// The part of `drafted` that is in the answer.
    pub accepted: usize,
    /// The part of `drafted` that the draft model guessed.
    pub model_drafted: usize,
    /// The part of `accepted` that the draft model guessed.
    pub model_accepted: usize,
    /// The part of `drafted` that the model's MTP heads guessed.
    pub mtp_drafted: usize,
    /// The part of `accepted` that they guessed.
    pub mtp_accepted: usize,
}

impl AddAssign for DraftCounts {
    fn add_assign(&mut self, more: Self) {
        self.drafted += more.drafted;
        self.accepted += more.accepted;
        self.model_drafted += more.model_drafted;
        self.model_accepted += more.model_accepted;
        self.mtp_drafted += more.mtp_drafted;
        self.mtp_accepted += more.mtp_accepted;
    }
}

/// What happened to a prompt, known when its first token is sampled.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TurnReport {
    /// The sequence that served the turn.
    pub slot: Option<SlotId>,
    /// Where the prompt's tokens came from.
    pub tokens: TokenCounts,
    /// The part of `tokens.shared` that a speculative prefill made hot since the last answer.
    pub ahead: AheadCounts,
    /// Blocks that speculative prefills moved since the last answer, without those that are again where they
    /// were then.
    pub moved_ahead: Vec<Moved>,
    /// Positions of the prompt without cells when the first token was sampled, in order.
    pub away: Vec<Range<usize>>,
    /// Milliseconds from the turn's start to its KV being in place (0.0 when it already was).
    pub restore_ms: f64,
    /// What was brought back for the prompt's newest text.
    pub recall: Option<RecallReport>,
    /// Milliseconds from `submit` to the first token.
    pub ttft_ms: f64,
    /// The turn was asked to reuse nothing.
    pub cold: bool,
    /// Measured speed of prefill, from which the cost of the reused tokens follows.
    pub prefill_tokens_per_second: Option<f64>,
    /// Why no KV was moved for a request that allows it: the model does not.
    pub immovable: Option<Immovable>,
    /// Why tokens that this conversation once had were computed again.
    pub miss: Option<MissReason>,
}

/// A step that brings blocks back.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RecallReport {
    /// Blocks without cells when it began.
    pub away: usize,
    /// Tokens that came back.
    pub tokens: usize,
    /// Time until they were in their cells, with the export of blocks that left for them.
    pub took: Duration,
}

/// How far a prompt is, between its arrival and its first token.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PromptProgress {
    pub phase: PromptPhase,
    /// Length of the prompt.
    pub tokens_total: usize,
    /// In the slot's cells so far, by where they came from.
    pub tokens: TokenCounts,
    /// Milliseconds since `submit`.
    pub elapsed_ms: f64,
    /// The time to compute the rest at the speed that this turn has measured, or, before its first
    /// micro-batch, the engine. `None` where neither has, and while the restore may still bring
    /// tokens.
    pub seconds_left: Option<f64>,
}

/// What a turn waits for before its first token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PromptPhase {
    /// A slot, or the cells that another turn uses.
    Waiting,
    /// Saved KV, on its way from memory or disk.
    Restoring,
    /// Tokens that must be computed.
    Reading,
}
