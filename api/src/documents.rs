//! `/v1/documents`

use serde::{Deserialize, Serialize};

use crate::Text;

/// A document, what it costs and what of it is ready. Times are seconds since 1970.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct Document {
    /// SHA-256 of its text, in hex.
    pub id: String,
    pub object: String,
    pub name: String,
    /// `text` or `pdf`.
    pub kind: String,
    /// Length of its text.
    pub bytes: u64,
    /// Tokens with which a prompt about it begins, the instructions included; 0 where an engine at another address
    /// counts them.
    pub tokens: usize,
    /// The part of `tokens` that needs no computing: `memory_tokens` and `disk_tokens` together.
    pub ready_tokens: usize,
    pub memory_tokens: usize,
    pub disk_tokens: usize,
    /// To compute all of it, at the speed measured last; null before the first measurement.
    pub read_seconds: Option<f64>,
    /// To compute what is not ready.
    pub seconds_left: Option<f64>,
    /// The TTL class of its own saved KV; null without any.
    pub ttl: Option<Text>,
    /// When that is deleted without another use; null while there is room.
    pub expires_at: Option<u64>,
    /// Size of the KV of the ready tokens; null where the model's KV has no size per token.
    pub kv_bytes: Option<u64>,
    /// Maximum tokens of a conversation.
    pub context_tokens: usize,
    /// It stays until it is removed.
    pub in_library: bool,
    /// Conversations that name it.
    pub conversations: u64,
    pub created_at: i64,
    /// The last message of a conversation about it, or its creation.
    pub used_at: i64,
}
