//! A turn in its slot, whose it is, and the fetch that brings it KV. Data and questions about it; no llama.cpp.

use std::collections::VecDeque;
use std::ops::Range;
use std::time::Instant;

use hob_slots::content::Import;
use hob_slots::format::SegmentRef;
use hob_slots::{BLOCK_TOKENS, ConversationId, Layer, Token, ViewRun};

use super::progress_log::ProgressLog;
use crate::command::Submitted;
use crate::draft::Acceptance;
use crate::grammar::Constraint;
use crate::sample::{Output, Sampler};
use crate::tiers::{FetchEvent, FetchHandle, Recalled};
use crate::turn::{BackReason, DraftCounts, EventSender, TokenCounts, TurnReport, TurnRequest};
use crate::vocabulary::Vocabulary;

/// Who pins a slot.
#[derive(Clone, Debug)]
pub(super) enum Owner {
    Conversation(ConversationId),
    /// A turn without a conversation, and those that continue it once it has outgrown its cells: its KV is never
    /// saved.
    Anonymous(ConversationId),
}

/// A turn in its slot.
pub(super) struct Running {
    /// Turns were admitted for the first time in this order.
    pub number: u64,
    pub owner: Owner,
    pub request: TurnRequest,
    pub events: EventSender,
    pub submitted: Instant,
    /// To the slot that it has.
    pub admitted: Instant,
    pub phase: Phase,
    pub sampler: Sampler,
    pub constraint: Option<Constraint>,
    pub output: Output,
    pub generated: usize,
    pub acceptance: Acceptance,
    pub drafts: DraftCounts,
    pub report: TurnReport,
    /// `Started` was sent.
    pub started: bool,
    pub first_token: Option<Instant>,
    pub progress: ProgressLog,
    /// The number of its latest restore.
    pub restore: Option<u64>,
    /// Tokens of this prompt that were once computed for this conversation.
    pub expected: usize,
    /// Micro-batches in a row whose first prompt was another one.
    pub passed_over: u32,
    /// Parts of the prompt that are to be imported from another place, in order.
    pub imports: VecDeque<Import>,
    /// Heads of moved chunks that are to be computed anew, in order, see `heads`.
    pub heads: Vec<Range<usize>>,
    /// The position before which blocks are recalled; `None` once they were.
    pub recalls_at: Option<usize>,
    /// When the step that brings blocks back has begun; `None` while there is none.
    pub recall_began: Option<Instant>,
    /// Positions of the prompt that were away when the turn began, and still are.
    pub away: Vec<Range<usize>>,
    /// Blocks have left the slot's cells during the turn.
    pub has_left: bool,
    /// Since when nothing can leave its cells, because too much waits for the disk.
    pub stalled: Option<Instant>,
    /// A block that was to leave last stayed for that reason.
    pub is_refused: bool,
    /// A block stayed because what leaves has to stay in memory, whose budget is used up.
    pub lacks_memory: bool,
    /// A prewarm whose whole prompt was hot in its own slot: the record stays valid.
    pub adds_nothing: bool,
}

pub(super) enum Phase {
    /// KV is being fetched. The turn has computed nothing yet.
    Restoring(Box<Restoring>),
    /// The prompt's tokens from the timeline's end on are to be computed.
    Prefill,
    /// These tokens were sampled, and are to be computed: the newest, and those before it whose
    /// running state is gone, see `mark`.
    Decoding(Vec<Token>),
}

impl Owner {
    pub fn id(&self) -> &ConversationId {
        match self {
            Self::Conversation(id) | Self::Anonymous(id) => id,
        }
    }

    /// `None` for an anonymous turn.
    pub fn conversation(&self) -> Option<&ConversationId> {
        match self {
            Self::Conversation(id) => Some(id),
            Self::Anonymous(_) => None,
        }
    }
}

impl Running {
    /// `number`: of the turns that were admitted.
    pub fn new(number: u64, owner: Owner, turn: Submitted) -> Self {
        let mut sampler = Sampler::new(&turn.request.sampling);
        sampler.prime(&turn.request.prompt);
        Self {
            number,
            owner,
            sampler,
            output: Output::new(turn.request.stop.clone()),
            request: turn.request,
            events: turn.events,
            submitted: turn.at,
            admitted: Instant::now(),
            phase: Phase::Prefill,
            constraint: turn.constraint,
            generated: 0,
            acceptance: Acceptance::default(),
            drafts: DraftCounts::default(),
            report: TurnReport::default(),
            started: false,
            first_token: None,
            progress: ProgressLog::default(),
            restore: None,
            expected: 0,
            passed_over: 0,
            imports: VecDeque::new(),
            heads: Vec::new(),
            recalls_at: None,
            recall_began: None,
            away: Vec::new(),
            has_left: false,
            stalled: None,
            is_refused: false,
            lacks_memory: false,
            adds_nothing: false,
        }
    }

    /// How many of the prompt's tokens may be reused. A turn that answers computes the last one,
    /// for its logits.
    pub fn reusable_tokens(&self) -> usize {
        self.request.prompt.len() - usize::from(!self.request.purpose.is_background())
    }

