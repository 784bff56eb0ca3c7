//! The directory of saved KV. `sweep` decides what stays in it.
//!
//! - [`Store`] is the one owner of a directory; it writes, removes and quarantines. [`StoreReader`]
//!   reads beside an owner and changes nothing.
//! - A file appears under its name whole or not at all: temporary file, sync, rename, sync of the
//!   directory. A save writes objects first and the slot file last.
//! - Every byte that a read returns was verified in the returned buffer, and the content matches
//!   the requested name. Anything else is a [`Miss`] with a reason.
//! - Objects never change, so writing one twice writes it once.

use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use parking_lot::Mutex;
use tracing::warn;

use crate::ageing::ClockTracker;
use crate::evict::History;
use crate::fingerprint::Fingerprint;
use crate::format::{Object, ObjectHeader, ObjectKind, Seal, SlotRecord};
use crate::id::{BlockId, ConversationId, ModelHash};
use crate::time::Timestamp;
use crate::ttl::TtlClass;

mod compress;
mod crash_marks;
mod error;
pub mod files;
mod garbage;
mod inspect;
mod layout;
mod listing;
mod listing_cache;
mod quarantine;
mod rank;
mod reader;
mod sealing;
#[cfg(test)]
mod tests;
mod unsynced;
mod verified;
mod write;

pub use compress::Compressed;
pub use crash_marks::{MAX_CRASHES, UseStage};
pub use error::{Miss, Rejected, StoreError};
pub use garbage::{Garbage, Hidden, SAVE_GRACE};
pub use inspect::{Checked, StoredFile};
pub use layout::ObjectName;
pub use listing::{Listing, SavedContents, SavedEntry};
pub use listing_cache::ListingCache;
pub use quarantine::{MAX_BYTES as MAX_QUARANTINE_BYTES, Quarantined};
pub use reader::StoreReader;
pub use sealing::{Key, Sealing};

use error::io_error;
use files::{Disk, Files, Kind, Lock, LockError, read_all};
use sealing::{CHECK, sealed_under};
use unsynced::Unsynced;
use write::TempFile;

/// A directory of saved KV that this process owns until the value is dropped.
#[derive(Debug)]
pub struct Store {
    reader: StoreReader,
    // Held between looking at an object and acting on it, so a save never reuses an object that the
    // collector removes.
    objects: Mutex<()>,
    // Held while a file takes its place, and from the look at a damaged one until it has left its own: another may
    // have taken that since the damage was read.
    places: Mutex<()>,
    unsynced: Unsynced,
    _lock: Box<dyn Lock>,
}

/// The owner can read everything that a reader can.
impl Deref for Store {
    type Target = StoreReader;
    fn deref(&self) -> &StoreReader {
        &self.reader
    }
}

impl Store {
    /// Takes ownership of `dir`, creates it if needed, and removes unfinished files of writers that
    /// died.
    pub fn open(dir: impl Into<PathBuf>) -> Result<Self, StoreError> {
        Self::open_on(Arc::new(Disk), dir)
    }

    pub fn open_on(files: Arc<dyn Files>, dir: impl Into<PathBuf>) -> Result<Self, StoreError> {
        let dir = dir.into();
        write::ensure_root(&*files, &dir)?;
        let reader = StoreReader::open_on(files, dir)?;
        let lock = reader.layout.lock();
        let lock = reader.files.lock(&lock).map_err(|error| match error {
            LockError::Held(owner) => StoreError::Owned { dir: reader.dir().to_owned(), owner },
            LockError::Io(error) => io_error("lock", &lock)(error),
        })?;
        let store = Self {
            reader,
            objects: Mutex::new(()),
            places: Mutex::new(()),
            unsynced: Unsynced::default(),
            _lock: lock,
        };
        write::empty_dir(&*store.files, &store.layout.root_temporary())?;
        store.inherit(&store.layout.root);
        for model in store.models()? {
            write::empty_dir(&*store.files, &store.layout.temporary(model))?;
            store.inherit(&store.layout.model(model));
            store.inherit(&store.layout.objects(model));
        }
        Ok(store)
    }

