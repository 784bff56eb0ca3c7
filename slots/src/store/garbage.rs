//! Collects unreferenced objects.
//!
//! - An object is removed only when every slot file of its model could be read, none references it,
//!   and the removal of those that did is durable. Sealed slot files in a directory without a key, which reference
//!   sealed objects alone, keep all of these.
//! - An object written, or reused by a save, less than [`SAVE_GRACE`] ago stays: its slot file may
//!   be the next write.
//! - Forgetting a conversation removes the objects that only it referenced at once, whatever their
//!   age.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::error::{StoreError, io_error};
use super::files::{Kind, read_all};
use super::layout::{ObjectName, parse_object_name};
use super::listing::{Listing, SavedContents};
use super::reader::StoreReader;
use super::{Store, write};
use crate::ageing::AdjustedTime;
use crate::format::Seal;
use crate::id::{BlockId, ConversationId, ModelHash};

/// The maximum time between a save's first object and its slot file.
pub const SAVE_GRACE: Duration = Duration::from_secs(10 * 60);

/// Bytes of a file that tell whether it is sealed.
const HEAD_BYTES: u64 = 16;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Garbage {
    /// In order.
    pub objects: Vec<ObjectName>,
    pub bytes: u64,
}

impl StoreReader {
    /// The objects of `model` that no slot file references and that are at least `grace` old,
    /// usually [`SAVE_GRACE`].
    pub fn find_garbage(
        &self,
        model: ModelHash,
        now: &AdjustedTime,
        grace: Duration,
    ) -> Result<Garbage, StoreError> {
        let contents = self.contents(model)?;
        let has_sealed = contents.has_sealed();
        let needed = named_by(contents)?;
        self.unneeded(model, &self.names(&needed), has_sealed, now, grace)
    }

    /// The objects of `model` that are not among the `needed` ones and at least `grace` old. `has_sealed`: sealed slot
    /// files, which cannot be read, may need any sealed object.
    pub fn unneeded(
        &self,
        model: ModelHash,
        needed: &HashSet<ObjectName>,
        has_sealed: bool,
        now: &AdjustedTime,
        grace: Duration,
    ) -> Result<Garbage, StoreError> {
        let mut garbage = Garbage::default();
        for name in self.object_files(model)?.into_iter().filter(|name| !needed.contains(name)) {
            let path = self.layout.object(model, name);
            // Removed since the directory was read.
            let Ok(facts) = self.files.stat(&path) else { continue };
            if now.age(facts.modified.into()) >= grace && !(has_sealed && self.may_be_sealed(&path))
            {
                garbage.objects.push(name);
                garbage.bytes += facts.bytes;
            }
        }
        garbage.objects.sort();
        Ok(garbage)
    }

    /// The objects that the slot files of `model` reference.
    pub fn needed_objects(&self, model: ModelHash) -> Result<BTreeSet<BlockId>, StoreError> {
        named_by(self.contents(model)?)
    }

    /// By its first bytes; also where these cannot be read.
    fn may_be_sealed(&self, object: &Path) -> bool {
        let head = self.files.open(object).and_then(|file| read_all(&*file, HEAD_BYTES));
        head.map_or(true, |head| Seal::is_sealed(&head))
    }

