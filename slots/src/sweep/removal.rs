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
pub(crate) fn remove_objects(
    store: &Store,
    live_refs: &dyn LiveRefs,
    model: ModelHash,
    mut names: Vec<ObjectName>,
    now: &AdjustedTime,
    grace: Duration,
    max_removals: usize,
) -> Removal {
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

impl Removal {
    /// The first error, if there was one.
    pub fn whole(mut self) -> Result<Self, StoreError> {
        if self.errors.is_empty() { Ok(self) } else { Err(self.errors.swap_remove(0)) }
    }
}
