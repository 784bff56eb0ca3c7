//! A caller's request to the engine and the events that answer it. No threads, no llama.cpp.
//!
//! - A [`TurnRequest`] carries tokens, never text: templates and tokenizers run before the engine.
//! - Events arrive in order: any number of `Progress`, one `Started`, any number of `Token`, one
//!   `Finished` or `Failed`; `Moved` at any place between.
//! - Dropping the [`Turn`] cancels it; the engine notices before its next micro-batch, and cuts a
//!   long one.

use std::ops::{AddAssign, Range};
use std::sync::Arc;
use std::time::Duration;

use hob_slots::content::Repair;
use hob_slots::format::SegmentRef;
use hob_slots::{ConversationId, SlotId, Token, TtlClass};
use tokio::sync::{mpsc, watch};

use crate::adapters::Adapters;
use crate::backend::Immovable;
use crate::grammar::Grammar;
use crate::heartbeat::{Death, Heartbeat, died};
use crate::miss::MissReason;
use crate::no_eviction::NoEviction;
use crate::sample::Sampling;

/// One request to continue `prompt`.
#[derive(Clone, Debug)]
pub struct TurnRequest {
    /// Owns the KV. `None`: nothing is pinned, parked or saved; cells may still be shared. Turns of
    /// a conversation run one after the other, turns of a hint side by side.
    pub conversation: Option<ConversationId>,
    /// The whole prompt, at least one token, from position 0.
    pub prompt: Vec<Token>,
    /// Added to those of the model for this turn. KV that other adapters computed is not reused.
    pub adapters: Adapters,
    pub sampling: Sampling,
    /// 0 computes the prompt and stops.
    pub max_tokens: usize,
    /// Whether KV may be used that was computed at another place.
    pub reuse: Reuse,
    /// Uses no rounded KV, whatever the engine's options say.
    pub lossless: bool,
    /// The prompt is a new timeline of its conversation: what that computed elsewhere may be moved, whatever
    /// `reuse` says, also what is impure. KV of others is used as `reuse` says.
    pub reanchored: bool,
    /// The conversation whose private and impure KV the turn moves as that of its own; `None`: `conversation`. So a
    /// comparison reads what the answer has read that it repeats. Only with `keep.in_memory`: such KV is never saved
    /// for another conversation.
    pub sources_of: Option<ConversationId>,
    /// Cells that the conversation may have at any time; `None`: those of the cache. Blocks leave a longer
    /// conversation's cells, and come back when it turns to them.
    pub budget: Option<usize>,
    /// Tokens of the answer may be guessed and computed ahead, where the engine's options allow it.
    pub drafts: bool,
    /// Stop texts; the answer does not contain the one that ended it.
    pub stop: Vec<String>,
    pub grammar: Option<Arc<Grammar>>,
    /// `Some(n)`: report each token's log-probability and those of the `n` likeliest.
    pub logprobs: Option<usize>,
    /// They are those after penalties, filters and temperature, and not the model's own.
    pub logprobs_of_sampling: bool,
    /// Generate past end-of-generation tokens (benchmarks and tests).
    pub ignore_eog: bool,
    pub keep: Retention,
    pub purpose: Purpose,
    /// Reuses nothing: computes every token of the prompt, to measure what reuse saves. Saved KV
    /// stays, and the new KV is saved under the same names.
    pub cold: bool,
    /// Of a speculation: its prompt is stored text, so that the KV is saved as an answer's is.
    pub is_stored: bool,
    /// Of a speculation: restores what is saved of the prompt, and computes nothing.
    pub restores_only: bool,
    /// Send [`TurnEvent::Progress`] while the prompt is restored and computed.
    pub reports_progress: bool,
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
            adapters: Adapters::default(),
            sampling: Sampling::greedy(),
            max_tokens,
            reuse: Reuse::Exact,
            lossless: false,
            reanchored: false,
            sources_of: None,
            budget: None,
            drafts: true,
            stop: Vec::new(),
            grammar: None,
            logprobs: None,
            logprobs_of_sampling: false,
            ignore_eog: false,
            keep: Retention::default(),
            purpose: Purpose::Answer,
            cold: false,
            is_stored: false,
            restores_only: false,
            reports_progress: false,
        }
    }

    /// Whether its timeline may hold KV that was computed at another place.
    pub fn takes_moved(&self) -> bool {
        self.reanchored || self.reuse != Reuse::Exact
    }

    /// Computes `prompt` into the conversation's slot and generates nothing.
    pub fn prefill(conversation: ConversationId, prompt: Vec<Token>, purpose: Purpose) -> Self {
        Self { purpose, ..Self::answer(Some(conversation), prompt, 0) }
    }
}

