//! What a caller asks of the engine and what it hears back. Plain data: no threads, no llama.cpp.
//!
//! - A [`TurnRequest`] carries tokens, never text: templates and tokenizers run before the engine.
//! - Events arrive in order: one `Started`, any number of `Token`, one `Finished` or `Failed`.
//! - Dropping the [`Turn`] cancels it; the engine notices before its next micro-batch.

use std::sync::Arc;

use hob_slots::format::SegmentRef;
use hob_slots::{ConversationId, SlotId, Token, TtlClass};
use tokio::sync::mpsc;

use crate::grammar::Grammar;
use crate::miss::MissReason;
use crate::sample::Sampling;

/// One request to continue `prompt`.
#[derive(Clone, Debug)]
pub struct TurnRequest {
    /// Whose KV this is. `None`: nothing is pinned, parked or written; cells may still be shared.
    pub conversation: Option<ConversationId>,
    /// The whole prompt, at least one token, from position 0.
    pub prompt: Vec<Token>,
    /// How the next token is chosen.
    pub sampling: Sampling,
    /// Tokens to generate at most; 0 computes the prompt and stops.
    pub max_tokens: usize,
    /// Texts that end the answer; the answer does not contain the one that ended it.
    pub stop: Vec<String>,
    /// What the answer must look like.
    pub grammar: Option<Arc<Grammar>>,
    /// `Some(n)`: report each token's log-probability and those of the `n` likeliest.
    pub logprobs: Option<usize>,
    /// Generate past end-of-generation tokens (benchmarks and tests).
    pub ignore_eog: bool,
    /// How what was computed is kept.
    pub keep: Retention,
    /// For whom it computes.
    pub purpose: Purpose,
    /// Reuse nothing: every token of the prompt is computed, to measure what reuse saves. What is
    /// kept stays, and what is computed is kept under the same names.
    pub cold: bool,
}

impl TurnRequest {
    /// A greedy answer of at most `max_tokens`; the other fields follow by struct update.
    pub fn answer(
        conversation: Option<ConversationId>,
        prompt: Vec<Token>,
        max_tokens: usize,
    ) -> Self {
        Self {
            conversation,
            prompt,
            sampling: Sampling::greedy(),
            max_tokens,
            stop: Vec::new(),
            grammar: None,
            logprobs: None,
            ignore_eog: false,
            keep: Retention::default(),
            purpose: Purpose::Answer,
            cold: false,
        }
    }

    /// Computes `prompt` into the conversation's slot and generates nothing.
    pub fn prefill(conversation: ConversationId, prompt: Vec<Token>, purpose: Purpose) -> Self {
        Self { purpose, ..Self::answer(Some(conversation), prompt, 0) }
    }
}

/// For whom a turn computes. The earlier ones are served first, and the later ones stop for them
/// within one micro-batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Purpose {
    /// Somebody waits for an answer.
    #[default]
    Answer,
    /// Somebody speaks and may ask in a moment: the prompt is made hot in the conversation's own
    /// slot. It is no use of the conversation: nothing is recorded of it, and what is kept stays as
    /// it is. A newer turn of the conversation takes its place, and goes on from what it computed.
    Speculate,
    /// A beginning that conversations share is made hot in a slot of its own, and kept.
    Prewarm,
    /// The same, for one that should be hot already.
    KeepAlive,
}

impl Purpose {
    /// Whether the prompt is all that is wanted: nothing is generated, and nobody waits.
    pub fn is_background(self) -> bool {
        self != Self::Answer
    }

    /// Whether it has one of the slots for prefixes.
    pub fn is_prefix(self) -> bool {
        self >= Self::Prewarm
    }
}

/// How a conversation's KV is kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Retention {
    /// For how long; `None`: as before, [`TtlClass::Long`] at first.
    pub class: Option<TtlClass>,
    /// Which part of the prompt each run of its tokens belongs to; ends grow, the last one is within
    /// the prompt. What follows them is the answer.
    pub segments: Vec<SegmentRef>,
}

/// Why a turn ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FinishReason {
    /// The model ended its answer, or a stop text was met.
    Stop,
    /// `max_tokens` were generated, or the context is full.
    Length,
}

/// Where the tokens of a prompt came from. The four add up to the prompt's length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TokenCounts {
    /// Were in cells of the cache: this conversation's own, or another's with the same beginning.
    pub shared: usize,
    /// Were imported from host memory.
    pub memory: usize,
    /// Were read from disk, verified, and imported.
    pub disk: usize,
    /// Were computed.
    pub computed: usize,
}

impl TokenCounts {
    /// Prompt tokens that were not computed: OpenAI's `cached_tokens`.
    pub fn cached(&self) -> usize {
        self.shared + self.memory + self.disk
    }

    /// All prompt tokens.
    pub fn prompt(&self) -> usize {
        self.cached() + self.computed
    }
}

/// Tokens that were made hot ahead of a turn, and how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AheadCounts {
    /// Were imported from host memory.
    pub memory: usize,
    /// Were read from disk, verified, and imported.
    pub disk: usize,
    /// Were computed.
    pub computed: usize,
}

