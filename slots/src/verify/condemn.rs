//! What the owner of a directory does with files that cannot be used.

use std::collections::BTreeSet;

use crate::store::{Store, StoredFile};
use crate::sweep::LiveRefs;

/// Moves what nobody will ever be able to use into quarantine. Each file is read once more, so one
/// that was written anew meanwhile stays. Returns how many went.
pub fn condemn(store: &Store, live_refs: &dyn LiveRefs, files: &[StoredFile]) -> usize {
    let mut condemned = 0;
    for file in files {
        match store.check(file) {
            Err(rejected) if rejected.miss.condemns_the_file() => {
                store.reject_all(file.model, vec![rejected]);
                let objects: BTreeSet<_> = file.object.into_iter().collect();
                live_refs.objects_lost(store, file.model, &objects);
                condemned += 1;
            }
            Ok(_) | Err(_) => {}
        }
    }
    condemned
}