    /// Seals every file from now on.
    pub fn sealed(mut self, key: &Key) -> Result<Self, StoreError> {
        let check = self.layout.key_check();
        // Any other error says nothing of the key: the word that another one has sealed is not replaced.
        let is_missing = |error: std::io::Error| error.kind() == std::io::ErrorKind::NotFound;
        if self.files.stat(&check).is_err_and(is_missing) {
            let word = key.seal.seal(CHECK.0, &[CHECK.1]);
            self.write_clear(&self.layout.root_temporary(), &check, &[&word])?;
        }
        self.reader = self.reader.sealed(key)?;
        Ok(self)
    }

    /// Seals every file from now on with the key in `file`; no file if neither that one nor a sealed file exists.
    pub fn sealed_with(self, file: &Path) -> Result<Self, StoreError> {
        match self.reader.key_in(file)? {
            Some(key) => self.sealed(&key),
            None => Ok(self),
        }
    }

    /// Seals every file from now on with the key in `file`; makes the key if neither that file nor a sealed one exists.
    pub fn sealed_with_new(self, file: &Path) -> Result<Self, StoreError> {
        let key = match self.reader.key_in(file)? {
            Some(key) => key,
            None => Key::load_or_make(file)?,
        };
        self.sealed(&key)
    }

    /// The reading half.
    pub fn reader(&self) -> &StoreReader {
        &self.reader
    }

    /// Writes an object that the directory lacks. Returns the bytes written.
    ///
    /// # Panics
    /// When `object` has another name or belongs to another model.
    pub fn put_object(
        &self,
        model: ModelHash,
        id: BlockId,
        object: &Object,
    ) -> Result<u64, StoreError> {
        assert_eq!((model, id), (object.model, object.id()), "an object is put under its own name");
        let path = self.layout.object(model, self.layout.object_name(id));
        if self.renew(&path) {
            return Ok(0);
        }
        let head = object.encode_head();
        self.write(model, &path, &[&head, &object.payload])
    }

    /// Reads and verifies an object. A damaged one moves to quarantine.
    pub fn get_object(
        &self,
        model: ModelHash,
        id: BlockId,
        kind: ObjectKind,
    ) -> Result<Object, Miss> {
        self.get_object_in(model, id, kind, Vec::new())
    }

    /// As [`Store::get_object`], in the memory of `buffer` if that is large enough.
    pub fn get_object_in(
        &self,
        model: ModelHash,
        id: BlockId,
        kind: ObjectKind,
        buffer: Vec<u8>,
    ) -> Result<Object, Miss> {
        match self.reader.find_object(model, id, kind, buffer) {
            Err(rejected) if rejected.miss.condemns_the_file() => {
                let _places = self.places.lock();
                let found = self.reader.find_object(model, id, kind, Vec::new());
                found.map_err(|rejected| self.reject(model, rejected))
            }
            found => found.map_err(|rejected| rejected.miss),
        }
    }

    /// Replaces a conversation's slot file, whatever the class of the old one. Returns the bytes
    /// written.
    pub fn put_slot(&self, model: ModelHash, record: &SlotRecord) -> Result<u64, StoreError> {
        let file = record.encode(model);
        let path = self.layout.slot(model, &record.conversation, record.class);
        let written = self.write(model, &path, &[&file])?;
        let others = self.layout.slot_candidates(model, &record.conversation).into_iter();
        self.remove_files(model, others.map(|(other, _)| other).filter(|other| *other != path))?;
        Ok(written)
    }

