//! Removes unreferenced objects in batches.

use std::time::Duration;

use super::LiveRefs;
use crate::ageing::AdjustedTime;
use crate::id::ModelHash;
use crate::store::{ObjectName, Store, StoreError};

/// Objects removed at a time: no restore reads objects while a batch is removed.
const BATCH: usize = 16;

#[derive(Debug, Default)]
pub(crate) struct Removal {
    /// The number of objects removed.
    pub objects: usize,
    pub bytes: u64,
    /// Whether `max_removals` or a stop ended it early.
    pub left: bool,
    pub errors: Vec<StoreError>,
}

/// Removes objects that no slot file references, except those that the engine references or that
/// are younger than `grace`.
pub(crate) struct Remover<'a> {
    pub store: &'a Store,
    pub live_refs: &'a dyn LiveRefs,
    pub model: ModelHash,
    pub now: &'a AdjustedTime,
    pub grace: Duration,
}

impl Remover<'_> {
    /// Removes all of them.
    ///
    /// # Errors
    /// The first failure. Everything else was removed nevertheless.
    pub fn remove_all(&self, names: Vec<ObjectName>) -> Result<Removal, StoreError> {
        let mut removal = self.remove(names, usize::MAX);
        if removal.errors.is_empty() { Ok(removal) } else { Err(removal.errors.swap_remove(0)) }
    }

    /// Removes `max_removals` of them at most.
    pub fn remove(&self, mut names: Vec<ObjectName>, max_removals: usize) -> Removal {
        let &Self { store, live_refs, model, now, grace } = self;
        let mut removal = Removal::default();
        while !names.is_empty() {
            let room = max_removals - removal.objects;
            if room == 0 || live_refs.is_stopping() {
                removal.left = true;
                break;
            }
            let later = names.split_off(names.len().min(room).min(BATCH));
            let batch = std::mem::replace(&mut names, later);
            live_refs.with_unreferenced(
                store,
                model,
                batch.into_iter().collect(),
                &mut |unreferenced| {
                    for &name in unreferenced {
                        match store.collect(model, name, now, grace) {
                            Ok(0) => {}
                            Ok(bytes) => {
                                removal.objects += 1;
                                removal.bytes += bytes;
                            }
                            Err(error) => removal.errors.push(error),
                        }
                    }
                },
            );
        }
        removal
    }
}