/// Which KV of a prompt may be used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reuse {
    /// Only what was computed behind the very tokens that precede it in the prompt.
    #[default]
    Exact,
    /// Behind that, also what was computed behind others, moved to its place. Its seams are repaired so.
    Repaired(Repair),
}

/// Why a prompt is computed, by priority: a later purpose yields to an earlier one within one
/// micro-batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Purpose {
    /// A caller waits for the answer.
    #[default]
    Answer,
    /// Speculative prefill in the conversation's own slot, while the user still types or talks. It
    /// is not recorded, unless its prompt is stored text, and does not count as a use. A newer turn of the conversation supersedes
    /// it, and reuses what it computed.
    Speculate,
    /// Computes a prefix that conversations share, in a prefix slot, and saves it.
    Prewarm,
    /// The same, for a prefix that should be hot already.
    KeepAlive,
}

impl Purpose {
    /// Whether the turn generates nothing and no caller waits for it.
    pub fn is_background(self) -> bool {
        self != Self::Answer
    }

    /// Whether it runs in a prefix slot.
    pub fn is_prefix(self) -> bool {
        self >= Self::Prewarm
    }
}

/// How a conversation's KV is saved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retention {
    /// The class that the caller asks for; `None`: the one asked for before.
    pub class: Option<TtlClass>,
    /// The class of a conversation for which none was ever asked.
    pub default_class: TtlClass,
    /// `Some(true)`: KV that this turn computes never reaches the disk; the cells of a turn without
    /// a conversation are dropped at its end. `None`: as recorded, or false.
    pub in_memory: Option<bool>,
    /// The parts of the prompt, by ascending ends within it. The answer follows the last one.
    pub segments: Vec<SegmentRef>,
}

impl Default for Retention {
    fn default() -> Self {
        Self {
            class: None,
            default_class: TtlClass::Permanent,
            in_memory: None,
            segments: Vec::new(),
        }
    }
}

/// Why a turn ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FinishReason {
    /// An end-of-generation token, a stop text, or the end of the grammar.
    Stop,
    /// `max_tokens` were generated, or the context is full.
    Length,
}

/// Where the tokens of a prompt came from. All but `repaired` and `lossy` add up to the prompt's length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TokenCounts {
    /// Hot already, in this conversation's cells or in cells of another with the same prefix.
    pub shared: usize,
    /// Imported from host memory.
    pub memory: usize,
    /// Read from disk, verified, and imported.
    pub disk: usize,
    /// Computed before, and without cells now: saved, and not seen by this answer.
    pub away: usize,
    /// Computed at another place, and moved: it saw another text before it.
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
    /// It may have so many.
    pub budget: usize,
    /// The most that it had.
    pub peak: usize,
    /// When the turn ended.
    pub resident: usize,
    /// Why nothing could leave, where that mattered: the turn asked for a budget, which did not count, or its
    /// answer ended with the cells.
    pub no_eviction: Option<NoEviction>,
}

/// A block that left a live conversation's cells, or came back to them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moved {
    /// Tokens of the timeline when it moved: those computed before saw it as it was, those after as it is.
    pub at: usize,
    pub range: Range<usize>,
    pub way: Way,
}

/// Which way a block moved, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Its cells were needed for others.
    Out,
    Back(BackReason),
}

