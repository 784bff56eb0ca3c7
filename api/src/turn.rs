//! A streamed chat as its client reads it, and `hob`: what the daemon adds to OpenAI's answer.

use hob_slots::ConversationId;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Text;

/// `chat.completion.chunk`
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Chunk {
    pub choices: Vec<Choice>,
    /// In the last chunk.
    pub usage: Value,
    /// In the first chunk of a conversation its name; in the last chunk a [`Turn`]; before the
    /// answer, for a request with `hob.progress`, `progress`: a [`Progress`].
    pub hob: Value,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Choice {
    pub delta: Delta,
    pub finish_reason: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Delta {
    pub reasoning_content: Option<String>,
    pub content: Option<String>,
}

/// `hob`: where the prompt's tokens came from, and how long the first token took.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Turn {
    pub conversation: Option<ConversationId>,
    /// The hint of a request without a conversation.
    pub cache_key: Option<String>,
    /// The stored answer.
    pub message: Option<i64>,
    /// The stored message that it answers.
    pub parent: Option<i64>,
    pub slot: Option<u32>,
    /// The URL of the engine that answered; `None`: the one in this process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upstream: Option<String>,
    /// Older messages of the conversation that the prompt leaves out.
    pub left_out: usize,
    /// Older messages that the question asks for, and that the prompt therefore has in front of it.
    pub recalled: usize,
    /// With this answer the conversation went on as a new timeline.
    pub reanchored: Option<Reanchored>,
    /// The answer ended because the context was full.
    pub context_full: bool,
    /// The request forbade reuse.
    pub cold: bool,
    pub tokens: Option<PromptTokens>,
    /// Why no KV was moved for a request that allows it: the model does not.
    pub immovable: Option<String>,
    /// Cells during the turn; `None` before its end.
    pub cells: Option<Cells>,
    /// Parts of the conversation that left its cells, or came back, in this order.
    pub moved: Vec<MovedPart>,
    pub ahead: Option<AheadTokens>,
    pub drafts: Option<DraftTokens>,
    pub restore_ms: Option<f64>,
    pub ttft_ms: Option<f64>,
    /// From the request's arrival in the engine to the last token.
    pub total_ms: Option<f64>,
    /// Speed of the answer from its first token on; `None` for an answer of one token.
    pub tokens_per_second: Option<f64>,
    /// What computing the reused tokens would have taken.
    pub saved_ms: Option<f64>,
    pub miss: Option<String>,
    pub explanation: Option<Explanation>,
}

/// `hob.progress`: how far the prompt is, before the answer begins.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Progress {
    /// `waiting`, `loading`, `restoring` or `reading`.
    pub phase: Text,
    /// How much of the model is loaded, while it loads.
    pub loaded_percent: Option<u8>,
    /// Length of the prompt.
    pub tokens_total: usize,
    /// Tokens in place so far: the sum of the fields below.
    pub tokens_ready: usize,
    pub tokens_shared: usize,
    pub tokens_from_memory: usize,
    pub tokens_from_disk: usize,
    /// Tokens without cells: this answer does not see them.
    pub tokens_away: usize,
    /// Tokens whose KV was computed at another place, and moved.
    pub tokens_moved: usize,
    pub tokens_computed: usize,
    /// `None` while the speed is unknown, and while a restore may still bring tokens.
    pub seconds_left: Option<f64>,
}

/// A new timeline of a conversation that has outgrown the context.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Reanchored {
    /// Messages that it begins with, without instructions and recalled ones.
    pub kept: usize,
    /// Messages that it leaves out.
    pub left: usize,
    /// Tokens whose KV was moved to it, and those that were computed at their seams.
    pub moved: usize,
    pub repaired: usize,
}

/// Tokens of the prompt, by where their KV came from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PromptTokens {
    /// In cells already.
    pub shared: usize,
    pub memory: usize,
    pub disk: usize,
    /// Computed before, and without cells now: this answer does not see them.
    pub away: usize,
    /// Computed at another place, and moved.
    pub moved: usize,
    pub computed: usize,
    /// The part of `computed` at the seams of moved text.
    pub repaired: usize,
    /// The part that was not computed whose KV was rounded while it was saved.
    pub lossy: usize,
}

/// Cells of a conversation during a turn.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Cells {
    /// The maximum that it may have.
    pub budget: usize,
    /// The maximum that it had.
    pub peak: usize,
    /// Those that it had when the turn ended.
    pub resident: usize,
    /// Parts without cells when the turn ended, in the order of the prompt.
    pub away: Vec<AwayPart>,
    /// Why no part could leave the cells, where that mattered: the requested budget did not count, or the answer
    /// ended when the cells were full.
    pub no_eviction: Option<NoEviction>,
}

/// Why a conversation stays in its cells, and ends when they are full.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NoEviction {
    /// `off`, `sliding_window`, `hybrid`, `recurrent`, `protected` or `memory`.
    pub reason: Text,
    pub what: Text,
    pub remedy: Text,
}

/// Tokens of one part of a conversation that have no cells.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct AwayPart {
    /// Name of the segment; `None`: the answer.
    pub key: Option<String>,
    /// Messages of the prompt behind its message, or behind the one that it is a document of.
    pub messages_behind: Option<usize>,
    pub tokens: usize,
}

/// Adjacent tokens of a conversation that left its cells, or came back to them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MovedPart {
    /// Name of the segment that has the first of them; `None`: the answer.
    pub key: Option<String>,
    pub tokens: usize,
    /// `out` or `back`.
    pub way: Text,
    /// `budget` of those that left; of those that came back `room`, `stays`, `mention`, `words`,
    /// `meaning` or `group`.
    pub why: Text,
}

/// The part of the shared tokens that speculative prefill brought into cells before the request, by origin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct AheadTokens {
    pub memory: usize,
    pub disk: usize,
    pub computed: usize,
}

/// Tokens of the answer that were guessed and computed ahead of their turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DraftTokens {
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

impl Turn {
    /// The tokens by where they came from, those of speculative prefill by where it took them from.
    /// `shared` are then the tokens that never left the cells.
    pub fn origins(&self) -> PromptTokens {
        let (tokens, ahead) = (self.tokens.unwrap_or_default(), self.ahead.unwrap_or_default());
        let all_ahead = ahead.memory + ahead.disk + ahead.computed;
        PromptTokens {
            shared: tokens.shared.saturating_sub(all_ahead),
            memory: tokens.memory + ahead.memory,
            disk: tokens.disk + ahead.disk,
            away: tokens.away,
            moved: tokens.moved,
            computed: tokens.computed + ahead.computed,
            repaired: tokens.repaired,
            lossy: tokens.lossy,
        }
    }
}

/// Why a request computed tokens that an earlier one had computed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Explanation {
    pub reason: String,
    pub what: String,
    pub remedy: String,
    /// The first token that could not be reused.
    pub at: Option<usize>,
    pub segment: Option<Segment>,
    /// The text in front of the first difference.
    pub before: Option<String>,
    /// What followed in the stored prompt.
    pub kept_text: Option<String>,
    /// What follows in this prompt.
    pub new_text: Option<String>,
}

/// A part of the prompt: its layer, and its name there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Segment {
    pub layer: String,
    pub key: String,
}
