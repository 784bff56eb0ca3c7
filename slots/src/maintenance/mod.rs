//! Lists and changes of a directory of saved KV.
//!
//! - The same types serve a command line that owns the directory and the HTTP API of a daemon that
//!   owns it.
//! - Times are seconds since 1970.

mod plan;
mod report;
mod request;
#[cfg(test)]
mod tests;

pub use plan::{Context, MaintenanceError, Plan, apply, plan, run};
pub use report::{
    ClassChange, Collected, CollectedOf, Pruned, Reclassed, Removed, Report, Skipped,
};
pub use request::{Collect, Prune, Remove, Request, SetClass};

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::ageing::AdjustedTime;
use crate::id::{ConversationId, ModelHash};
use crate::ttl::{Lifetimes, TtlClass};
use crate::usage::SavedUsage;

/// A saved conversation, as lists show it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedConversation {
    pub conversation: String,
    /// The model that computed its KV.
    pub fingerprint: ModelHash,
    pub class: TtlClass,
    /// The length of its timeline.
    pub tokens: u32,
    /// 0 when turns were not counted.
    pub turns: u32,
    pub blocks: u32,
    pub snapshots: u32,
    /// Bytes of its raw objects, shared ones included.
    pub object_bytes: u64,
    pub file_bytes: u64,
    /// The slot file and the objects that only this conversation references.
    pub own_bytes: u64,
    /// Objects that other conversations reference too.
    pub shared_bytes: u64,
    pub created_at: u64,
    pub used_at: u64,
    /// Since its last use, without jumps of wall time.
    pub age_secs: u64,
    pub expired: bool,
    pub state: ConversationState,
}

/// Where a conversation's KV is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ConversationState {
    /// In a slot, with a turn that runs or waits.
    Open,
    Hot,
    /// Not in a slot; all of its KV is in the memory of the running daemon.
    #[serde(alias = "parked")]
    Warm,
    /// Only on disk.
    Cold,
    /// Only on disk and expired: the next sweep removes it.
    Expired,
}

/// The conversations of a running daemon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Live {
    pub fingerprint: ModelHash,
    /// Conversations with a turn that runs or waits.
    pub open: BTreeSet<ConversationId>,
    /// Conversations in a slot, open ones included.
    pub hot: BTreeSet<ConversationId>,
    /// Conversations that have left their slot and whose KV is in memory.
    pub warm: BTreeSet<ConversationId>,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{got:?} is not a state: use open, hot, memory, disk or expired")]
pub struct StateParseError {
    pub got: String,
}

impl ConversationState {
    pub const ALL: [Self; 5] = [Self::Open, Self::Hot, Self::Warm, Self::Cold, Self::Expired];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Hot => "hot",
            Self::Warm => "warm",
            Self::Cold => "cold",
            Self::Expired => "expired",
        }
    }
}

impl fmt::Display for ConversationState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for ConversationState {
    type Err = StateParseError;
    fn from_str(text: &str) -> Result<Self, StateParseError> {
        let text_now = match text {
            // `parked` is a deprecated alias.
            "parked" | "memory" | "in memory" => "warm",
            "disk" | "on disk" => "cold",
            text => text,
        };
        let state = Self::ALL.into_iter().find(|state| state.as_str() == text_now);
        state.ok_or_else(|| StateParseError { got: text.to_owned() })
    }
}

impl Live {
    /// `None` when the daemon does not know the conversation.
    pub fn state(
        &self,
        model: ModelHash,
        conversation: &ConversationId,
    ) -> Option<ConversationState> {
        let among = |set: &BTreeSet<ConversationId>| {
            model == self.fingerprint && set.contains(conversation)
        };
        match () {
            () if among(&self.open) => Some(ConversationState::Open),
            () if among(&self.hot) => Some(ConversationState::Hot),
            () if among(&self.warm) => Some(ConversationState::Warm),
            () => None,
        }
    }
}

impl SavedConversation {
    /// `live`: of a daemon that runs on the directory.
    pub fn new(
        usage: &SavedUsage,
        now: &AdjustedTime,
        lifetimes: &Lifetimes,
        live: Option<&Live>,
    ) -> Self {
        let entry = &usage.entry;
        let expired = entry.is_expired(now, lifetimes);
        let on_disk = if expired { ConversationState::Expired } else { ConversationState::Cold };
        let near = live.and_then(|live| live.state(entry.model, &entry.conversation));
        Self {
            conversation: entry.conversation.as_str().to_owned(),
            fingerprint: entry.model,
            class: entry.class,
            tokens: entry.tokens,
            turns: entry.turns,
            blocks: entry.blocks,
            snapshots: entry.snapshots,
            object_bytes: entry.object_bytes,
            file_bytes: entry.file_bytes,
            own_bytes: usage.own_bytes,
            shared_bytes: usage.shared_bytes,
            created_at: entry.created_at.0 / 1000,
            used_at: entry.used_at.0 / 1000,
            age_secs: now.age(entry.used_at).as_secs(),
            expired,
            state: near.unwrap_or(on_disk),
        }
    }
}
