//! A reading of the engine, as plain numbers for `hob status` and the metrics.

use std::sync::Arc;

use hob_slots::{ConversationId, Lossy, MemoryFigures, SlotId};
use parking_lot::Mutex;

use crate::adapters::Adapters;

#[derive(Clone, Debug, Default)]
pub struct EngineStatus {
    /// The slots for conversations, in order.
    pub slots: Vec<SlotStatus>,
    /// The slots for prefixes, in order.
    pub prefixes: Vec<SlotStatus>,
    /// Conversations without hot cells whose record this process has seen.
    pub parked: Vec<SavedStatus>,
    /// Turns in the queue.
    pub waiting: usize,
    pub residency: Residency,
    /// Cells of the cache.
    pub context_tokens: usize,
    /// Cells in use. Shared cells count once.
    pub used_tokens: usize,
    /// Host memory that holds KV.
    pub memory_bytes: u64,
    pub memory_budget_bytes: u64,
    /// The part of `memory_bytes` that waits for the disk.
    pub unsaved_bytes: u64,
    /// Above this, the engine exports nothing, and KV stays in its cells.
    pub unsaved_budget_bytes: u64,
    /// What the memory tier and its eviction policy did since the start.
    pub memory: MemoryFigures,
    /// Measured speed of prefill.
    pub prefill_tokens_per_second: Option<f64>,
    /// Sums since the start.
    pub counters: EngineCounters,
    /// Counters of the draft model, if there is one.
    pub draft_model: Option<DraftModelCounters>,
    /// Why the draft model has no context and guesses nothing.
    pub draft_failure: Option<String>,
    /// The MTP heads of the model's file; `None` where it has none, or they are not wanted.
    pub mtp: Option<MtpStatus>,
    /// How the KV of aged conversations is rounded; `None`: it is not.
    pub lossy: Option<LossyStatus>,
}

/// The MTP heads of a model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MtpStatus {
    /// Why they guess nothing.
    pub refused: Option<String>,
    pub counters: MtpCounters,
}

/// The lossy tier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LossyStatus {
    pub tier: Lossy,
    /// Why nothing is rounded.
    pub refused: Option<String>,
}

/// The status while the engine's thread cannot answer: it loads the weights, or computes a long
/// micro-batch.
pub(crate) type BusyStatus = Arc<Mutex<Option<EngineStatus>>>;

/// Where the model's weights are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Residency {
    #[default]
    Resident,
    Loading {
        percent: u8,
    },
    /// Only on disk. All KV has left the cells then.
    Unloaded,
}

impl Residency {
    pub fn loaded_percent(self) -> Option<u8> {
        match self {
            Self::Loading { percent } => Some(percent),
            Self::Resident | Self::Unloaded => None,
        }
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Resident => "resident",
            Self::Loading { .. } => "loading",
            Self::Unloaded => "unloaded",
        }
    }
}

#[derive(Clone, Debug)]
pub struct SlotStatus {
    pub slot: SlotId,
    /// `None` for an anonymous turn, and for a free slot, whose cells other slots may still share.
    pub conversation: Option<ConversationId>,
    /// The adapters that compute its cells, besides those of the model.
    pub adapters: Adapters,
    /// Tokens of the slot's timeline.
    pub tokens: usize,
    /// The part of `tokens` without cells.
    pub away_tokens: usize,
    pub state: SlotState,
}

/// The place of KV that is not hot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tier {
    /// In host memory, and perhaps on disk.
    Memory,
    /// Only on disk.
    Disk,
    /// The KV must be computed again.
    Nowhere,
}

impl Tier {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Disk => "disk",
            Self::Nowhere => "nowhere",
        }
    }

    /// The tier by its name in lists and on the page: `warm`, `cold` or `none`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Memory => "warm",
            Self::Disk => "cold",
            Self::Nowhere => "none",
        }
    }
}

/// The saved KV of a conversation, by tier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedStatus {
    pub conversation: ConversationId,
    /// The length of its timeline. Those in neither tier are computed again.
    pub tokens: usize,
    /// Tokens whose KV is in host memory, and perhaps on disk too.
    pub memory_tokens: usize,
    /// Tokens whose KV is only on disk.
    pub disk_tokens: usize,
}

