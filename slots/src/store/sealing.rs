//! A directory whose slot files and objects only the holder of a key can read.
//!
//! - The names of conversations and blocks are hidden too. The directories' names and `model.toml`
//!   tell which models were run, and lengths and times tell how much was said, and when.
//! - A directory keeps a sealed word, so that the wrong key is refused before it makes every file
//!   look damaged.
//! - What lay in the directory in clear before is not read any more; the sweep removes it. KV can be
//!   computed again.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::error::{StoreError, io_error};
use super::files::{Disk, Files, write_all};
use crate::format::Seal;

/// What a directory's word is sealed under, and the word.
pub(super) const CHECK: (&[u8], &[u8]) = (b"key.check", b"this key opens this directory");

/// The key of sealed directories, and where it was read.
#[derive(Clone, Debug)]
pub struct Key {
    pub(super) seal: Arc<Seal>,
    pub(super) file: PathBuf,
}

impl Key {
    /// Reads the key in `file`: 64 hex digits. Without a file, one is made with a new key in it.
    pub fn load_or_make(file: &Path) -> Result<Self, StoreError> {
        match Self::load(file) {
            Err(StoreError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {}
            loaded => return loaded,
        }
        let mut key = [0; 32];
        getrandom::fill(&mut key).map_err(|error| {
            io_error("make a key for", file)(io::Error::other(error.to_string()))
        })?;
        if let Some(dir) = file.parent() {
            fs::create_dir_all(dir).map_err(io_error("make", dir))?;
        }
        let text = format!("{}\n", crate::id::hex_text(&key));
        let written = Disk.create(file).and_then(|mut made| {
            write_all(&mut *made, text.as_bytes())?;
            made.sync()
        });
        match written {
            // Another process was faster: its key counts.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Self::load(file),
            written => {
                written.map_err(io_error("write the key to", file))?;
                Ok(Self { seal: Arc::new(Seal::new(key)), file: file.to_owned() })
            }
        }
    }

    /// Reads the key in `file`, which must be there and for its owner alone.
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

/// What a file is sealed under: its name up to the first dot, so that changing a conversation's
/// class, which is behind the dot, is a matter of renaming.
pub fn sealed_under(path: &Path) -> Vec<u8> {
    let name = path.file_name().expect("files have names").as_encoded_bytes();
    name.split(|&byte| byte == b'.').next().unwrap_or_default().to_owned()
}
