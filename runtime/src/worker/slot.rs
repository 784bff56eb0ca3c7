//! What a sequence holds, and the turn that runs in it. Data and questions about it; no llama.cpp.
//!
//! - `timeline` is exactly what the sequence's cells hold.
//! - Tokens before `exported` are kept elsewhere too; `exported` is at a block's end.

use std::collections::VecDeque;
use std::time::Instant;

use hob_slots::evict::Run;
use hob_slots::format::SnapshotRef;
use hob_slots::{Chain, ConversationId, ModelHash, SlotId, Token};
use tokio::sync::mpsc;

use crate::backend::Sequence;
use crate::grammar::Constraint;
use crate::map::{Origin, Origins};
use crate::sample::{Output, Sampler};
use crate::status::SlotState;
use crate::tiers::{FetchEvent, FetchHandle};
use crate::turn::{AheadCounts, Retention, TokenCounts, TurnEvent, TurnReport, TurnRequest};

pub(super) struct Slot {
    pub id: SlotId,
    pub sequence: Sequence,
    /// Who is pinned here. The cells may outlive the pin, for others to share.
    pub owner: Option<ConversationId>,
    /// Nothing of an anonymous owner is kept.
    pub anonymous: bool,
    pub timeline: Chain,
    /// How each token of it came here.
    pub origins: Origins,
    pub exported: usize,
    /// Where the block begins that could not be kept: nothing from there on is kept for now.
    pub unkept: Option<usize>,
    /// What was gone when the record should name it was exported once more.
    pub kept_again: bool,
    /// Whole states of this timeline that are kept, oldest first. Empty where memory is plain.
    pub snapshots: Vec<SnapshotRef>,
    /// Whether the kept record says what the timeline says, and maybe more.
    pub recorded: bool,
    /// What was made hot last is what somebody may be about to say: none of it is kept.
    pub speculates: bool,
    /// Tokens that were here before anything was made hot ahead of the next answer.
    pub at_hand: usize,
    /// A restore was broken off: more of the conversation may be kept than is hot.
    pub cut_short: bool,
    /// Turns since the last record.
    pub turns: u32,
    /// How the last turn wants it kept.
    pub keep: Retention,
    /// The last turn that was answered here, as policies see it.
    pub answered: Run,
    /// Tokens that end the answer and are computed when nobody waits.
    pub tail: Vec<Token>,
    pub turn: Option<Running>,
}

/// A turn in its slot.
pub(super) struct Running {
    /// Turns were admitted for the first time in this order.
    pub number: u64,
    pub conversation: ConversationId,
    /// Nothing of it is kept.
    pub anonymous: bool,
    pub request: TurnRequest,
    pub events: mpsc::UnboundedSender<TurnEvent>,
    pub submitted: Instant,
    pub admitted: Instant,
    pub phase: Phase,
    /// What arrives, in the phase of that name.
    pub restoring: Option<Restoring>,
    pub sampler: Sampler,
    pub constraint: Option<Constraint>,
    pub output: Output,
    pub generated: usize,
    pub report: TurnReport,
    /// `Started` was sent.
    pub started: bool,
    /// Tokens of this prompt that were once computed for this conversation.
    pub expected: usize,
    /// It found its whole prompt hot in its own slot, and wants nothing more.
    pub changes_nothing: bool,
}

/// What is kept of a prompt, on its way into the slot.
pub(super) struct Restoring {
    pub handle: FetchHandle,
    /// In order, and not in the slot yet.
    pub arrived: VecDeque<FetchEvent>,
    /// When something arrived last.
    pub heard: Instant,
    /// What is in the slot so far.
    pub tokens: TokenCounts,
}

impl Running {
    /// How many of the prompt's tokens may be taken from where they are. The last one is computed
    /// when its logits give the answer.
    pub fn limit(&self) -> usize {
        self.request.prompt.len() - usize::from(!self.request.purpose.is_background())
    }

