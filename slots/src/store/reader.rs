//! Reads the directory, beside its owner or as its owner.
//!
//! An object is read and verified in one buffer, which is returned.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::error::{Miss, Rejected, StoreError, io_error};
use super::files::{Disk, Files, Kind, read_all};
use super::layout::Layout;
use super::rank::rank;
use super::sealing::{CHECK, Key, Sealing, sealed_under};
use super::verified::read_object;
use crate::ageing::{AdjustedTime, ClockTracker};
use crate::evict::History;
use crate::fingerprint::Fingerprint;
use crate::format::{FormatError, Object, ObjectKind, Seal, SlotRecord};
use crate::id::{BlockId, ConversationId, ModelHash};
use crate::time::Timestamp;

/// Reads a directory of saved KV and changes nothing.
#[derive(Clone, Debug)]
pub struct StoreReader {
    pub(super) layout: Layout,
    pub(super) files: Arc<dyn Files>,
}

impl StoreReader {
    pub fn open(dir: impl Into<PathBuf>) -> Result<Self, StoreError> {
        Self::open_on(Arc::new(Disk), dir)
    }

    pub fn open_on(files: Arc<dyn Files>, dir: impl Into<PathBuf>) -> Result<Self, StoreError> {
        let dir = dir.into();
        // The user may make the directory a link.
        let root = files.resolve(&dir).map_err(io_error("find", &dir))?;
        files.list(&root).map_err(io_error("read", &dir))?;
        Ok(Self { layout: Layout { root, seal: None }, files })
    }

