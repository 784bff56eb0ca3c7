//! Collects unreferenced objects whatever their age: a conversation was deleted.

use std::collections::BTreeSet;
use std::time::Duration;

use super::{LiveRefs, Remover};
use crate::ageing::AdjustedTime;
use crate::id::{BlockId, ModelHash};
use crate::store::{Store, StoreError};
use crate::time::Timestamp;

/// Removes every object of `model` that neither a slot file nor the engine references: what a
/// deleted conversation saved and no slot file named yet, also before a crash. `deleted`: the objects that the
/// conversation referenced. They leave also where a slot file of a later version may reference them.
///
/// # Errors
/// The first failure. Everything else was removed nevertheless.
pub fn collect_now(
    store: &Store,
    live_refs: &dyn LiveRefs,
    model: ModelHash,
    deleted: &BTreeSet<BlockId>,
) -> Result<(), StoreError> {
    // Every file is at least zero seconds old.
    let (now, grace) = (AdjustedTime::from(Timestamp(0)), Duration::ZERO);
    let garbage = store.find_garbage_with(model, deleted, &now, grace)?.objects;
    Remover { store, live_refs, model, now: &now, grace }.remove_all(garbage).map(drop)
}
