//! Directories of which not everything that is seen may be durable.
//!
//! - What was moved into a directory is seen, so whoever comes next relies on it; a power cut takes
//!   it away all the same when the sync failed, or when the process was killed before it.
//! - Nothing is said to be done before directories whose sync failed were synced after all. What an
//!   earlier process left in a directory is relied on after it was synced once.

use std::collections::{BTreeSet, HashSet};
use std::io;
use std::path::{Path, PathBuf};

use parking_lot::Mutex;

use super::error::StoreError;
use super::files::Files;

#[derive(Debug, Default)]
pub struct Unsynced {
    owed: Mutex<BTreeSet<PathBuf>>,
    inherited_and_synced: Mutex<HashSet<PathBuf>>,
}

impl Unsynced {
    /// Does what ends with syncing directories, after those that could not be synced before.
    pub fn first<T>(
        &self,
        files: &dyn Files,
        act: impl FnOnce() -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.sync(files)?;
        act().inspect_err(|error| {
            if let StoreError::Unsynced { dir, .. } = error {
                self.owed.lock().insert(dir.clone());
            }
        })
    }

    /// Makes what an earlier process may have left in `dir` durable, once.
    pub fn inherit(&self, files: &dyn Files, dir: &Path) -> io::Result<()> {
        let mut synced = self.inherited_and_synced.lock();
        if !synced.contains(dir) {
            files.sync_dir(dir)?;
            synced.insert(dir.to_owned());
        }
        Ok(())
    }

    fn sync(&self, files: &dyn Files) -> Result<(), StoreError> {
        let mut dirs = self.owed.lock();
        while let Some(dir) = dirs.first().cloned() {
            match files.sync_dir(&dir) {
                // What it held is gone with it.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(source) => return Err(StoreError::Unsynced { dir, source }),
                Ok(()) => {}
            }
            dirs.remove(&dir);
        }
        Ok(())
    }
}
