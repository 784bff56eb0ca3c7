//! What was learned, as a JSON file for each model: `learned/<fingerprint>.json`.
//!
//! - A write replaces the file atomically; readable for its owner only.
//! - A missing, damaged or newer file counts as empty: the prefixes are learned again.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use hob_prewarm::learned::LearnedMemory;
use hob_slots::ModelHash;
use parking_lot::Mutex;
use tempfile::NamedTempFile;

use crate::private_dir;

pub struct MemoryFile {
    path: PathBuf,
    /// One write at a time, so that an older memory never replaces a newer one.
    writing: Mutex<()>,
}

impl MemoryFile {
    pub fn of(directory: &Path, fingerprint: ModelHash) -> Self {
        Self { path: directory.join(format!("{fingerprint}.json")), writing: Mutex::new(()) }
    }

    pub fn read(&self) -> LearnedMemory {
        let text = match fs::read(&self.path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return LearnedMemory::default();
            }
            Err(error) => {
                tracing::warn!(path = %self.path.display(), %error, "cannot read learned prefixes");
                return LearnedMemory::default();
            }
        };
        serde_json::from_slice(&text).unwrap_or_else(|error| {
            tracing::warn!(path = %self.path.display(), %error, "learned prefixes are damaged");
            LearnedMemory::default()
        })
    }

    /// Writes the memory as it is when the write begins. A failure is logged.
    pub fn write(&self, memory: impl FnOnce() -> LearnedMemory) {
        let _one_at_a_time = self.writing.lock();
        if let Err(error) = self.replace(&memory()) {
            tracing::warn!(path = %self.path.display(), %error, "cannot save learned prefixes");
        }
    }

    fn replace(&self, memory: &LearnedMemory) -> io::Result<()> {
        let directory = self.path.parent().unwrap_or(Path::new("."));
        private_dir::create(directory)?;
        let mut file = NamedTempFile::new_in(directory)?;
        file.write_all(&serde_json::to_vec(memory)?)?;
        file.as_file().sync_all()?;
        file.persist(&self.path)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_and_a_damaged_file_count_as_empty() {
        let directory = tempfile::tempdir().unwrap();
        let file = MemoryFile::of(&directory.path().join("learned"), ModelHash([1; 8]));
        assert_eq!(file.read(), LearnedMemory::default());
        file.write(LearnedMemory::default);
        assert_eq!(file.read(), LearnedMemory::default());
        fs::write(&file.path, "{\"prompts\": 5}").unwrap();
        assert_eq!(file.read(), LearnedMemory::default());
    }
}