impl SavedStatus {
    /// The slowest tier that a restore of all that is saved reads.
    pub fn tier(&self) -> Tier {
        match (self.memory_tokens, self.disk_tokens) {
            (_, 1..) => Tier::Disk,
            (1.., 0) => Tier::Memory,
            (0, 0) => Tier::Nowhere,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotState {
    /// No conversation with a name is pinned.
    Free,
    /// Pinned, between turns.
    Idle,
    /// Fetching KV from memory or disk.
    Restoring,
    Prefill,
    Decoding,
}

impl SlotState {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Free => "free",
            Self::Idle => "idle",
            Self::Restoring => "restoring",
            Self::Prefill => "prefill",
            Self::Decoding => "decoding",
        }
    }
}

/// Sums since the engine's start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EngineCounters {
    /// Finished turns.
    pub turns: u64,
    /// Background turns that were finished.
    pub prewarmed: u64,
    /// Background turns that yielded to another turn.
    pub superseded: u64,
    /// Turns whose caller dropped them.
    pub cancelled: u64,
    pub failed: u64,
    pub generated_tokens: u64,
    /// Blocks that left the cells of their live conversation.
    pub blocks_out: u64,
    /// Blocks that came back to the cells of their live conversation.
    pub blocks_back: u64,
    /// Tokens of prompts whose KV was moved from another place.
    pub moved_tokens: u64,
    /// Tokens that were computed at the seams of those.
    pub repaired_tokens: u64,
    /// Tokens of prompts that were restored from rounded KV.
    pub lossy_tokens: u64,
    /// Blocks of conversations with blocks away whose words were read before a question asked for them.
    pub indexed_ahead: u64,
    /// Such blocks whose words were read while a question waited.
    pub indexed_late: u64,
    /// Blocks that have got a vector of an embedding model.
    pub embedded: u64,
    /// Tokens of answers that were guessed and computed ahead of their turn.
    pub drafted_tokens: u64,
    /// The part of `drafted_tokens` that was right.
    pub accepted_tokens: u64,
    /// Tokens of prompts.
    pub computed_tokens: u64,
    /// The time for which micro-batches had computed that were cut, unless their own caller had cancelled them:
    /// their rows are computed again.
    pub cut_micros: u64,
    /// Conversations that were parked for others.
    pub parked: u64,
    /// Turns that gave up their cells to others and continued later.
    pub preempted: u64,
    /// Saved states that llama.cpp refused.
    pub import_failures: u64,
    /// Restores that were followed by a full prefill: always 0, or there is a bug.
    pub wasted_restores: u64,
    /// KV written to disk.
    pub written_bytes: u64,
    /// KV read from disk and verified.
    pub read_bytes: u64,
    /// The part of `read_bytes` that was read ahead: blocks next to those that a conversation has turned to.
    pub read_ahead_bytes: u64,
    pub write_errors: u64,
    /// Files that exist and are not usable.
    pub rejected_files: u64,
    /// Blocks and snapshots that were on disk and could not be read. Their tokens are computed again.
    pub lost_blocks: u64,
    /// The longest time for which the writer or maintenance held locks that the engine's thread
    /// takes.
    pub longest_lock_micros: u64,
    /// Jobs of the writer and the readers that panicked. Their threads went on.
    pub tier_panics: u64,
    /// Tokens whose KV was dropped unsaved, because the disk was too slow.
    pub dropped_tokens: u64,
    /// Time that the engine's thread spent on exports and records.
    pub keeping_micros: u64,
    /// Tokens whose cells were moved into those that others had left.
    pub gathered_tokens: u64,
    /// Choices of the blocks that leave a live conversation.
    pub decisions: u64,
    /// Time of these choices, with the description of all blocks for the policy.
    pub deciding_micros: u64,
}

/// Tokens of a draft model since the engine's start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DraftModelCounters {
    /// Tokens that it guessed and the model computed.
    pub drafted_tokens: u64,
    /// The part of `drafted_tokens` that was right.
    pub accepted_tokens: u64,
    /// Tokens of prompts and answers that the draft model computed to follow the conversation. Its guesses do not
    /// count.
    pub computed_tokens: u64,
    /// Tokens of prompts and answers whose KV it restored from memory or disk instead.
    pub restored_tokens: u64,
}

/// Tokens of MTP heads since the engine's start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MtpCounters {
    /// Tokens that they guessed and the model computed.
    pub drafted_tokens: u64,
    /// The part of `drafted_tokens` that was right.
    pub accepted_tokens: u64,
    /// Tokens of prompts and answers that the heads computed to follow the conversation. Their guesses do not count.
    pub computed_tokens: u64,
}