/// Why a block came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackReason {
    /// There was room.
    Room,
    /// It always stays: it is pinned, or of axioms, identity or rules.
    Stays,
    /// The new text names it.
    Mention,
    /// The new text has words of it.
    Words,
    /// The new text means the like.
    Meaning,
    /// It belongs to one that came back.
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
    /// Those of them that are part of the answer.
    pub accepted: usize,
    /// Of `drafted`, those that the draft model guessed.
    pub model_drafted: usize,
    /// Of `accepted`, those that the draft model guessed.
    pub model_accepted: usize,
}

impl AddAssign for DraftCounts {
    fn add_assign(&mut self, more: Self) {
        self.drafted += more.drafted;
        self.accepted += more.accepted;
        self.model_drafted += more.model_drafted;
        self.model_accepted += more.model_accepted;
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
    /// Why no KV was moved for a request that takes such: the model does not allow it.
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
    /// Until they were in their cells, with what left for them.
    pub took: Duration,
}

/// How far a prompt is, between its arrival and its first token.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PromptProgress {
    pub phase: PromptPhase,
    /// Of the prompt.
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

/// A likely token and its natural-log probability.
#[derive(Clone, Debug, PartialEq)]
pub struct TokenLogprob {
    pub token: Token,
    /// The token's piece, which need not be valid UTF-8 by itself.
    pub bytes: Vec<u8>,
    /// ln(p) under the model's own distribution, before temperature and filters, unless the request asks for
    /// that of the sampling.
    pub logprob: f32,
}

/// The chosen token's log-probability and the likeliest alternatives, most likely first.
#[derive(Clone, Debug, PartialEq)]
pub struct Logprobs {
    pub chosen: TokenLogprob,
    pub top: Vec<TokenLogprob>,
}

#[derive(Clone, Debug)]
pub enum TurnEvent {
    /// Present when the request asked for it: one at each change of the phase, at most ten a second
    /// beside.
    Progress(PromptProgress),
    /// The prompt is computed and the first token is known: sent once, before any `Token`.
    Started(TurnReport),
    /// A block has moved; any number, at any time before the last event.
    Moved(Moved),
    /// A token of the answer.
    Token {
        token: Token,
        /// Text that no stop text can take back any more, in whole UTF-8. Often empty.
        text: String,
        /// Present when the request asked for it.
        logprobs: Option<Logprobs>,
    },
    /// The answer is complete.
    Finished {
        reason: FinishReason,
        /// The held-back rest of the text.
        text: String,
        /// The stop text that ended it; `None`: another reason.
        stop_text: Option<String>,
        /// Generated tokens, the end-of-generation token included.
        completion_tokens: usize,
        /// From the first token to the last one.
        generation_ms: f64,
        drafts: DraftCounts,
        cells: CellCounts,
        /// Prompt and answer, the end-of-generation token included.
        timeline: Vec<Token>,
    },
    Failed(TurnError),
}

#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum TurnError {
    #[error(
        "the prompt has {prompt_tokens} tokens, a conversation holds {context_tokens} at most: shorten it, or {}",
        longer(*.no_eviction)
    )]
    TooLong {
        prompt_tokens: usize,
        context_tokens: usize,
        /// Why it ends with the cells, where the model was trained with more.
        no_eviction: Option<NoEviction>,
    },
    /// Names what needs how many cells.
    #[error("{0}: raise `hob.budget`, or leave it out")]
    BudgetTooSmall(String),
    /// The same, where no budget helps.
    #[error(
        "{why}: start with a larger --ctx, or shorten what must stay (instructions, pinned messages)"
    )]
    CacheTooSmall { prompt_tokens: usize, cells: usize, why: String },
    #[error(
        "the disk has taken nothing for {secs} s of what must leave the conversation's cells: free space on it, or see \
         the log for what it refused"
    )]
    DiskTooSlow { secs: u64 },
    #[error("the prompt is empty")]
    EmptyPrompt,
    #[error("token {token} is not in this model's vocabulary of {vocabulary} tokens")]
    UnknownToken { token: i32, vocabulary: usize },
    #[error("{waiting} turns are waiting, the queue is full: try again shortly")]
    Busy { waiting: usize },
    #[error("the answer cannot have the requested form: {0}")]
    Grammar(String),
    #[error("this is an embedding model: it answers /v1/embeddings only")]
    NotGenerative,
    #[error("this model makes no embeddings: start with an embedding model")]
    NotEmbedding,
    #[error("this model ranks texts and makes no embeddings: it answers /v1/rerank only")]
    Ranks,
    #[error("this model ranks no texts: start with a reranker, a model whose pooling is `rank`")]
    NotRanking,
    /// Names the file and the remedy.
    #[error("{0}")]
    Adapter(String),
    #[error("the model failed to compute a batch: {0}")]
    Backend(String),
    #[error(
        "the model computed logits that are not numbers (NaN): its file may be damaged; download it again, or choose another quantization"
    )]
    NotANumber,
    /// A prewarm does not load the weights.
    #[error("the model is unloaded; prewarming resumes with the next request")]
    NotResident,
    /// A background turn has yielded its slot or its cells.
    #[error("a newer turn took its place")]
    Superseded,
    #[error("the conversation was deleted")]
    Forgotten,
    #[error("saved KV of the conversation could not be removed: {0}; delete it again")]
    NotForgotten(String),
    #[error("the engine has stopped")]
    Stopped,
    #[error("{0}; what was said is saved: try again in a moment")]
    Dead(Death),
}