    /// Decrypts every file from now on.
    pub fn sealed(mut self, key: &Key) -> Result<Self, StoreError> {
        let check = self.layout.key_check();
        match self.files.open(&check) {
            // No sealed file was ever written.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            opened => {
                let word = opened.and_then(|file| read_all(&*file, 4096));
                let word = word.map_err(io_error("read", &check))?;
                if key.seal.open(CHECK.0, word).is_ok_and(|word| word == CHECK.1) {
                    self.layout.seal = Some(key.seal.clone());
                    return Ok(self);
                }
                let (dir, key) = (self.layout.root.clone(), key.file.clone());
                return Err(StoreError::OtherKey { dir, key });
            }
        }
        self.layout.seal = Some(key.seal.clone());
        Ok(self)
    }

    /// Decrypts every file from now on with the key in `file`; none if neither that one nor a sealed file exists.
    pub fn sealed_with(self, file: &Path) -> Result<Self, StoreError> {
        match self.key_in(file)? {
            Some(key) => self.sealed(&key),
            None => Ok(self),
        }
    }

    /// The key in `file`; `None` if neither that one nor a sealed file exists.
    ///
    /// # Errors
    /// [`StoreError::MissingKey`] if only sealed files exist.
    pub(super) fn key_in(&self, file: &Path) -> Result<Option<Key>, StoreError> {
        let is_missing = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
        match Key::load(file) {
            Err(StoreError::Io { source, .. }) if is_missing(&source) => {}
            loaded => return loaded.map(Some),
        }
        match self.files.stat(&self.layout.key_check()) {
            Err(error) if is_missing(&error) => Ok(None),
            _ => {
                let (dir, key) = (self.layout.root.clone(), file.to_owned());
                Err(StoreError::MissingKey { dir, key })
            }
        }
    }

    /// How copies of its files are sealed.
    pub fn sealing(&self) -> Sealing {
        Sealing(self.layout.clone())
    }

    pub fn dir(&self) -> &Path {
        &self.layout.root
    }

    /// Reads and verifies an object.
    pub fn get_object(
        &self,
        model: ModelHash,
        id: BlockId,
        kind: ObjectKind,
    ) -> Result<Object, Miss> {
        self.find_object(model, id, kind, Vec::new()).map_err(|rejected| rejected.miss)
    }

    /// The length of an object's file, if it exists. Its bytes are not verified.
    pub fn object_bytes(&self, model: ModelHash, id: BlockId) -> Option<u64> {
        let path = self.layout.object(model, self.layout.object_name(id));
        let facts = self.files.stat(&path).ok()?;
        (facts.kind == Kind::File).then_some(facts.bytes)
    }

    /// Whether an object's file exists. Its bytes are not verified.
    pub fn has_object(&self, model: ModelHash, id: BlockId) -> bool {
        self.object_bytes(model, id).is_some()
    }

    /// Reads and verifies a conversation's slot file.
    pub fn get_slot(
        &self,
        model: ModelHash,
        conversation: &ConversationId,
    ) -> Result<SlotRecord, Miss> {
        self.find_slot(model, conversation).0.map_err(|rejected| rejected.miss)
    }

    /// The models with a directory, in order.
    pub fn models(&self) -> Result<Vec<ModelHash>, StoreError> {
        let root = &self.layout.root;
        let entries = self.files.list(root).map_err(io_error("read", root))?;
        let dirs = entries.iter().filter(|entry| entry.kind == Kind::Dir);
        let mut models: Vec<ModelHash> =
            dirs.filter_map(|dir| dir.name.to_str()?.parse().ok()).collect();
        models.sort();
        Ok(models)
    }

    /// A model's fingerprint.
    pub fn read_model_toml(&self, model: ModelHash) -> Result<Fingerprint, Miss> {
        let malformed = |what: String| FormatError::Record { what };
        let text = String::from_utf8(self.read_clear(&self.layout.model_toml(model))?)
            .map_err(|error| malformed(error.to_string()))?;
        let fingerprint =
            Fingerprint::from_toml(&text).map_err(|error| malformed(error.to_string()))?;
        match fingerprint.hash() {
            hash if hash == model => Ok(fingerprint),
            found => Err(Miss::OtherModel { expected: model, found }),
        }
    }

    /// The saved jumps of wall time; none when there is no file.
    pub fn clock_tracker(&self) -> ClockTracker {
        let text = self.read_clear(&self.layout.clock()).ok();
        let read = text.and_then(|text| toml::from_str(std::str::from_utf8(&text).ok()?).ok());
        read.unwrap_or_default()
    }

    /// What the eviction policy of memory has learned; `None` when there is no usable file.
    pub fn eviction_history(&self) -> Option<History> {
        let text = self.read_clear(&self.layout.eviction()).ok()?;
        let history = History::from_text(std::str::from_utf8(&text).ok()?);
        if history.is_none() {
            tracing::warn!(path = %self.layout.eviction().display(), "unusable, and ignored");
        }
        history
    }

    /// `now` with the saved jumps.
    pub fn adjusted_time(&self, now: Timestamp) -> AdjustedTime {
        self.clock_tracker().adjusted_time(now)
    }

    pub(super) fn find_object(
        &self,
        model: ModelHash,
        id: BlockId,
        kind: ObjectKind,
        buffer: Vec<u8>,
    ) -> Result<Object, Rejected> {
        let path = self.layout.object(model, self.layout.object_name(id));
        let read = |buffer| -> Result<Object, Miss> {
            let object = match &self.layout.seal {
                Some(_) => Object::decode(self.read(&path)?)?,
                None => read_object(&*self.files.open(&path)?, buffer)?,
            };
            if object.model != model {
                return Err(Miss::OtherModel { expected: model, found: object.model });
            }
            if object.kind.in_slot_file() != kind.in_slot_file() || object.id() != id {
                return Err(Miss::Misnamed { found: format!("{:?} {}", object.kind, object.id()) });
            }
            Ok(object)
        };
        read(buffer).map_err(|miss| Rejected { path: path.clone(), miss })
    }

    /// The newest slot file of a conversation: a crash during a class change leaves two. Also a
    /// file that cannot be used, if another one can.
    pub(super) fn find_slot(
        &self,
        model: ModelHash,
        conversation: &ConversationId,
    ) -> (Result<SlotRecord, Rejected>, Option<Rejected>) {
        let rank = |record: &SlotRecord| rank(record.used_at, record.turns, record.class);
        let (mut newest, mut rejected) = (None::<SlotRecord>, None);
        for (path, class) in self.layout.slot_candidates(model, conversation) {
            let read = || -> Result<SlotRecord, Miss> {
                let (found_model, record) = SlotRecord::decode(&self.read(&path)?)?;
                check_belongs(model, conversation, found_model, &record.conversation)?;
                Ok(SlotRecord { class, ..record })
            };
            match read() {
                Ok(record) if newest.as_ref().is_none_or(|newest| rank(newest) < rank(&record)) => {
                    newest = Some(record);
                }
                Ok(_) | Err(Miss::Absent) => {}
                Err(miss) => rejected = Some(Rejected { path, miss }),
            }
        }
        let absent = || Rejected { path: self.layout.model(model), miss: Miss::Absent };
        match newest {
            Some(record) => (Ok(record), rejected),
            None => (Err(rejected.unwrap_or_else(absent)), None),
        }
    }

    /// A slot file or object, decrypted.
    pub(super) fn read(&self, path: &Path) -> Result<Vec<u8>, Miss> {
        let file = self.read_clear(path)?;
        match (&self.layout.seal, Seal::is_sealed(&file)) {
            (None, false) => Ok(file),
            (Some(seal), true) => Ok(seal.open(&sealed_under(path), file)?),
            (None, true) => Err(Miss::Sealed),
            (Some(_), false) => Err(Miss::Unsealed),
        }
    }

    /// A file that is never sealed.
    fn read_clear(&self, path: &Path) -> Result<Vec<u8>, Miss> {
        let file = self.files.open(path)?;
        match file.facts()?.kind {
            Kind::File => Ok(read_all(&*file, u64::MAX)?),
            Kind::Dir | Kind::Other => Err(Miss::NoFile),
        }
    }
}

fn check_belongs(
    model: ModelHash,
    conversation: &ConversationId,
    found_model: ModelHash,
    found: &ConversationId,
) -> Result<(), Miss> {
    if found_model != model {
        return Err(Miss::OtherModel { expected: model, found: found_model });
    }
    if found != conversation {
        return Err(Miss::Misnamed { found: format!("conversation {found}") });
    }
    Ok(())
}