/// What happened to a prompt, known when its first token is sampled.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TurnReport {
    /// The sequence that served the turn.
    pub slot: Option<SlotId>,
    /// Where the prompt's tokens came from.
    pub tokens: TokenCounts,
    /// Of those that were in cells of the cache: what came there since the conversation's last
    /// answer, because somebody was about to ask.
    pub ahead: AheadCounts,
    /// Milliseconds from the turn's start to its KV being in place (0.0 when it already was).
    pub restore_ms: f64,
    /// Milliseconds from `submit` to the first token.
    pub ttft_ms: f64,
    /// It was to reuse nothing, and did not.
    pub cold: bool,
    /// Measured speed of prefill, once there is one: what the reused tokens would have cost.
    pub prefill_tokens_per_second: Option<f64>,
    /// Why tokens that this conversation once had were computed again; `None` when none were.
    pub miss: Option<MissReason>,
}

/// A likely token and its natural-log probability.
#[derive(Clone, Debug, PartialEq)]
pub struct TokenLogprob {
    /// The token.
    pub token: Token,
    /// Its piece, which need not be valid UTF-8 by itself.
    pub bytes: Vec<u8>,
    /// ln p under the model's own distribution, before temperature and filters.
    pub logprob: f32,
}

/// The chosen token's log-probability and the likeliest alternatives, most likely first.
#[derive(Clone, Debug, PartialEq)]
pub struct Logprobs {
    /// The token that was sampled.
    pub chosen: TokenLogprob,
    /// The `n` likeliest tokens.
    pub top: Vec<TokenLogprob>,
}

/// What the engine tells about a turn.
#[derive(Clone, Debug)]
pub enum TurnEvent {
    /// The prompt is computed and the first token is known: sent once, before any `Token`.
    Started(TurnReport),
    /// A token of the answer.
    Token {
        /// The token.
        token: Token,
        /// Text that is now certain: whole UTF-8, past every possible stop text. Often empty.
        text: String,
        /// Present when the request asked for it.
        logprobs: Option<Logprobs>,
    },
    /// The answer is complete.
    Finished {
        /// Why it ended.
        reason: FinishReason,
        /// Text that was held back and turned out to belong to the answer.
        text: String,
        /// Tokens generated, the end-of-generation token included.
        completion_tokens: usize,
        /// The whole timeline now: prompt and answer, as tokens (end-of-generation included).
        timeline: Vec<Token>,
    },
    /// The turn could not be served; no other turn is touched.
    Failed(TurnError),
}

/// Why a turn was refused or broke off.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum TurnError {
    /// The prompt alone does not fit the context.
    #[error(
        "the prompt has {prompt_tokens} tokens, a conversation holds {context_tokens} at most: shorten it, or start with a larger --ctx (up to the context that the model was trained with)"
    )]
    TooLong {
        /// Tokens asked for.
        prompt_tokens: usize,
        /// Tokens that fit.
        context_tokens: usize,
    },
    /// Nothing to continue.
    #[error("the prompt is empty")]
    EmptyPrompt,
    /// A token that the vocabulary does not have.
    #[error("token {token} is not in this model's vocabulary of {vocabulary} tokens")]
    UnknownToken {
        /// The offending id.
        token: i32,
        /// The vocabulary's size.
        vocabulary: usize,
    },
    /// More turns are waiting than the queue holds.
    #[error("{waiting} turns are waiting, the queue is full: try again shortly")]
    Busy {
        /// Turns in the queue.
        waiting: usize,
    },
    /// The grammar and the vocabulary left no token to choose.
    #[error("no token satisfies the requested format: {0}")]
    Grammar(String),
    /// The model answers no prompts.
    #[error("this is an embedding model: it answers /v1/embeddings only")]
    NotGenerative,
    /// The model makes no embeddings.
    #[error("this model makes no embeddings: start with an embedding model")]
    NotEmbedding,
    /// llama.cpp reported an error for this turn's batch.
    #[error("the model failed to compute a batch: {0}")]
    Backend(String),
    /// The model's weights are not in memory, and nobody waits for this.
    #[error("the model is not in memory, and nothing is made hot until somebody speaks")]
    NotResident,
    /// Another turn needs what this one has, and is served first.
    #[error("a newer turn took its place")]
    Superseded,
    /// The conversation was deleted while it spoke.
    #[error("the conversation was deleted")]
    Forgotten,
    /// The engine has shut down.
    #[error("the engine has stopped")]
    Stopped,
}

/// A turn under way. Dropping it cancels it.
#[derive(Debug)]
pub struct Turn {
    events: mpsc::UnboundedReceiver<TurnEvent>,
    /// The last event was told.
    over: bool,
}

impl Turn {
    pub(crate) fn channel() -> (mpsc::UnboundedSender<TurnEvent>, Self) {
        let (send, events) = mpsc::unbounded_channel();
        (send, Self { events, over: false })
    }

    /// The next event; `None` after the last one.
    pub async fn next(&mut self) -> Option<TurnEvent> {
        let event = self.events.recv().await;
        self.tell(event)
    }

    /// The next event, for callers without a runtime; `None` after the last one.
    pub fn next_blocking(&mut self) -> Option<TurnEvent> {
        let event = self.events.blocking_recv();
        self.tell(event)
    }

    /// An engine that goes away without a word has stopped.
    fn tell(&mut self, event: Option<TurnEvent>) -> Option<TurnEvent> {
        let stopped = || (!self.over).then_some(TurnEvent::Failed(TurnError::Stopped));
        let event = event.or_else(stopped);
        self.over |= matches!(event, Some(TurnEvent::Finished { .. } | TurnEvent::Failed(_)));
        event
    }
}
