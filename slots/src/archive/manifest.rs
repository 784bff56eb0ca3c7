//! The manifest of an archive.

use serde::{Deserialize, Serialize, Serializer};
use sha2::{Digest, Sha256};

use super::ArchiveError;
use crate::fingerprint::{FileDigest, Fingerprint};
use crate::format::ObjectKind;
use crate::id::{BlockId, ConversationId, ModelHash};
use crate::ttl::TtlClass;

pub const MANIFEST: &str = "manifest.toml";

const FORMAT: &str = "hob slots";
const VERSION: u16 = 1;

/// The content of `manifest.toml`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    format: String,
    version: u16,
    /// In seconds since 1970.
    pub created_at: u64,
    pub model: ModelHash,
    /// The fields of the model's fingerprint, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<Fingerprint>,
    #[serde(default, rename = "conversation")]
    pub conversations: Vec<ManifestConversation>,
    #[serde(default, rename = "object")]
    pub objects: Vec<ManifestObject>,
}

/// A conversation in an archive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ManifestConversation {
    pub id: ConversationId,
    #[serde(serialize_with = "as_file_word")]
    pub class: TtlClass,
    /// The length of its timeline.
    pub tokens: u32,
    #[serde(flatten)]
    pub entry: ManifestEntry,
}

/// An object in an archive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ManifestObject {
    pub id: BlockId,
    pub kind: Kind,
    #[serde(flatten)]
    pub entry: ManifestEntry,
}

/// The length and checksum of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ManifestEntry {
    pub bytes: u64,
    pub sha256: FileDigest,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    Block,
    Snapshot,
}

impl Manifest {
    pub(super) fn new(model: ModelHash, fingerprint: Option<Fingerprint>, created_at: u64) -> Self {
        Self {
            format: FORMAT.to_owned(),
            version: VERSION,
            created_at,
            model,
            fingerprint,
            conversations: Vec::new(),
            objects: Vec::new(),
        }
    }

    pub(super) fn to_toml(&self) -> String {
        toml::to_string(self).expect("a manifest has only texts, numbers and tables")
    }

    pub(super) fn from_toml(text: &str) -> Result<Self, ArchiveError> {
        /// The fields of every version.
        #[derive(Deserialize)]
        struct Head {
            format: String,
            version: u16,
        }
        let malformed = |error: toml::de::Error| ArchiveError::NotABundle {
            what: format!("its manifest is malformed: {}", error.message()),
        };
        let head: Head = toml::from_str(text).map_err(malformed)?;
        if head.format != FORMAT {
            return Err(ArchiveError::NotABundle { what: "its manifest is another one".into() });
        }
        if head.version != VERSION {
            return Err(ArchiveError::Newer { version: head.version });
        }
        let manifest: Self = toml::from_str(text).map_err(malformed)?;
        match &manifest.fingerprint {
            Some(fingerprint) if fingerprint.hash() != manifest.model => {
                Err(ArchiveError::Damaged {
                    entry: MANIFEST.to_owned(),
                    what: "its fingerprint belongs to another model".to_owned(),
                })
            }
            _ => Ok(manifest),
        }
    }
}

impl ManifestEntry {
    pub(super) fn of(bytes: &[u8]) -> Self {
        Self { bytes: bytes.len() as u64, sha256: FileDigest(Sha256::digest(bytes).into()) }
    }
}

impl From<ObjectKind> for Kind {
    fn from(kind: ObjectKind) -> Self {
        match kind {
            ObjectKind::Block | ObjectKind::Lossy => Self::Block,
            ObjectKind::Snapshot | ObjectKind::Partial => Self::Snapshot,
        }
    }
}

fn as_file_word<S: Serializer>(class: &TtlClass, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(class.file_word())
}

pub fn slot_entry(number: usize) -> String {
    format!("slots/{number}.bin")
}

pub fn object_entry(id: BlockId) -> String {
    format!("objects/{id}.kv")
}
