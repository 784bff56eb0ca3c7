//! What a caller asks for: the bodies of the daemon's `/v1/slots` routes.
//!
//! - A field that is missing has its default; an unknown field is an error.
//! - Pruning and collecting are dry runs unless `dry_run` is set to false.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::ageing::AdjustedTime;
use crate::id::{ConversationId, ModelHash};
use crate::store::SavedContents;
use crate::ttl::{Lifetimes, TtlClass};

/// A change to the directory of saved KV.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Request {
    Prune(Prune),
    Collect(Collect),
    Remove(Remove),
    SetClass(SetClass),
}

/// Removes conversations that meet every criterion given, and unreferenced objects.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Prune {
    /// Conversations past the lifetime of their class.
    pub expired: bool,
    /// Conversations last used more than this many seconds ago.
    pub older_than_secs: Option<u64>,
    pub class: Option<TtlClass>,
    /// Conversations with more bytes than this, own and shared.
    pub larger_than: Option<u64>,
    pub fingerprint: Option<ModelHash>,
    pub conversation: Option<ConversationId>,
    pub dry_run: bool,
}

/// Removes objects that no slot file references.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Collect {
    pub fingerprint: Option<ModelHash>,
    pub dry_run: bool,
}

/// Removes conversations by name, with the objects that only they reference.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Remove {
    pub conversations: Vec<String>,
    pub fingerprint: Option<ModelHash>,
}

/// Changes the TTL class of a conversation. Its time of last use stays.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SetClass {
    pub conversation: ConversationId,
    pub class: TtlClass,
    pub fingerprint: Option<ModelHash>,
}

impl Default for Prune {
    fn default() -> Self {
        Self {
            expired: false,
            older_than_secs: None,
            class: None,
            larger_than: None,
            fingerprint: None,
            conversation: None,
            dry_run: true,
        }
    }
}

impl Default for Collect {
    fn default() -> Self {
        Self { fingerprint: None, dry_run: true }
    }
}

impl Request {
    /// The model whose directory it concerns; `None`: every model's.
    pub fn fingerprint(&self) -> Option<ModelHash> {
        match self {
            Self::Prune(Prune { fingerprint, .. })
            | Self::Collect(Collect { fingerprint, .. })
            | Self::Remove(Remove { fingerprint, .. })
            | Self::SetClass(SetClass { fingerprint, .. }) => *fingerprint,
        }
    }

    pub fn is_dry_run(&self) -> bool {
        match self {
            Self::Prune(Prune { dry_run, .. }) | Self::Collect(Collect { dry_run, .. }) => *dry_run,
            Self::Remove(_) | Self::SetClass(_) => false,
        }
    }
}

impl From<Prune> for Request {
    /// Without a criterion: expired conversations.
    fn from(prune: Prune) -> Self {
        let expired = prune.expired || !prune.has_criterion();
        Self::Prune(Prune { expired, ..prune })
    }
}

impl From<Collect> for Request {
    fn from(collect: Collect) -> Self {
        Self::Collect(collect)
    }
}

impl From<Remove> for Request {
    fn from(remove: Remove) -> Self {
        Self::Remove(remove)
    }
}

impl From<SetClass> for Request {
    fn from(set_class: SetClass) -> Self {
        Self::SetClass(set_class)
    }
}

impl Prune {
    fn has_criterion(&self) -> bool {
        *self != Self { dry_run: self.dry_run, ..Self::default() }
    }

    /// Whether a conversation meets every criterion; never when there is none.
    pub fn selects(&self, slot: &SavedContents, now: &AdjustedTime, lifetimes: &Lifetimes) -> bool {
        let entry = &slot.entry;
        let bytes = entry.file_bytes + entry.object_bytes;
        let is_older = |secs| now.age(entry.used_at) > Duration::from_secs(secs);
        self.has_criterion()
            && (!self.expired || entry.is_expired(now, lifetimes))
            && self.older_than_secs.is_none_or(is_older)
            && self.class.is_none_or(|class| entry.class == class)
            && self.larger_than.is_none_or(|limit| bytes > limit)
            && self.fingerprint.is_none_or(|model| entry.model == model)
            && self.conversation.as_ref().is_none_or(|id| entry.conversation == *id)
    }
}
