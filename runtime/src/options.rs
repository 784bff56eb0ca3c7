//! How an engine is made.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use hob_slots::away::Policy;
use hob_slots::recall::Retrievals;
use hob_slots::{Lossy, Timestamp};

use crate::backend::{ContextShape, MemoryKind, ModelFacts};
use crate::draft_model::DraftModel;
use crate::embedder::Embedder;
use crate::no_eviction::NoEviction;
use crate::turn::TurnRequest;

#[derive(Clone)]
pub struct EngineOptions {
    /// Cells of the cache, shared by all conversations.
    pub context_tokens: usize,
    /// Conversations that are hot at the same time.
    pub slots: usize,
    /// Slots for prefixes that conversations share, besides `slots`.
    pub prefixes: usize,
    /// Maximum rows of one micro-batch.
    pub micro_batch: usize,
    /// How long a micro-batch should last; `None` makes its size independent of the clock.
    pub micro_batch_target: Option<Duration>,
    /// Compute guessed tokens of answers ahead, where that makes them faster.
    pub drafts: bool,
    /// Guesses tokens where the conversation's own text gives no guess.
    pub draft_model: Option<DraftModel>,
    /// Which blocks leave the cells of a conversation that outgrows them; `None`: such a conversation is
    /// refused, or its answer ends.
    pub away: Option<Policy>,
    /// Whether blocks that left such a conversation's cells come back.
    pub recovery: Recovery,
    /// The rankings that choose which blocks come back.
    pub retrievals: Retrievals,
    /// Finds blocks that are similar in meaning to a question; `None`: words alone choose which come back.
    pub embedder: Option<Embedder>,
    /// How the KV of aged conversations is rounded; `None`: rounded KV is not used, but computed again.
    pub lossy: Option<Lossy>,
    /// Turns that may wait for a slot.
    pub queue: usize,
    /// Host memory for parked KV.
    pub memory_budget_bytes: u64,
    /// Host memory for KV that waits for the disk. Beyond it, KV stays in its cells.
    pub unsaved_budget_bytes: u64,
    /// How long a restore waits for its next piece before the rest is computed.
    pub restore_patience: Duration,
    /// How long a turn whose blocks must leave its cells waits while the disk accepts no writes.
    pub disk_patience: Duration,
    /// How long the work behind an answer waits for its caller, who drops the [`Turn`](crate::Turn) once the answer is
    /// passed on.
    pub delivery_patience: Duration,
    pub clock: Arc<dyn Fn() -> Timestamp + Send + Sync>,
}

/// What becomes of blocks that left the cells of a live conversation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Recovery {
    /// The blocks come back when the conversation turns to them.
    #[default]
    Restore,
    /// The blocks stay away while the conversation is live, and their first tokens stay in their cells: a note of
    /// what was there.
    Breadcrumb,
    /// The blocks stay away while the conversation is live, as where others cut the oldest text.
    Discard,
}

static IGNORES_TIME: AtomicBool = AtomicBool::new(false);

/// For tests: by default, engines behave from now on as if every micro-batch took equally long.
pub fn ignore_time() {
    IGNORES_TIME.store(true, Ordering::Relaxed);
}

impl Default for EngineOptions {
    fn default() -> Self {
        Self {
            context_tokens: 8192,
            slots: 4,
            prefixes: 4,
            micro_batch: 512,
            micro_batch_target: (!IGNORES_TIME.load(Ordering::Relaxed))
                .then_some(Duration::from_millis(100)),
            drafts: true,
            draft_model: None,
            away: Some(Policy::default()),
            recovery: Recovery::default(),
            retrievals: Retrievals::ALL,
            embedder: None,
            lossy: None,
            queue: 32,
            memory_budget_bytes: 1 << 30,
            unsaved_budget_bytes: 256 << 20,
            restore_patience: Duration::from_secs(10),
            disk_patience: Duration::from_secs(60),
            delivery_patience: Duration::from_millis(50),
            clock: Arc::new(|| SystemTime::now().into()),
        }
    }
}

/// Heads of moved chunks in one micro-batch at most. They attend to each other as they were moved. With two or four
/// of them answers agree with exact ones equally, and four fill two tiles of attention (`cargo xtask bench chunks`).
const HEADS: usize = 4;

impl EngineOptions {
    pub(crate) fn shape(&self, model: &ModelFacts) -> ContextShape {
        let one_batch = model.pooling.is_some() && !model.embeds_in_parts;
        // A scratch sequence, and one in which a running state is marked.
        let others = if model.memory.can_drop_newest() { 1 } else { 2 };
        ContextShape {
            context_tokens: self.context_tokens,
            sequences: self.slots + self.prefixes + others + self.heads(model),
            micro_batch: if one_batch { self.conversation_tokens(model) } else { self.max_rows() },
        }
    }

    /// Sequences in which the heads of moved chunks are computed; none for a model whose KV cannot be moved.
    pub(crate) fn heads(&self, model: &ModelFacts) -> usize {
        if model.memory.is_plain() && model.rope.is_ok() && model.pooling.is_none() {
            HEADS
        } else {
            0
        }
    }

    /// Rows of one micro-batch at most.
    pub(crate) fn max_rows(&self) -> usize {
        self.micro_batch.min(self.context_tokens)
    }

    /// Whether rounded KV of its conversation may serve the turn.
    pub(crate) fn accepts_lossy(&self, request: &TurnRequest) -> bool {
        self.lossy.is_some() && !request.lossless
    }

    /// Whether blocks leave the cells of a conversation that outgrows them.
    pub(crate) fn evicts(&self, model: &ModelFacts) -> bool {
        self.no_eviction(model).is_none() && model.pooling.is_none()
    }

    /// Why conversations with the model stay in their cells; `None`: blocks of them leave.
    pub(crate) fn no_eviction(&self, model: &ModelFacts) -> Option<NoEviction> {
        match model.memory {
            MemoryKind::Plain => self.away.is_none().then_some(NoEviction::Off),
            MemoryKind::Windowed => Some(NoEviction::SlidingWindow),
            MemoryKind::Hybrid => Some(NoEviction::Hybrid),
            MemoryKind::Recurrent => Some(NoEviction::Recurrent),
        }
    }

    /// Why conversations with the model stay in their cells, where they could otherwise be longer: the model was
    /// trained with more tokens than there are cells.
    pub(crate) fn ends_with_cells(&self, model: &ModelFacts) -> Option<NoEviction> {
        self.no_eviction(model).filter(|_| self.context_tokens < model.trained_context)
    }

    /// Tokens of one conversation at most: the context that the model was trained with; of a model whose
    /// conversations stay in their cells, those of the cache too.
    pub(crate) fn conversation_tokens(&self, model: &ModelFacts) -> usize {
        match model.trained_context {
            0 => self.context_tokens, // The model file does not say.
            trained if self.evicts(model) => trained,
            trained => self.context_tokens.min(trained),
        }
    }
}
