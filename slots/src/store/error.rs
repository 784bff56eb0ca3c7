//! Why something is not there, and why a directory cannot be changed.

use std::io;
use std::path::{Path, PathBuf};

use crate::format::FormatError;
use crate::id::ModelHash;

/// Why kept KV cannot be had. Costs a prefill, never an answer.
#[derive(Debug, thiserror::Error)]
pub enum Miss {
    /// It was never saved, or has left.
    #[error("it is not on disk")]
    Absent,
    /// Its bytes are not what was written.
    #[error("its file is damaged: {reason}")]
    Damaged {
        /// What is wrong with them.
        reason: FormatError,
    },
    /// The file is whole but holds something else than its name says.
    #[error("its file holds {found} instead")]
    Misnamed {
        /// What the file holds.
        found: String,
    },
    /// The file is whole but another model computed it.
    #[error("its file belongs to model {found}, not to {expected}")]
    OtherModel {
        /// The model that was asked for.
        expected: ModelHash,
        /// The model that the file belongs to.
        found: ModelHash,
    },
    /// A later version of Hob wrote the file.
    #[error("its file has format version {version}, which a later version of Hob wrote")]
    Newer {
        /// The file's version.
        version: u16,
    },
    /// It is encrypted, and no key was given.
    #[error("its file is encrypted: set slots_encrypt = true to use it")]
    Sealed,
    /// It lies in clear where everything is encrypted: nobody who has the key wrote it.
    #[error("its file is not encrypted although the others are")]
    Unsealed,
    /// Something else has its name.
    #[error("what has its name is no file")]
    NoFile,
    /// The file system refused.
    #[error("its file cannot be read: {source}")]
    Io {
        /// What it said.
        source: io::Error,
    },
}

impl Miss {
    /// Whether nobody will ever be able to use the file. A later version can use a newer one, and
    /// a file system that failed once may not fail again.
    pub fn condemns_the_file(&self) -> bool {
        match self {
            Self::Damaged { .. }
            | Self::Misnamed { .. }
            | Self::OtherModel { .. }
            | Self::Unsealed => true,
            Self::Absent | Self::Sealed | Self::NoFile | Self::Newer { .. } | Self::Io { .. } => {
                false
            }
        }
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

/// A file that cannot be used, and why.
#[derive(Debug)]
pub struct Rejected {
    /// Where it is.
    pub path: PathBuf,
    /// Why it cannot be used.
    pub miss: Miss,
}

/// Why a directory cannot be opened or changed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Another process owns the directory.
    #[error("{} is in use by {owner}", dir.display())]
    Owned {
        /// The directory.
        dir: PathBuf,
        /// Who owns it, as far as that can be told.
        owner: String,
    },
    /// The directory's files were encrypted with another key.
    #[error(
        "what is kept in {} was encrypted with another key than {} holds: put the right key \
         there, or remove the directory",
        dir.display(),
        key.display()
    )]
    OtherKey {
        /// The directory.
        dir: PathBuf,
        /// Where the key was read.
        key: PathBuf,
    },
    /// The key cannot be used.
    #[error("the key in {} {problem}", key.display())]
    BadKey {
        /// Where it was read.
        key: PathBuf,
        /// What is wrong, and the remedy.
        problem: &'static str,
    },
    /// The collector cannot tell which objects a slot file needs, so it collects nothing.
    #[error("cannot tell what {} needs: {miss}", path.display())]
    Unreadable {
        /// The slot file.
        path: PathBuf,
        /// Why it cannot be read.
        miss: Miss,
    },
    /// What was changed in a directory is seen, but may not outlive a power cut.
    #[error("cannot make durable what changed in {}: {source}", dir.display())]
    Unsynced {
        /// The directory.
        dir: PathBuf,
        /// What the file system said.
        source: io::Error,
    },
    /// The file system refused.
    #[error("cannot {doing} {}: {source}", path.display())]
    Io {
        /// What was tried.
        doing: &'static str,
        /// On which file or directory.
        path: PathBuf,
        /// What it said.
        source: io::Error,
    },
}

pub fn io_error(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> StoreError {
    move |source| StoreError::Io { doing, path: path.to_owned(), source }
}
