//! What maintenance did, or would do: the answers of the daemon's `/v1/slots` routes.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::SavedConversation;
use crate::id::{ConversationId, ModelHash};
use crate::ttl::TtlClass;

/// The answer to a request of the same kind.
///
/// Untagged in JSON: each kind has a required field that the others lack.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Report {
    Pruned(Pruned),
    Collected(Collected),
    Removed(Removed),
    Reclassed(Reclassed),
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pruned {
    pub dry_run: bool,
    /// The conversations that are removed.
    pub slots: Vec<SavedConversation>,
    pub skipped: Vec<Skipped>,
    /// Bytes of objects that were unreferenced before.
    pub unneeded_bytes: u64,
    /// Bytes of all files removed, those included.
    pub freed_bytes: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Collected {
    pub dry_run: bool,
    /// Models without unreferenced objects are left out.
    pub models: Vec<CollectedOf>,
    pub freed_bytes: u64,
}

/// What is collected of one model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CollectedOf {
    pub fingerprint: ModelHash,
    /// The number of objects.
    pub objects: usize,
    pub bytes: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Removed {
    pub removed: Vec<String>,
    /// Conversations without saved KV.
    pub missing: Vec<String>,
    pub skipped: Vec<Skipped>,
    pub freed_bytes: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reclassed {
    /// One change for each model that has the conversation.
    pub changed: Vec<ClassChange>,
    pub skipped: Vec<Skipped>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClassChange {
    pub fingerprint: ModelHash,
    pub from: TtlClass,
    pub to: TtlClass,
}

/// A conversation that was selected and not changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skipped {
    pub conversation: String,
    pub fingerprint: ModelHash,
    pub reason: String,
}

impl Skipped {
    pub fn in_use(model: ModelHash, conversation: &ConversationId) -> Self {
        let reason = "in use by the running daemon".to_owned();
        Self { conversation: conversation.as_str().to_owned(), fingerprint: model, reason }
    }
}

impl Reclassed {
    /// Whether no model has the conversation.
    pub fn is_missing(&self) -> bool {
        self.changed.is_empty() && self.skipped.is_empty()
    }
}

/// Files of one model that are removed.
#[derive(Clone, Debug)]
pub(super) struct Freed {
    pub model: ModelHash,
    /// Bytes of slot files and of the objects that only they referenced.
    pub saved_bytes: u64,
    pub garbage_objects: usize,
    pub garbage_bytes: u64,
}

impl Report {
    /// Conversations that came into use after the plan were left. `removed`: those that were removed.
    pub(super) fn skip(&mut self, in_use: Vec<Skipped>, removed: &BTreeSet<&str>) {
        if in_use.is_empty() {
            return;
        }
        let is_left = |model: ModelHash, conversation: &str| {
            in_use.iter().any(|it| it.fingerprint == model && it.conversation == conversation)
        };
        match self {
            Self::Pruned(report) => {
                report.slots.retain(|slot| !is_left(slot.fingerprint, &slot.conversation));
                report.skipped.extend(in_use);
            }
            Self::Removed(report) => {
                report.removed.retain(|name| removed.contains(name.as_str()));
                report.skipped.extend(in_use);
            }
            Self::Reclassed(report) => {
                let is_left = |model| in_use.iter().any(|it| it.fingerprint == model);
                report.changed.retain(|change| !is_left(change.fingerprint));
                report.skipped.extend(in_use);
            }
            Self::Collected(_) => {}
        }
    }

    /// The same report with the bytes that `freed` adds up to.
    pub(super) fn with_freed(self, dry_run: bool, freed: &[Freed]) -> Self {
        let saved_bytes: u64 = freed.iter().map(|freed| freed.saved_bytes).sum();
        let garbage_bytes: u64 = freed.iter().map(|freed| freed.garbage_bytes).sum();
        let freed_bytes = saved_bytes + garbage_bytes;
        match self {
            Self::Pruned(report) => {
                let unneeded_bytes = garbage_bytes;
                Self::Pruned(Pruned { dry_run, unneeded_bytes, freed_bytes, ..report })
            }
            Self::Collected(_) => {
                let models = freed.iter().filter(|freed| freed.garbage_objects > 0);
                let models = models.map(|freed| CollectedOf {
                    fingerprint: freed.model,
                    objects: freed.garbage_objects,
                    bytes: freed.garbage_bytes,
                });
                Self::Collected(Collected { dry_run, models: models.collect(), freed_bytes })
            }
            Self::Removed(report) => Self::Removed(Removed { freed_bytes, ..report }),
            Self::Reclassed(report) => Self::Reclassed(report),
        }
    }
}
