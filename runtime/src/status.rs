//! What the engine holds and does, as plain numbers for `hob status` and the metrics.

use hob_slots::{ConversationId, SlotId};

/// A reading of the engine.
#[derive(Clone, Debug, Default)]
pub struct EngineStatus {
    /// Every slot of a conversation, in order.
    pub slots: Vec<SlotStatus>,
    /// Every slot of a prefix, in order.
    pub prefixes: Vec<SlotStatus>,
    /// Conversations that are not in a slot and whose KV this process has kept, with their tokens.
    pub parked: Vec<(ConversationId, usize)>,
    /// Turns that wait for a slot.
    pub waiting: usize,
    /// Where the model's weights are.
    pub residency: Residency,
    /// Cells of the cache.
    pub context_tokens: usize,
    /// And how many of them hold something. What several slots begin with alike is counted once
    /// where they can share it.
    pub used_tokens: usize,
    /// Host memory used for kept KV.
    pub memory_bytes: u64,
    /// And the most that there may be.
    pub memory_budget_bytes: u64,
    /// Measured speed of prefill.
    pub prefill_tokens_per_second: Option<f64>,
    /// Sums since the start.
    pub counters: EngineCounters,
}

/// Where the model's weights are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Residency {
    /// In memory.
    #[default]
    Resident,
    /// On their way there.
    Loading {
        /// How far, in hundredths.
        percent: u8,
    },
    /// On disk alone. What is kept of conversations is there too.
    Unloaded,
}

impl Residency {
    /// How far weights are that are on their way.
    pub fn loaded_percent(self) -> Option<u8> {
        match self {
            Self::Loading { percent } => Some(percent),
            Self::Resident | Self::Unloaded => None,
        }
    }

    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Resident => "resident",
            Self::Loading { .. } => "loading",
            Self::Unloaded => "unloaded",
        }
    }
}

/// What is in a slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotStatus {
    /// Which one.
    pub slot: SlotId,
    /// Whose KV it is; `None` for a turn without a conversation, and for a free slot, whose cells
    /// others may still share.
    pub conversation: Option<ConversationId>,
    /// Tokens in its cells.
    pub tokens: usize,
    /// What it is doing.
    pub state: SlotState,
}

/// What a slot is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotState {
    /// Nobody is pinned here.
    Free,
    /// Pinned, between turns.
    Idle,
    /// Waiting for memory or disk.
    Restoring,
    /// Computing a prompt.
    Prefill,
    /// Generating.
    Decoding,
}

impl SlotState {
    /// The word for it.
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
    /// Turns that were finished.
    pub turns: u64,
    /// Prompts that were made hot before anybody asked.
    pub prewarmed: u64,
    /// Such prompts that were given up for a turn that came first.
    pub superseded: u64,
    /// Turns whose caller went away.
    pub cancelled: u64,
    /// Turns that failed.
    pub failed: u64,
    /// Tokens generated.
    pub generated_tokens: u64,
    /// Prompt tokens computed.
    pub computed_tokens: u64,
    /// Conversations that gave way to others.
    pub parked: u64,
    /// Turns that were put aside for lack of cells and went on later.
    pub preempted: u64,
    /// States that were found and then refused by llama.cpp.
    pub import_failures: u64,
    /// Restores that were followed by a full prefill: always 0, or there is a bug.
    pub wasted_restores: u64,
    /// Bytes written to disk.
    pub written_bytes: u64,
    /// Bytes of KV read from disk and verified.
    pub read_bytes: u64,
    /// Writes that failed.
    pub write_errors: u64,
    /// Kept files that were not usable.
    pub rejected_files: u64,
    /// Microseconds that the engine's thread spent on keeping: exports and records.
    pub keeping_micros: u64,
}
