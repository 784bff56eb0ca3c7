//! What people ask about and of a directory of kept KV, as lists and reports.
//!
//! - The same shapes whoever does the work: a command line that owns the directory, or a daemon
//!   that owns it and is asked. They are what the daemon's API says, too.
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

/// A conversation, as lists tell of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedConversation {
    /// Whose it is.
    pub conversation: String,
    /// The model that its objects belong to.
    pub fingerprint: ModelHash,
    /// How long it deserves its disk space.
    pub class: TtlClass,
    /// How long its timeline is.
    pub tokens: u32,
    /// How many turns it has had; 0 when that was not counted.
    pub turns: u32,
    /// How many blocks are kept.
    pub blocks: u32,
    /// How many snapshots are kept.
    pub snapshots: u32,
    /// The length of its objects' files when they are raw, those that it shares included.
    pub object_bytes: u64,
    /// The length of its slot file.
    pub file_bytes: u64,
    /// Its slot file and the objects that it alone needs.
    pub own_bytes: u64,
    /// The objects that others need too.
    pub shared_bytes: u64,
    /// When it was first saved.
    pub created_at: u64,
    /// When it was last used.
    pub used_at: u64,
    /// How long ago that was, without the time that wall clocks only seem to have gone on.
    pub age_secs: u64,
    /// Whether its time is over.
    pub expired: bool,
    /// Where it is, as far as that could be told.
    pub state: ConversationState,
}

/// Where a conversation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ConversationState {
    /// In a slot, and it speaks.
    Open,
    /// In a slot, between turns.
    Hot,
    /// Out of its slot, and known to the daemon that runs.
    Parked,
    /// On disk alone.
    Cold,
    /// On disk alone, and its time is over: it leaves with the next sweep.
    Expired,
}

/// What a running daemon knows of its conversations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Live {
    /// The model that it runs.
    pub fingerprint: ModelHash,
    /// Conversations that speak.
    pub open: BTreeSet<ConversationId>,
    /// Conversations in a slot, those that speak included.
    pub hot: BTreeSet<ConversationId>,
    /// Conversations out of their slot that it knows.
    pub parked: BTreeSet<ConversationId>,
}

/// A text that names no state.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{got:?} is no state: use open, hot, parked, cold or expired")]
pub struct StateParseError {
    /// The text.
    pub got: String,
}

impl ConversationState {
    /// Every state, the nearest first.
    pub const ALL: [Self; 5] = [Self::Open, Self::Hot, Self::Parked, Self::Cold, Self::Expired];

    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Hot => "hot",
            Self::Parked => "parked",
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
        let state = Self::ALL.into_iter().find(|state| state.as_str() == text);
        state.ok_or_else(|| StateParseError { got: text.to_owned() })
    }
}

impl Live {
    /// Where the daemon has a conversation; `None` when it does not know it.
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
            () if among(&self.parked) => Some(ConversationState::Parked),
            () => None,
        }
    }
}

impl SavedConversation {
    /// What is known of a conversation; `live`: of a daemon that runs on the directory.
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
