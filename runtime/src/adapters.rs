//! The LoRA adapters of a turn: the content that names their KV, and their files.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use hob_slots::{AdapterSet, AdapterSetError, Lora};

/// What tells that a file was replaced: its length and the time of its last change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileIdentity(u64, Option<SystemTime>);

impl FileIdentity {
    /// The identity of a missing file is the default.
    pub fn of(path: &Path) -> Self {
        let facts = fs::metadata(path).ok();
        facts.map_or(Self::default(), |facts| Self(facts.len(), facts.modified().ok()))
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct AdapterFile {
    /// As people know it.
    pub name: String,
    pub path: PathBuf,
    /// From before its content was hashed.
    pub identity: FileIdentity,
    pub lora: Lora,
}

impl AdapterFile {
    /// The file is not the one that was hashed.
    pub(crate) fn has_changed(&self) -> bool {
        FileIdentity::of(&self.path) != self.identity
    }
}

/// The adapters that a turn adds to those of the model.
#[derive(Clone, Debug, Default)]
pub struct Adapters {
    set: AdapterSet,
    /// The files of the adapters in `set`.
    files: Arc<[AdapterFile]>,
}

impl Adapters {
    /// Leaves out files without effect.
    ///
    /// # Errors
    /// For a factor that is not finite, and for a content that occurs twice.
    pub fn new(mut files: Vec<AdapterFile>) -> Result<Self, AdapterSetError> {
        let set = AdapterSet::new(files.iter().map(|file| file.lora.clone()).collect())?;
        files.retain(|file| set.loras().contains(&file.lora));
        Ok(Self { set, files: files.into() })
    }

    /// What names their KV.
    pub fn set(&self) -> &AdapterSet {
        &self.set
    }

    pub fn files(&self) -> &[AdapterFile] {
        &self.files
    }

    pub fn is_empty(&self) -> bool {
        self.set.is_empty()
    }
}
