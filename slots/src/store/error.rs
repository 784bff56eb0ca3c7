//! Why saved KV cannot be read, and why a directory cannot be opened or changed.

use std::io;
use std::path::{Path, PathBuf};

use crate::format::FormatError;
use crate::id::ModelHash;

/// Why saved KV cannot be used. A miss costs a prefill, never a wrong token.
#[derive(Debug, thiserror::Error)]
pub enum Miss {
    /// Never saved, or removed.
    #[error("it is not on disk")]
    Absent,
    #[error("its file is damaged: {reason}")]
    Damaged { reason: FormatError },
    /// A valid file under another's name.
    #[error("its file holds {found} instead")]
    Misnamed { found: String },
    /// A valid file of another model.
    #[error("its file belongs to model {found}, not to {expected}")]
    OtherModel { expected: ModelHash, found: ModelHash },
    #[error("its file has format version {version}, which a later version of Hob wrote")]
    Newer { version: u16 },
    /// An encrypted file, read without a key.
    #[error("its file is encrypted: set slots_encrypt = true to use it")]
    Sealed,
    /// A clear file in an encrypted directory: its author had no key.
    #[error("its file is not encrypted although the others are")]
    Unsealed,
    /// Valid bytes that ended the process, or others of their conversation did.
    #[error("the engine crashed {times} times in a row while it used it")]
    Crashed { times: u32 },
    /// A directory, a link or a pipe.
    #[error("not a regular file")]
    NoFile,
    #[error("its file cannot be read: {source}")]
    Io { source: io::Error },
}

impl Miss {
    /// Whether no reader can ever use the file. A later version of Hob can read a newer file, and a
    /// failed read may succeed next time.
    pub fn condemns_the_file(&self) -> bool {
        match self {
            Self::Damaged { .. }
            | Self::Misnamed { .. }
            | Self::OtherModel { .. }
            | Self::Crashed { .. }
            | Self::Unsealed => true,
            Self::Absent | Self::Sealed | Self::NoFile | Self::Newer { .. } | Self::Io { .. } => {
                false
            }
        }
    }

    /// Whether a slot file may name any object of this directory: another read of it may tell. What a sealed one and one
    /// of a later version may name is bounded, see [`Hidden`](super::Hidden).
    pub fn hides_objects(&self) -> bool {
        !self.condemns_the_file() && !matches!(self, Self::Sealed | Self::Newer { .. })
    }
}

impl From<FormatError> for Miss {
    fn from(error: FormatError) -> Self {
        match error {
            FormatError::Newer { version, .. } => Self::Newer { version },
            reason => Self::Damaged { reason },
        }
    }
}

impl From<io::Error> for Miss {
    fn from(source: io::Error) -> Self {
        match source.kind() {
            io::ErrorKind::NotFound => Self::Absent,
            _ => Self::Io { source },
        }
    }
}

#[derive(Debug)]
pub struct Rejected {
    pub path: PathBuf,
    pub miss: Miss,
}

#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("{} is in use by {owner}", dir.display())]
    Owned { dir: PathBuf, owner: String },
    #[error(
        "the files in {} were encrypted with another key than the one in {}: put the right key \
         there, or remove the directory",
        dir.display(),
        key.display()
    )]
    OtherKey { dir: PathBuf, key: PathBuf },
    #[error(
        "the key file {} is missing, and files in {} were encrypted with its key: put the file back, or remove the \
         directory",
        key.display(),
        dir.display()
    )]
    MissingKey { dir: PathBuf, key: PathBuf },
    #[error("the key in {} {problem}", key.display())]
    BadKey { key: PathBuf, problem: &'static str },
    /// The collector cannot read a slot file, so it removes no object of its model.
    #[error("cannot tell which objects {} references: {miss}", path.display())]
    Unreadable { path: PathBuf, miss: Miss },
    /// The change is visible, but a power cut may undo it.
    #[error("cannot sync the directory {}: {source}; a power cut may undo its last change", dir.display())]
    Unsynced { dir: PathBuf, source: io::Error },
    #[error("cannot {doing} {}: {source}", path.display())]
    Io { doing: &'static str, path: PathBuf, source: io::Error },
}

pub fn io_error(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> StoreError {
    move |source| StoreError::Io { doing, path: path.to_owned(), source }
}