    /// Reads and verifies a slot file. A damaged one moves to quarantine.
    pub fn get_slot(
        &self,
        model: ModelHash,
        conversation: &ConversationId,
    ) -> Result<SlotRecord, Miss> {
        let (found, beside) = self.reader.find_slot(model, conversation);
        let mut missed = found.as_ref().err().into_iter().chain(&beside);
        if !missed.any(|rejected| rejected.miss.condemns_the_file()) {
            return found.map_err(|rejected| rejected.miss);
        }
        let _places = self.places.lock();
        let (found, beside) = self.reader.find_slot(model, conversation);
        if let Some(rejected) = beside {
            self.reject(model, rejected);
        }
        found.map_err(|rejected| self.reject(model, rejected))
    }

    /// Removes a conversation's slot file; its objects stay until they are collected. Returns
    /// whether there was one.
    pub fn remove_slot(
        &self,
        model: ModelHash,
        conversation: &ConversationId,
    ) -> Result<bool, StoreError> {
        self.remove_files(model, self.oldest_first(model, conversation).into_iter())
    }

    /// Removes a listed slot file. Returns whether it was still there. Durable after
    /// [`Store::sync_slots`], so that removing many syncs once.
    pub fn remove_listed(&self, entry: &SavedEntry) -> Result<bool, StoreError> {
        write::remove(&*self.files, &entry.path)
    }

    /// Makes the removal of slot files durable.
    pub fn sync_slots(&self, model: ModelHash) -> Result<(), StoreError> {
        let dir = self.layout.model(model);
        self.unsynced.first(&*self.files, || write::sync_dir(&*self.files, &dir))
    }

    /// Writes a model's fingerprint beside its files.
    pub fn write_model_toml(&self, fingerprint: &Fingerprint) -> Result<(), StoreError> {
        let model = fingerprint.hash();
        let (path, text) = (self.layout.model_toml(model), fingerprint.to_toml());
        if self.read_model_toml(model).is_ok_and(|there| there == *fingerprint) {
            return Ok(());
        }
        self.write_clear(&self.layout.temporary(model), &path, &[text.as_bytes()]).map(drop)
    }

    /// Saves the jumps of wall time.
    pub fn write_clock_tracker(&self, tracker: &ClockTracker) -> Result<(), StoreError> {
        let text = toml::to_string(tracker).expect("numbers can be written");
        self.write_clear(&self.layout.root_temporary(), &self.layout.clock(), &[text.as_bytes()])
            .map(drop)
    }

    /// Saves what the eviction policy of memory has learned.
    pub fn write_eviction_history(&self, history: &History) -> Result<(), StoreError> {
        let text = history.to_text();
        self.write_clear(&self.layout.root_temporary(), &self.layout.eviction(), &[text.as_bytes()])
            .map(drop)
    }

    /// Best effort: a directory that cannot be synced does not prevent a start.
    fn inherit(&self, dir: &Path) {
        let _ = self.unsynced.inherit(&*self.files, dir);
    }

    /// Whether a valid object is at `path`, by its header and length. It then counts as new for the
    /// collector.
    fn renew(&self, path: &Path) -> bool {
        let _guard = self.objects.lock();
        let renewed = || -> std::io::Result<bool> {
            let file = self.files.open(path)?;
            let facts = file.facts()?;
            let head = read_all(&*file, ObjectHeader::BYTES as u64)?;
            // A truncated file, or one of a later version, is written again.
            let expected = match &self.layout.seal {
                Some(_) => Seal::clear_bytes(&head).map(Seal::sealed_bytes),
                None => ObjectHeader::decode(&head).map(|header| header.file_bytes()),
            };
            let same = facts.kind == Kind::File && expected.is_ok_and(|bytes| bytes == facts.bytes);
            if same {
                let dir = path.parent().expect("an object is in a subdirectory");
                self.unsynced.inherit(&*self.files, dir)?;
                self.files.touch(path, SystemTime::now())?;
            }
            Ok(same)
        };
        renewed().unwrap_or(false)
    }

    /// Writes a slot file or an object, sealed if the directory is. Returns its length.
    fn write(&self, model: ModelHash, path: &Path, parts: &[&[u8]]) -> Result<u64, StoreError> {
        let dir = self.layout.temporary(model);
        match &self.layout.seal {
            Some(seal) => self.write_clear(&dir, path, &[&seal.seal(&sealed_under(path), parts)]),
            None => self.write_clear(&dir, path, parts),
        }
    }

