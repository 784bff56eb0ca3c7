//! The directory of kept KV, and nothing about what deserves to be kept.
//!
//! - [`Store`] is the one owner of a directory; it writes, removes and quarantines.
//!   [`StoreReader`] reads beside an owner and changes nothing.
//! - A file appears under its name whole or not at all: temporary file, sync, rename, sync of the
//!   directory. Whoever saves puts objects first and the slot file last.
//! - What is handed out was verified, every byte of it, in the buffer that is handed out, and its
//!   content has the name that it was asked for. Anything else is a [`Miss`] with a reason.
//! - Objects never change, so writing one twice writes it once.

use std::fs::{self, File};
use std::io;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use tracing::warn;

use crate::fingerprint::Fingerprint;
use crate::format::{Object, ObjectHeader, ObjectKind, SlotRecord};
use crate::id::{BlockId, ConversationId, ModelHash};

mod error;
mod garbage;
mod layout;
mod listing;
mod owner;
mod reader;
#[cfg(test)]
mod tests;
mod write;

pub use error::{Miss, Rejected, StoreError};
pub use garbage::{Garbage, SAVE_GRACE};
pub use listing::{Listing, SlotContents, SlotEntry};
pub use reader::StoreReader;

use error::io_error;
use owner::Owner;
use write::TempFile;

/// A directory of kept KV that this process owns until the value is dropped.
#[derive(Debug)]
pub struct Store {
    reader: StoreReader,
    // Held between looking at an object and acting on it: a save must not rely on an object that
    // the collector is about to remove.
    objects: Mutex<()>,
    _owner: Owner,
}

/// Everything that can be read can be read through the owner too.
impl Deref for Store {
    type Target = StoreReader;
    fn deref(&self) -> &StoreReader {
        &self.reader
    }
}

impl Store {
    /// Takes ownership of `dir`, which is made when it is not there, and removes what writers that
    /// died left unfinished.
    pub fn open(dir: impl Into<PathBuf>) -> Result<Self, StoreError> {
        let dir = dir.into();
        write::ensure_dir(&dir)?;
        let owner = Owner::acquire(&dir)?;
        let store = Self { reader: StoreReader::at(dir), objects: Mutex::new(()), _owner: owner };
        for model in store.models()? {
            write::empty_dir(&store.layout.temporary(model))?;
        }
        Ok(store)
    }

    /// What reads this directory, for whoever must not write.
    pub fn reader(&self) -> &StoreReader {
        &self.reader
    }

    /// Writes an object unless it is there already. Returns the bytes written.
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
        let path = self.layout.object(model, id);
        if self.renew(&path, object) {
            return Ok(0);
        }
        let head = object.encode_head();
        self.write(model, &path, &[&head, &object.payload])?;
        Ok(object.file_bytes())
    }

    /// Reads and verifies an object. What fails moves to quarantine.
    pub fn get_object(
        &self,
        model: ModelHash,
        id: BlockId,
        kind: ObjectKind,
    ) -> Result<Object, Miss> {
        self.reader.find_object(model, id, kind).map_err(|rejected| self.reject(model, rejected))
    }

    /// Writes a conversation's slot file in place of the one it had, whatever that one's class
    /// was. Returns the bytes written.
    pub fn put_slot(&self, model: ModelHash, record: &SlotRecord) -> Result<u64, StoreError> {
        let file = record.encode(model);
        let path = self.layout.slot(model, &record.conversation, record.class);
        self.write(model, &path, &[&file])?;
        let others = self.layout.slot_candidates(model, &record.conversation);
        self.remove_files(
            model,
            others.into_iter().map(|(other, _)| other).filter(|p| *p != path),
        )?;
        Ok(file.len() as u64)
    }

    /// Reads and verifies a conversation's slot file. What fails moves to quarantine.
    pub fn get_slot(
        &self,
        model: ModelHash,
        conversation: &ConversationId,
    ) -> Result<SlotRecord, Miss> {
        let found = self.reader.find_slot(model, conversation);
        found.map_err(|rejected| self.reject(model, rejected))
    }

    /// Removes a conversation's slot file; its objects stay until they are collected. Returns
    /// whether there was one.
    pub fn remove_slot(
        &self,
        model: ModelHash,
        conversation: &ConversationId,
    ) -> Result<bool, StoreError> {
        let candidates = self.layout.slot_candidates(model, conversation);
        self.remove_files(model, candidates.into_iter().map(|(path, _)| path))
    }

    /// Keeps beside a model's files what its directory is named after.
    pub fn write_model_toml(&self, fingerprint: &Fingerprint) -> Result<(), StoreError> {
        let model = fingerprint.hash();
        let (path, text) = (self.layout.model_toml(model), fingerprint.to_toml());
        if fs::read(&path).is_ok_and(|there| there == text.as_bytes()) {
            return Ok(());
        }
        self.write(model, &path, &[text.as_bytes()])
    }

    /// Whether the very object is at `path`, which then counts as new again for the collector.
    fn renew(&self, path: &Path, object: &Object) -> bool {
        let _guard = self.objects.lock().unwrap_or_else(PoisonError::into_inner);
        let renewed = || -> io::Result<bool> {
            let mut file = File::options().read(true).write(true).open(path)?;
            let len = file.metadata()?.len();
            let mut head = [0; ObjectHeader::BYTES];
            io::Read::read_exact(&mut file, &mut head)?;
            // A file that was cut short, or that a later version wrote, is written again.
            let same = len == object.file_bytes() && ObjectHeader::decode(&head).is_ok();
            if same {
                file.set_modified(SystemTime::now())?;
            }
            Ok(same)
        };
        renewed().unwrap_or(false)
    }

    fn write(&self, model: ModelHash, path: &Path, parts: &[&[u8]]) -> Result<(), StoreError> {
        let mut file = TempFile::create(&self.layout.temporary(model))?;
        for part in parts {
            file.write(part)?;
        }
        file.commit(path)
    }

    fn remove_files(
        &self,
        model: ModelHash,
        paths: impl Iterator<Item = PathBuf>,
    ) -> Result<bool, StoreError> {
        let mut removed = false;
        for path in paths {
            match fs::remove_file(&path) {
                Ok(()) => removed = true,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(io_error("remove", &path)(error)),
            }
        }
        if removed {
            write::sync_dir(&self.layout.model(model))?;
        }
        Ok(removed)
    }

    /// Moves a file that failed out of the way, so that it fails once, and returns why it did.
    fn reject(&self, model: ModelHash, rejected: Rejected) -> Miss {
        let Rejected { path, miss } = rejected;
        if miss.condemns_the_file() {
            warn!(file = %path.display(), reason = %miss, "file rejected");
            if let Err(error) = write::quarantine(&self.layout.quarantine(model), &path, &miss) {
                warn!(file = %path.display(), %error, "rejected file stays where it is");
            }
        }
        miss
    }
}
