//! Collects unreferenced objects.
//!
//! - An object is removed only when every slot file of its model could be read, none references it,
//!   and the removal of those that did is durable. Two kinds of slot files that no read can tell keep what they may
//!   reference, see [`Hidden`].
//! - An object written, or reused by a save, less than [`SAVE_GRACE`] ago stays: its slot file may
//!   be the next write.
//! - Forgetting a conversation removes the objects that only it referenced at once, whatever their
//!   age.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::error::{Miss, Rejected, StoreError, io_error};
use super::files::{Facts, Kind, read_all};
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

/// What slot files may reference that no read can tell.
#[derive(Clone, Copy, Debug, Default)]
pub struct Hidden {
    /// Sealed ones in a directory without a key: any sealed object.
    has_sealed: bool,
    /// Those of a later version, the last of which was written then: any object that is no younger, for a save writes
    /// objects first. An object that was reused since counts as younger; without it, that version computes it again.
    later: Option<SystemTime>,
}

impl Hidden {
    /// Whether there are slot files of a later version.
    pub fn has_later(&self) -> bool {
        self.later.is_some()
    }
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
        self.find_garbage_with(model, &BTreeSet::new(), now, grace)
    }

    /// As [`StoreReader::find_garbage`]. Slot files of a later version keep none of the objects in `deleted`, which a
    /// deleted conversation referenced.
    pub fn find_garbage_with(
        &self,
        model: ModelHash,
        deleted: &BTreeSet<BlockId>,
        now: &AdjustedTime,
        grace: Duration,
    ) -> Result<Garbage, StoreError> {
        let contents = self.contents(model)?;
        let hidden = self.hidden(&contents.rejected);
        let needed = named_by(contents)?;
        let mut garbage = self.unneeded(model, &self.names(&needed), hidden, now, grace)?;
        if hidden.has_later() {
            let found: HashSet<ObjectName> = garbage.objects.iter().copied().collect();
            for name in self.names::<Vec<_>>(deleted.difference(&needed)) {
                let facts = self.files.stat(&self.layout.object(model, name));
                let facts = facts.ok().filter(|facts| now.age(facts.modified.into()) >= grace);
                if let Some(facts) = facts.filter(|_| !found.contains(&name)) {
                    garbage.objects.push(name);
                    garbage.bytes += facts.bytes;
                }
            }
            garbage.objects.sort();
        }
        Ok(garbage)
    }

    /// What the `rejected` slot files may reference.
    pub fn hidden(&self, rejected: &[Rejected]) -> Hidden {
        let later = rejected.iter().filter(|file| matches!(file.miss, Miss::Newer { .. }));
        let written = later.filter_map(|file| match self.files.stat(&file.path) {
            Ok(facts) => Some(facts.modified),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(_) => Some(SystemTime::now()), // Any object may be its.
        });
        Hidden {
            has_sealed: rejected.iter().any(|file| matches!(file.miss, Miss::Sealed)),
            later: written.max(),
        }
    }

    /// Whether a slot file of a later version may reference the object.
    pub fn may_be_of_later(&self, model: ModelHash, name: ObjectName, hidden: Hidden) -> bool {
        let Some(later) = hidden.later else { return false };
        let facts = self.files.stat(&self.layout.object(model, name));
        facts.is_ok_and(|facts| facts.modified <= later)
    }

    /// The objects of `model` that are not among the `needed` ones and at least `grace` old, and that no `hidden`
    /// reference may be to.
    pub fn unneeded(
        &self,
        model: ModelHash,
        needed: &HashSet<ObjectName>,
        hidden: Hidden,
        now: &AdjustedTime,
        grace: Duration,
    ) -> Result<Garbage, StoreError> {
        let is_hidden = |path: &Path, facts: &Facts| {
            hidden.later.is_some_and(|later| facts.modified <= later)
                || (hidden.has_sealed && self.may_be_sealed(path))
        };
        let mut garbage = Garbage::default();
        for name in self.object_files(model)?.into_iter().filter(|name| !needed.contains(name)) {
            let path = self.layout.object(model, name);
            // Removed since the directory was read.
            let Ok(facts) = self.files.stat(&path) else { continue };
            if now.age(facts.modified.into()) >= grace && !is_hidden(&path, &facts) {
                garbage.objects.push(name);
                garbage.bytes += facts.bytes;
            }
        }
        garbage.objects.sort();
        Ok(garbage)
    }

    /// The objects that the slot files of `model` reference, but for those of a later version.
    pub fn needed_objects(&self, model: ModelHash) -> Result<BTreeSet<BlockId>, StoreError> {
        named_by(self.contents(model)?)
    }

    /// By its first bytes; also where these cannot be read.
    pub(super) fn may_be_sealed(&self, file: &Path) -> bool {
        let head = self.files.open(file).and_then(|file| read_all(&*file, HEAD_BYTES));
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