    fn write_clear(&self, dir: &Path, path: &Path, parts: &[&[u8]]) -> Result<u64, StoreError> {
        self.unsynced.first(&*self.files, || {
            let mut file = TempFile::create(&*self.files, dir)?;
            for part in parts {
                file.write(part)?;
            }
            let _places = self.places.lock();
            file.commit(path)
        })?;
        Ok(parts.iter().map(|part| part.len() as u64).sum())
    }

    /// The possible slot files of a conversation, the valid one last: a crash between removals must
    /// not bring back an older one.
    fn oldest_first(&self, model: ModelHash, conversation: &ConversationId) -> Vec<PathBuf> {
        let candidates = self.layout.slot_candidates(model, conversation).into_iter();
        // Removing will report a file that cannot be read.
        let may_be_there = |path: &PathBuf| match self.files.stat(path) {
            Err(error) => error.kind() != std::io::ErrorKind::NotFound,
            Ok(_) => true,
        };
        let mut there: Vec<PathBuf> =
            candidates.map(|(path, _)| path).filter(may_be_there).collect();
        if there.len() > 1 {
            there.sort_by_cached_key(|path| self.rank_of(path));
        }
        there
    }

    fn remove_files(
        &self,
        model: ModelHash,
        paths: impl Iterator<Item = PathBuf>,
    ) -> Result<bool, StoreError> {
        self.unsynced.first(&*self.files, || {
            let (mut removed, mut failed) = (false, None);
            for path in paths {
                match write::remove(&*self.files, &path) {
                    Ok(was_there) => removed |= was_there,
                    Err(error) => failed = Some(error),
                }
            }
            if removed {
                write::sync_dir(&*self.files, &self.layout.model(model))?;
            }
            failed.map_or(Ok(removed), Err)
        })
    }

    /// The class and modification time of a slot file that cannot be read.
    pub fn written(&self, slot_file: &Path) -> Option<(TtlClass, Timestamp)> {
        let (_, class) = layout::parse_slot_name(slot_file.file_name()?.to_str()?)?;
        let facts = self.files.stat(slot_file).ok()?;
        Some((class, facts.modified.into()))
    }

    /// Removes a slot file that a listing of `model` rejected.
    pub fn remove_file(&self, model: ModelHash, slot_file: &Path) -> Result<(), StoreError> {
        self.remove_files(model, [slot_file.to_owned()].into_iter()).map(drop)
    }

    /// Moves the slot files to quarantine that a listing of `model` rejected and that no reader can ever use. Returns
    /// their number.
    pub fn reject_all(&self, model: ModelHash, rejected: Vec<Rejected>) -> usize {
        let condemned = rejected.into_iter().filter(|file| file.miss.condemns_the_file());
        // The length is not checked.
        let file = |file: Rejected| StoredFile { model, path: file.path, bytes: 0, object: None };
        condemned.map(file).filter(|file| self.reject_file(file)).count()
    }

    /// Moves a file to quarantine that no reader can ever use. Returns whether it is such a file: it is read again,
    /// because another may have taken its place since it was rejected.
    pub fn reject_file(&self, file: &StoredFile) -> bool {
        let _places = self.places.lock();
        let Err(rejected) = self.check(file) else { return false };
        self.reject(file.model, rejected).condemns_the_file()
    }

    /// Moves a damaged file to quarantine, so that it fails once. Returns the miss.
    fn reject(&self, model: ModelHash, rejected: Rejected) -> Miss {
        let Rejected { path, miss } = rejected;
        if miss.condemns_the_file() {
            warn!(file = %path.display(), reason = %miss, "file rejected");
            if let Err(error) = self.quarantine(model, &path, &miss) {
                warn!(file = %path.display(), %error, "rejected file stays where it is");
            }
        }
        miss
    }
}