    /// The file name of an object.
    pub fn names<'i, C: FromIterator<ObjectName>>(
        &self,
        ids: impl IntoIterator<Item = &'i BlockId>,
    ) -> C {
        ids.into_iter().map(|&id| self.name(id)).collect()
    }

    /// The file name of an object.
    pub fn name(&self, id: BlockId) -> ObjectName {
        self.layout.object_name(id)
    }

    /// Whether file names are keyed hashes, from which no name follows.
    pub fn hides_names(&self) -> bool {
        self.layout.seal.is_some()
    }

    /// The object of a file name; `None` where names are hidden.
    pub fn clear_id(&self, name: ObjectName) -> Option<BlockId> {
        (!self.hides_names()).then_some(BlockId(name.0))
    }

    /// The objects of `model` that have a file, in no order.
    pub fn object_files(&self, model: ModelHash) -> Result<Vec<ObjectName>, StoreError> {
        let mut found = Vec::new();
        for dir in self.object_dirs(model)? {
            let files = write::list(&*self.files, &dir)?;
            found.extend(files.iter().filter_map(|file| parse_object_name(&file.name)));
        }
        Ok(found)
    }

    pub fn object_lengths(&self, model: ModelHash) -> Result<HashMap<ObjectName, u64>, StoreError> {
        let mut lengths = HashMap::new();
        for dir in self.object_dirs(model)? {
            let (files, names): (Vec<_>, Vec<_>) = write::list(&*self.files, &dir)?
                .into_iter()
                .filter_map(|file| Some((parse_object_name(&file.name)?, file.name)))
                .unzip();
            let found = self.files.stat_in(&dir, &names).map_err(io_error("read", &dir))?;
            // A file removed meanwhile has no length.
            let found = files.into_iter().zip(found);
            lengths.extend(found.filter_map(|(name, facts)| Some((name, facts.ok()?.bytes))));
        }
        Ok(lengths)
    }

    /// The subdirectories of `objects`.
    fn object_dirs(&self, model: ModelHash) -> Result<Vec<PathBuf>, StoreError> {
        let dir = self.layout.objects(model);
        let mut entries = write::list(&*self.files, &dir)?;
        entries.retain(|entry| entry.kind == Kind::Dir);
        Ok(entries.into_iter().map(|entry| dir.join(entry.name)).collect())
    }
}

/// The objects that these slot files reference.
fn named_by(contents: Listing<SavedContents>) -> Result<BTreeSet<BlockId>, StoreError> {
    let undecided = contents.rejected.into_iter().find(|file| file.miss.hides_objects());
    if let Some(file) = undecided {
        return Err(StoreError::Unreadable { path: file.path, miss: file.miss });
    }
    let slots = contents.slots.into_iter().chain(contents.superseded);
    let objects = slots.flat_map(|slot| slot.objects);
    Ok(objects.map(|(id, _)| id).collect())
}

impl Store {
    /// Removes a conversation's slot file and, whatever their age, the objects in `named` that no
    /// other slot file references, also from quarantine. Returns those that were in place.
    pub fn forget(
        &self,
        model: ModelHash,
        conversation: &ConversationId,
        named: &BTreeSet<BlockId>,
    ) -> Result<Vec<BlockId>, StoreError> {
        self.remove_slot(model, conversation)?;
        self.forget_quarantined(model, conversation, named)?;
        let needed = self.needed_objects(model)?;
        self.remove_objects(model, named.difference(&needed))
    }

    /// Removes unreferenced objects, whatever their age. Returns those that existed.
    pub fn remove_objects<'i>(
        &self,
        model: ModelHash,
        ids: impl IntoIterator<Item = &'i BlockId>,
    ) -> Result<Vec<BlockId>, StoreError> {
        let _guard = self.objects.lock();
        let mut gone = Vec::new();
        self.unsynced.first(&*self.files, || {
            for &id in ids {
                let path = self.layout.object(model, self.layout.object_name(id));
                if write::remove(&*self.files, &path)? {
                    gone.push(id);
                }
            }
            Ok(gone)
        })
    }

    /// Removes an unreferenced object that is at least `grace` old. Returns the length of its file.
    pub fn collect(
        &self,
        model: ModelHash,
        name: ObjectName,
        now: &AdjustedTime,
        grace: Duration,
    ) -> Result<u64, StoreError> {
        let _guard = self.objects.lock();
        let path = self.layout.object(model, name);
        // Checked again under the lock: a save may have reused it since the listing.
        let Ok(facts) = self.files.stat(&path) else { return Ok(0) };
        if now.age(facts.modified.into()) < grace {
            return Ok(0);
        }
        self.unsynced.first(&*self.files, || {
            self.files.remove(&path).map_err(io_error("remove", &path))?;
            Ok(facts.bytes)
        })
    }
}
