//! Directories whose last sync failed.
//!
//! - What was moved into such a directory is seen, so whoever comes next relies on it; a power cut
//!   may take it away all the same. So nothing is said to be done before they were synced after all.

use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use super::error::StoreError;
use super::files::Files;

#[derive(Debug, Default)]
pub struct Unsynced(Mutex<BTreeSet<PathBuf>>);

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
                self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(dir.clone());
            }
        })
    }

    fn sync(&self, files: &dyn Files) -> Result<(), StoreError> {
        let mut dirs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
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
