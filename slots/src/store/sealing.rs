//! A directory with encrypted slot files and objects.
//!
//! - The names of conversations and blocks are hidden too. Directory names and `model.toml` show
//!   which models ran; lengths and times show how much was said, and when.
//! - The directory contains a sealed word, so a wrong key is refused before every file looks
//!   damaged.
//! - Clear files from before encryption are not read; the sweep deletes them, also those in quarantine. They can
//!   be recomputed.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::error::{Miss, StoreError, io_error};
use super::files::{Disk, Files, write_all};
use super::layout::{Layout, ObjectName};
use super::{Store, write};
use crate::format::Seal;
use crate::id::{BlockId, ConversationId, ModelHash};

/// The name and the content of the sealed word.
pub(super) const CHECK: (&[u8], &[u8]) = (b"key.check", b"this key opens this directory");

/// A key and the file that it came from.
#[derive(Clone, Debug)]
pub struct Key {
    pub(super) seal: Arc<Seal>,
    pub(super) file: PathBuf,
}

impl Key {
    /// Reads the key in `file`: 64 hex digits. Creates the file with a new key if it is missing.
    pub fn load_or_make(file: &Path) -> Result<Self, StoreError> {
        Self::load_or_make_on(&Disk, file)
    }

    /// [`Key::load_or_make`], which writes to this disk.
    pub fn load_or_make_on(disk: &dyn Files, file: &Path) -> Result<Self, StoreError> {
        match Self::load(file) {
            Err(StoreError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {}
            loaded => return loaded,
        }
        let mut key = [0; 32];
        getrandom::fill(&mut key).map_err(|error| {
            io_error("make a key for", file)(io::Error::other(error.to_string()))
        })?;
        let dir = file.parent().filter(|dir| !dir.as_os_str().is_empty());
        let dir = dir.unwrap_or(Path::new("."));
        write::ensure_root(disk, dir)?;
        // The user may make the directory a link, or one above it; `create` follows none.
        let dir = &disk.resolve(dir).map_err(io_error("find", dir))?;
        let place = &dir.join(file.file_name().unwrap_or_default());
        let mut made = match disk.create(place) {
            // Another process created it first: its key counts.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Self::load(file),
            made => made.map_err(io_error("write the key to", file))?,
        };
        let text = format!("{}\n", crate::id::hex_text(&key));
        let written = write_all(&mut *made, text.as_bytes()).and_then(|()| made.sync());
        if written.is_err() {
            // Each later start would refuse the part of a key that a full disk leaves. An error: the file stays, and
            // its refusal names the remedy.
            disk.remove(place).ok();
        }
        // The sealed files are durable; without the key, no program can read them after a power cut.
        let written = written.and_then(|()| disk.sync_dir(dir));
        written.map_err(io_error("write the key to", file))?;
        Ok(Self { seal: Arc::new(Seal::new(key)), file: file.to_owned() })
    }

    /// Reads the key in `file`, which only its owner may be able to read.
    pub fn load(file: &Path) -> Result<Self, StoreError> {
        let bad = |problem| StoreError::BadKey { key: file.to_owned(), problem };
        let text = fs::read_to_string(file).map_err(io_error("read the key in", file))?;
        let facts = fs::metadata(file).map_err(io_error("read the rights of", file))?;
        if facts.permissions().mode() & 0o077 != 0 {
            return Err(bad("can be read by others: `chmod 600` it, or make a new one"));
        }
        let key = crate::id::parse_hex::<32>("key", text.trim()).map_err(|_| {
            bad("is not 64 hex digits: put the right one there, or remove the file")
        })?;
        Ok(Self { seal: Arc::new(Seal::new(key)), file: file.to_owned() })
    }

    #[cfg(test)]
    pub(super) fn of(byte: u8) -> Self {
        Self { seal: Arc::new(Seal::new([byte; 32])), file: PathBuf::from("a key") }
    }
}

/// Names and bytes of copies that leave the directory: hidden and sealed as its own files are, under the
/// same key; clear where those are clear.
#[derive(Clone, Debug)]
pub struct Sealing(pub(super) Layout);

impl Sealing {
    /// The name of a conversation's copies.
    pub fn conversation(&self, id: &ConversationId) -> String {
        self.0.stem(id)
    }

    /// The name of an object's copies.
    pub fn object(&self, id: BlockId) -> String {
        self.0.object_name(id).to_string()
    }

    /// The bytes of a copy, which opens under `name` alone.
    pub fn seal(&self, name: &str, clear: Vec<u8>) -> Vec<u8> {
        match &self.0.seal {
            Some(seal) => seal.seal(name.as_bytes(), &[&clear]),
            None => clear,
        }
    }

    /// The clear bytes of a copy.
    pub fn open(&self, name: &str, copy: Vec<u8>) -> Result<Vec<u8>, Miss> {
        match (&self.0.seal, Seal::is_sealed(&copy)) {
            (None, false) => Ok(copy),
            (Some(seal), true) => Ok(seal.open(name.as_bytes(), copy)?),
            (None, true) => Err(Miss::Sealed),
            (Some(_), false) => Err(Miss::Unsealed),
        }
    }
}

impl Store {
    /// Removes what a sealed directory has in clear from before, beside its slot files and objects: files in quarantine,
    /// and crash marks, which are named after conversations. Returns the bytes freed of the former.
    pub fn remove_clear_leftovers(&self, model: ModelHash) -> Result<u64, StoreError> {
        let mut freed = 0;
        if !self.hides_names() {
            return Ok(freed);
        }
        for file in self.quarantined(model)? {
            if !self.may_be_sealed(&file.path) {
                freed += self.remove_quarantined(&file)?;
            }
        }
        let marks = self.layout.crash_marks(model);
        for mark in write::list(&*self.files, &marks)? {
            let name = mark.name.to_str().and_then(|name| name.parse::<ObjectName>().ok());
            if name.is_none() {
                write::remove(&*self.files, &marks.join(&mark.name))?;
            }
        }
        Ok(freed)
    }
}

/// The name that a file is sealed under: up to the first dot, so a class change is a rename.
pub fn sealed_under(path: &Path) -> Vec<u8> {
    let name = path.file_name().expect("files have names").as_encoded_bytes();
    name.split(|&byte| byte == b'.').next().unwrap_or_default().to_owned()
}
