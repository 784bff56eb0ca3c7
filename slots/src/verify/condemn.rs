//! Moves unusable files to quarantine.

use std::collections::BTreeSet;

use crate::store::{Store, StoredFile};
use crate::sweep::LiveRefs;

/// Each file is read again, so a file replaced meanwhile stays. Returns the number of files moved.
pub fn condemn(store: &Store, live_refs: &dyn LiveRefs, files: &[StoredFile]) -> usize {
    let mut condemned = 0;
    for file in files {
        if store.reject_file(file) {
            let objects: BTreeSet<_> = file.object.into_iter().collect();
            live_refs.objects_lost(store, file.model, &objects);
            condemned += 1;
        }
    }
    condemned
}