/// How a conversation can be longer.
fn longer(no_eviction: Option<NoEviction>) -> String {
    no_eviction.map_or_else(
        || {
            "start with a larger --ctx (up to the context that the model was trained with)"
                .to_owned()
        },
        |why| format!("{} (it stays in its cells: {why})", why.remedy()),
    )
}

/// A turn under way. Dropping it cancels it.
#[derive(Debug)]
pub struct Turn {
    events: mpsc::UnboundedReceiver<TurnEvent>,
    death: watch::Receiver<Option<Death>>,
    heartbeat: Arc<Heartbeat>,
    /// The last event was received.
    over: bool,
}

impl Turn {
    /// `heartbeat`: of the engine that runs the turn.
    pub(crate) fn channel(heartbeat: Arc<Heartbeat>) -> (EventSender, Self) {
        let (send, events) = mpsc::unbounded_channel();
        let death = heartbeat.death();
        (EventSender(send), Self { events, death, heartbeat, over: false })
    }

    /// The next event; `None` after the last one.
    pub async fn next(&mut self) -> Option<TurnEvent> {
        if self.over {
            return None;
        }
        let event = tokio::select! {
            biased; // What came before the death is delivered.
            event = self.events.recv() => event,
            death = died(&mut self.death) => Some(TurnEvent::Failed(TurnError::Dead(death))),
        };
        self.or_stopped(event)
    }

    /// The next event, for callers without a runtime; `None` after the last one.
    pub fn next_blocking(&mut self) -> Option<TurnEvent> {
        let event = self.events.blocking_recv();
        self.or_stopped(event)
    }

    /// A channel that ends without a last event means that the engine has stopped or died.
    fn or_stopped(&mut self, event: Option<TurnEvent>) -> Option<TurnEvent> {
        let stopped = || {
            let death = self.death.borrow().clone();
            let error = death.map_or(TurnError::Stopped, TurnError::Dead);
            (!self.over).then_some(TurnEvent::Failed(error))
        };
        let event = event.or_else(stopped);
        self.over |= matches!(event, Some(TurnEvent::Finished { .. } | TurnEvent::Failed(_)));
        event
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if !self.over {
            self.events.close(); // The engine sees it as soon as it is called.
            self.heartbeat.attention.call();
        }
    }
}

/// Sends a turn's events. A caller that has dropped its [`Turn`] is ignored here: the worker ends
/// the turn before its next micro-batch.
#[derive(Clone)]
pub(crate) struct EventSender(mpsc::UnboundedSender<TurnEvent>);

impl EventSender {
    pub fn send(&self, event: TurnEvent) {
        self.0.send(event).ok();
    }

    pub fn fail(&self, error: TurnError) {
        self.send(TurnEvent::Failed(error));
    }

    /// Whether the caller has dropped its [`Turn`].
    pub fn is_closed(&self) -> bool {
        self.0.is_closed()
    }
}