    /// The tokens with which the next prompt of its conversation begins, at least one: those of its prompt, once
    /// that is computed, up to its last message. The start of the answer, which follows them, may be written
    /// otherwise there.
    pub fn said(&self) -> Option<usize> {
        let prompt = self.started.then(|| self.report.tokens.prompt())?;
        let is_said =
            |last: &&SegmentRef| matches!(last.layer, Layer::User | Layer::Assistant | Layer::Tool);
        let last = self.request.keep.segments.last().filter(is_said);
        // Of a prompt whose last message is not known, all was said.
        let is_near = |end: &usize| (1..=prompt).contains(end) && prompt - end <= BLOCK_TOKENS;
        Some(last.map(|last| last.end as usize).filter(is_near).unwrap_or(prompt))
    }

    /// The tokens of its answer that are sampled and not in the slot's timeline.
    pub fn uncomputed(&self) -> &[Token] {
        match &self.phase {
            Phase::Decoding(tokens) => tokens,
            Phase::Restoring(_) | Phase::Prefill => &[],
        }
    }

    pub fn is_restoring(&self) -> bool {
        matches!(self.phase, Phase::Restoring(_))
    }

    /// Whether it restores what is saved behind the slot's tokens, before anything of it is computed.
    pub fn is_resuming(&self) -> bool {
        let Phase::Restoring(restoring) = &self.phase else { return false };
        restoring.recalled.is_none() && restoring.chunk.is_none()
    }

    /// Where the first moved chunk begins whose head is not computed yet, also of one that still arrives.
    pub fn headless_from(&self) -> Option<usize> {
        let waits = self.heads.first().map(|head| head.start);
        let arrives = match &self.phase {
            Phase::Restoring(restoring) => match restoring.chunk {
                Some(ChunkStage::Moving { head: (start, 1..), .. }) => Some(start),
                Some(ChunkStage::Moving { .. } | ChunkStage::Finding) | None => None,
            },
            Phase::Prefill | Phase::Decoding(_) => None,
        };
        waits.into_iter().chain(arrives).min()
    }

    /// Whether the answer ends with this token, if it comes next.
    pub fn ends_at(&self, token: Token, vocabulary: &Vocabulary) -> bool {
        let is_end = vocabulary.is_eog(token) && !self.request.ignore_eog;
        is_end || self.request.stop_tokens.contains(&token)
    }

    /// Whether the answer ends with this piece of its text, because its time is over.
    pub fn is_over_at(&self, piece: &[u8]) -> bool {
        let (limit, first) = (self.request.max_time_to_line, self.first_token);
        let is_late = limit.zip(first).is_some_and(|(limit, first)| first.elapsed() >= limit);
        is_late && piece.contains(&b'\n')
    }

    /// Whether the answer is too short to end with the next token.
    pub fn is_too_short(&self) -> bool {
        self.generated < self.request.min_tokens
    }

    /// Whether to compute the prompt whatever is hot or saved. A turn that was preempted while it
    /// answered continues where it stopped.
    pub fn is_cold(&self) -> bool {
        self.request.cold && !self.started
    }
}

/// A fetch on its way into the slot.
pub(super) struct Restoring {
    /// Matches events with the fetch that they belong to.
    pub fetch: u64,
    pub handle: FetchHandle,
    /// An event has arrived.
    pub heard: bool,
    /// In order, not imported yet.
    pub arrived: VecDeque<FetchEvent>,
    /// When the last event arrived or was imported.
    pub waits_since: Instant,
    /// The prompt's tokens that are in the slot so far.
    pub tokens: TokenCounts,
    /// The views of the tokens that arrive.
    pub views: Vec<ViewRun>,
    /// Cells were imported whose rest has not arrived.
    pub lacks_rest: bool,
    /// For a recall: the blocks that were away. `None`: saved KV behind the slot's tokens arrives.
    pub recalled: Option<Recalled>,
    /// For KV that is saved at another place: the stage of its import.
    pub chunk: Option<ChunkStage>,
}

/// What a fetch of chunks is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChunkStage {
    /// To learn which there are.
    Finding,
    /// To get one, whose seams have `repaired` tokens. `head`: its first ones that are computed anew.
    Moving { repaired: usize, head: (usize, usize) },
}

impl Restoring {
    /// The restore of saved KV behind the slot's tokens.
    pub fn of_sequel(fetch: u64, handle: FetchHandle, tokens: TokenCounts) -> Self {
        Self {
            fetch,
            handle,
            heard: false,
            arrived: VecDeque::new(),
            waits_since: Instant::now(),
            tokens,
            views: Vec::new(),
            lacks_rest: false,
            recalled: None,
            chunk: None,
        }
    }

    /// The restore of a part of the prompt that is saved at another place, or the search for such parts.
    pub fn of_chunk(
        fetch: u64,
        handle: FetchHandle,
        tokens: TokenCounts,
        stage: ChunkStage,
    ) -> Self {
        Self { chunk: Some(stage), ..Self::of_sequel(fetch, handle, tokens) }
    }

    /// The restore of blocks that were away.
    pub fn of_recall(fetch: u64, handle: FetchHandle, tokens: TokenCounts) -> Self {
        Self { recalled: Some(Recalled::default()), ..Self::of_sequel(fetch, handle, tokens) }
    }

    /// Why a range that was away comes back.
    pub fn why(&self, range: &Range<usize>) -> BackReason {
        let mut recalled = self.recalled.iter().flat_map(|recalled| &recalled.back);
        recalled.find(|(of, _)| of == range).map_or(BackReason::Room, |(_, why)| *why)
    }
}