    /// Whether its prompt is to be computed, whatever is hot or kept. One that was put aside while
    /// it answered goes on where it stopped.
    pub fn is_cold(&self) -> bool {
        self.request.cold && !self.started
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Waiting for what is kept. Nothing new was computed yet.
    Restoring { fetch: u64 },
    /// The prompt's tokens from the timeline's end on are to be computed.
    Prefill,
    /// This token was sampled and is to be computed.
    Decoding(Token),
}

impl Slot {
    pub fn new(id: SlotId, fingerprint: ModelHash) -> Self {
        Self {
            id,
            sequence: Sequence(i32::try_from(id.0).expect("slots are few")),
            owner: None,
            anonymous: false,
            timeline: Chain::new(fingerprint),
            origins: Origins::default(),
            exported: 0,
            unkept: None,
            kept_again: false,
            snapshots: Vec::new(),
            recorded: true,
            speculates: false,
            at_hand: 0,
            cut_short: false,
            turns: 0,
            keep: Retention::default(),
            answered: Run::default(),
            tail: Vec::new(),
            turn: None,
        }
    }

    pub fn state(&self) -> SlotState {
        match self.turn.as_ref().map(|turn| turn.phase) {
            Some(Phase::Restoring { .. }) => SlotState::Restoring,
            Some(Phase::Prefill) => SlotState::Prefill,
            Some(Phase::Decoding(_)) => SlotState::Decoding,
            None if self.owner.is_some() => SlotState::Idle,
            None => SlotState::Free,
        }
    }

    /// Whether the next micro-batch has something to compute here.
    pub fn has_rows(&self) -> bool {
        if self.turn.is_some() { !self.restores() } else { !self.tail.is_empty() }
    }

    pub fn restores(&self) -> bool {
        self.turn.as_ref().is_some_and(|turn| matches!(turn.phase, Phase::Restoring { .. }))
    }

    /// Whether something waits to be brought in.
    pub fn has_arrivals(&self) -> bool {
        self.restoring().is_some_and(|restoring| !restoring.arrived.is_empty())
    }

    pub fn restoring(&self) -> Option<&Restoring> {
        self.turn.as_ref()?.restoring.as_ref()
    }

    pub fn prefills(&self) -> bool {
        self.turn.as_ref().is_some_and(|turn| turn.phase == Phase::Prefill)
    }

    /// Whether the timeline stands still and is not kept as it is.
    pub fn wants_keeping(&self) -> bool {
        self.wants_keeping_soon() && self.tail.is_empty()
    }

    /// The same, once the end of the answer is computed.
    pub fn wants_keeping_soon(&self) -> bool {
        !self.recorded && self.is_kept() && self.turn.is_none()
    }

    /// Who is pinned here, under a name that others may know.
    pub fn named_owner(&self) -> Option<ConversationId> {
        self.owner.clone().filter(|_| !self.anonymous)
    }

    /// Whether anything of this slot is kept at all.
    pub fn is_kept(&self) -> bool {
        self.owner.is_some() && !self.anonymous && !self.timeline.is_empty()
    }

    /// How tokens `from` on came here.
    pub fn came_ahead(&self, from: usize) -> AheadCounts {
        let count = |origin| self.origins.within(&(from..self.timeline.len()), origin);
        AheadCounts {
            memory: count(Origin::Memory),
            disk: count(Origin::Disk),
            computed: count(Origin::Computed),
        }
    }

    /// After the timeline was cut back to `len`.
    pub fn cut_back(&mut self, len: usize) {
        self.timeline.truncate(len);
        self.origins.truncate(len);
        let end = |block: &hob_slots::Block| block.range.end;
        let whole = self.timeline.whole_blocks();
        let kept = whole.partition_point(|block| block.range.end <= self.exported);
        self.exported = kept.checked_sub(1).map_or(0, |last| end(&whole[last]));
        self.unkept = None;
        self.snapshots.retain(|snapshot| snapshot.position as usize <= len);
    }
}
