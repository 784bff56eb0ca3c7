//! Why an archive cannot be made or taken in.

use std::io;

use crate::id::ModelHash;
use crate::store::{Miss, StoreError};

/// What is wrong.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// It is something else.
    #[error("it is no archive of `hob slots export`: {what}")]
    NotABundle {
        /// What is missing.
        what: String,
    },
    /// A later version of Hob made it.
    #[error(
        "it has version {version}, which a later version of Hob made; this one reads version 1"
    )]
    Newer {
        /// The archive's version.
        version: u16,
    },
    /// Something in it is not what the manifest says.
    #[error("it is damaged: {entry}: {what}")]
    Damaged {
        /// Where.
        entry: String,
        /// In which way.
        what: String,
    },
    /// It was made with a model that nobody uses here.
    #[error(
        "it was made with a model that is not known here ({fingerprint}{difference}): its KV means \
         nothing to another one; --keep-foreign takes it all the same"
    )]
    Foreign {
        /// The archive's model.
        fingerprint: ModelHash,
        /// In what it differs from the nearest one that is known here, for people.
        difference: String,
    },
    /// What is to be exported is not there.
    #[error("no KV of `{conversation}` is kept")]
    Absent {
        /// Whose.
        conversation: String,
    },
    /// What is to be exported is kept for several models.
    #[error(
        "`{conversation}` is kept for several models ({}): choose one with --fingerprint",
        models.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
    )]
    Ambiguous {
        /// Whose.
        conversation: String,
        /// Which ones.
        models: Vec<ModelHash>,
    },
    /// What is to be exported cannot be read whole.
    #[error(
        "`{conversation}` is not whole: {what}: {miss}; `hob slots verify` tells more, and its next \
         turn makes it whole again"
    )]
    NotWhole {
        /// Whose.
        conversation: String,
        /// Which of its files.
        what: String,
        /// Why.
        miss: Miss,
    },
    /// The directory cannot be read or changed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The archive cannot be read or written.
    #[error("it cannot be read or written: {0}")]
    Io(#[from] io::Error),
}
