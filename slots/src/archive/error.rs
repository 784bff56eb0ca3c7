//! Why an export or import failed.

use std::io;

use crate::id::ModelHash;
use crate::store::{Miss, StoreError};

#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    #[error(
        "not an archive of `hob slots export`, a tar that begins with manifest.toml: {what}; `hob slots export` writes \
         the KV of conversations to one, and `hob import` imports the text of conversations"
    )]
    NotABundle { what: String },
    #[error(
        "it has version {version}, which a later version of Hob made; this one reads version 1"
    )]
    Newer { version: u16 },
    #[error("it is damaged: {entry}: {what}")]
    Damaged { entry: String, what: String },
    #[error(
        "it was made with a model that is not known here ({fingerprint}{difference}): its KV means \
         nothing to another one; --keep-foreign imports it anyway"
    )]
    Foreign {
        fingerprint: ModelHash,
        /// The fields in which it differs from the most similar model here, for people.
        difference: String,
    },
    #[error("`{conversation}` has no saved KV")]
    Absent { conversation: String },
    #[error(
        "`{conversation}` has saved KV for several models ({}): choose one with --fingerprint",
        listed(models)
    )]
    Ambiguous { conversation: String, models: Vec<ModelHash> },
    #[error(
        "`{conversation}` has saved KV for {}, and those before it for {}: an archive has one model, so export it to another \
         file",
        listed(theirs),
        listed(models)
    )]
    OtherModel {
        conversation: String,
        theirs: Vec<ModelHash>,
        /// The models that all conversations before it have KV for.
        models: Vec<ModelHash>,
    },
    #[error(
        "`{conversation}` is not whole: {what}: {miss}; `hob slots verify` shows more, and its next \
         turn makes it whole again"
    )]
    NotWhole { conversation: String, what: String, miss: Miss },
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("it cannot be read or written: {0}")]
    Io(#[from] io::Error),
}

fn listed(models: &[ModelHash]) -> String {
    models.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
