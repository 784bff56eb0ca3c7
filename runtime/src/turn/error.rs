//! Why a turn fails: each message says what to do.

use crate::heartbeat::Death;
use crate::no_eviction::NoEviction;

#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum TurnError {
    #[error(
        "the prompt has {prompt_tokens} tokens, a conversation holds {context_tokens} at most: shorten it, or {}",
        longer(*.no_eviction)
    )]
    TooLong {
        prompt_tokens: usize,
        context_tokens: usize,
        /// Why the conversation ends when its cells are full, where the model was trained with more tokens.
        no_eviction: Option<NoEviction>,
    },
    /// The text names each part that needs cells, and their number.
    #[error("{0}: raise `hob.budget`, or leave it out")]
    BudgetTooSmall(String),
    /// Instructions and pinned parts do not fit the cache, so that no budget helps.
    #[error(
        "{why}: start with a larger --ctx, or shorten what must stay (instructions, pinned messages)"
    )]
    CacheTooSmall { prompt_tokens: usize, cells: usize, why: String },
    #[error(
        "the disk has written nothing for {secs} s of the KV that must leave the conversation's cells: free space on it, or \
         see the log for the writes that failed"
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
    #[error("the engine has stopped, because hobd ends or restarts: try again in a moment")]
    Stopped,
    #[error("{0}; the text of the conversation is saved: try again in a moment")]
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
