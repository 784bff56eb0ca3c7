//! Objects that no conversation needs any more.
//!
//! - An object leaves only when every slot file of its model could be read and none names it.
//! - An object that was written, or asked for again by a save, less than [`SAVE_GRACE`] ago stays:
//!   the slot file that names it may be about to be written.
//! - A conversation that is forgotten takes what only it named along at once: deleted means gone.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::PoisonError;
use std::time::Duration;

use super::Store;
use super::error::{StoreError, io_error};
use super::layout::parse_object_name;
use super::reader::StoreReader;
use crate::id::{BlockId, ConversationId, ModelHash};
use crate::time::Timestamp;

/// How long a save may take from its first object to its slot file.
pub const SAVE_GRACE: Duration = Duration::from_secs(10 * 60);

/// What was collected, or would be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Garbage {
    /// The objects, in order.
    pub objects: Vec<BlockId>,
    /// The length of their files.
    pub bytes: u64,
}

impl StoreReader {
    /// What [`Store::collect_garbage`] would remove.
    pub fn find_garbage(
        &self,
        model: ModelHash,
        now: Timestamp,
        grace: Duration,
    ) -> Result<Garbage, StoreError> {
        let needed = self.needed_objects(model)?;
        let mut garbage = Garbage::default();
        for path in self.object_files(model)? {
            let Some(id) = parse_object_name(&path).filter(|id| !needed.contains(id)) else {
                continue;
            };
            // A file that vanished meanwhile is no garbage any more.
            let Ok(metadata) = fs::metadata(&path) else { continue };
            let written = metadata.modified().map_err(io_error("read the age of", &path))?;
            if Timestamp::from(written).age(now) >= grace {
                garbage.objects.push(id);
                garbage.bytes += metadata.len();
            }
        }
        garbage.objects.sort();
        Ok(garbage)
    }

    /// What the slot files of `model` name.
    pub fn needed_objects(&self, model: ModelHash) -> Result<BTreeSet<BlockId>, StoreError> {
        let contents = self.contents(model)?;
        let undecided = contents.rejected.into_iter().find(|file| !file.miss.condemns_the_file());
        if let Some(file) = undecided {
            return Err(StoreError::Unreadable { path: file.path, miss: file.miss });
        }
        let objects = contents.slots.into_iter().flat_map(|slot| slot.objects);
        Ok(objects.map(|(id, _)| id).collect())
    }

    fn object_files(&self, model: ModelHash) -> Result<Vec<PathBuf>, StoreError> {
        let dir = self.layout.objects(model);
        let mut files = Vec::new();
        // A model that never saved has no directory of objects.
        for shelf in fs::read_dir(&dir).into_iter().flatten() {
            let shelf = shelf.map_err(io_error("read", &dir))?.path();
            for file in fs::read_dir(&shelf).into_iter().flatten() {
                files.push(file.map_err(io_error("read", &shelf))?.path());
            }
        }
        Ok(files)
    }
}

impl Store {
    /// Removes a conversation's slot file and, whatever their age, those of the objects that it
    /// `named` and that no other slot file names. Returns them.
    pub fn forget(
        &self,
        model: ModelHash,
        conversation: &ConversationId,
        named: &BTreeSet<BlockId>,
    ) -> Result<Vec<BlockId>, StoreError> {
        self.remove_slot(model, conversation)?;
        let needed = self.needed_objects(model)?;
        self.remove_objects(model, named.difference(&needed))
    }

    /// Removes objects that nobody needs, whatever their age. Returns those that were there.
    pub fn remove_objects<'i>(
        &self,
        model: ModelHash,
        ids: impl IntoIterator<Item = &'i BlockId>,
    ) -> Result<Vec<BlockId>, StoreError> {
        let _guard = self.objects.lock().unwrap_or_else(PoisonError::into_inner);
        let mut gone = Vec::new();
        for &id in ids {
            let path = self.layout.object(model, id);
            match fs::remove_file(&path) {
                Ok(()) => gone.push(id),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(io_error("remove", &path)(error)),
            }
        }
        Ok(gone)
    }

    /// Removes the objects of `model` that no slot file names and that are at least `grace` old,
    /// usually [`SAVE_GRACE`].
    pub fn collect_garbage(
        &self,
        model: ModelHash,
        now: Timestamp,
        grace: Duration,
    ) -> Result<Garbage, StoreError> {
        let mut collected = Garbage::default();
        for id in self.find_garbage(model, now, grace)?.objects {
            let _guard = self.objects.lock().unwrap_or_else(PoisonError::into_inner);
            let path = self.layout.object(model, id);
            // Looked at again under the guard: a save may have asked for it since it was found.
            let Ok(metadata) = fs::metadata(&path) else { continue };
            let written = metadata.modified().map_err(io_error("read the age of", &path))?;
            if Timestamp::from(written).age(now) >= grace {
                fs::remove_file(&path).map_err(io_error("remove", &path))?;
                collected.objects.push(id);
                collected.bytes += metadata.len();
            }
        }
        Ok(collected)
    }
}
