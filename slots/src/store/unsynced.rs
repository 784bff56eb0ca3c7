//! Directories whose visible content may not be durable.
//!
//! - A renamed file is visible at once, so the next write relies on it. A power cut undoes the
//!   rename when the sync failed, or when the process was killed before it.
//! - A write reports success only after directories with a failed sync were synced. A directory of
//!   an earlier process is synced once before a write relies on its content.

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
    /// Runs `act` after syncing the directories whose sync failed.
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

    /// Syncs `dir` once, for the changes of an earlier process.
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
                // The directory was removed with its content.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(source) => return Err(StoreError::Unsynced { dir, source }),
                Ok(()) => {}
            }
            dirs.remove(&dir);
        }
        Ok(())
    }
}
