//! How an engine is made.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use hob_slots::Timestamp;

use crate::backend::{ContextShape, ModelFacts};
use crate::draft_model::DraftModel;

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
    /// Guesses what the conversation's own text does not say.
    pub draft_model: Option<DraftModel>,
    /// Turns that may wait for a slot.
    pub queue: usize,
    /// Host memory for parked KV.
    pub memory_budget_bytes: u64,
    /// Host memory for KV that waits for the disk. Beyond it, KV stays in its cells.
    pub unsaved_budget_bytes: u64,
    /// How long a restore waits for its next piece before the rest is computed.
    pub restore_patience: Duration,
    pub clock: Arc<dyn Fn() -> Timestamp + Send + Sync>,
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
            queue: 32,
            memory_budget_bytes: 1 << 30,
            unsaved_budget_bytes: 256 << 20,
            restore_patience: Duration::from_secs(10),
            clock: Arc::new(|| SystemTime::now().into()),
        }
    }
}

impl EngineOptions {
    pub(crate) fn shape(&self, model: &ModelFacts) -> ContextShape {
        let one_batch = model.pooling.is_some() && !model.embeds_in_parts;
        // A scratch sequence, and one in which a running state is marked.
        let others = if model.memory.can_drop_newest() { 1 } else { 2 };
        ContextShape {
            context_tokens: self.context_tokens,
            sequences: self.slots + self.prefixes + others,
            micro_batch: if one_batch { self.conversation_tokens(model) } else { self.max_rows() },
        }
    }

    /// Rows of one micro-batch at most.
    pub(crate) fn max_rows(&self) -> usize {
        self.micro_batch.min(self.context_tokens)
    }

    /// Tokens of one conversation at most: the cells of the cache, or the context that the model
    /// was trained with.
    pub(crate) fn conversation_tokens(&self, model: &ModelFacts) -> usize {
        match model.trained_context {
            0 => self.context_tokens, // The model file does not say.
            trained => self.context_tokens.min(trained),
        }
    }
}
