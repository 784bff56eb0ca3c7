//! A small JSON file, such as `<directory>/<fingerprint>.json` of what was found out of one model.
//!
//! - A write replaces the file atomically; readable for its owner only.
//! - A missing, damaged or newer file counts as empty: what it had is found out again.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use hob_slots::ModelHash;
use parking_lot::Mutex;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tempfile::NamedTempFile;

use crate::private_dir;

#[derive(Debug)]
pub struct JsonFile {
    path: PathBuf,
    /// One write at a time, so that an older content never replaces a newer one.
    writing: Mutex<()>,
}

impl JsonFile {
    pub fn of(directory: &Path, fingerprint: ModelHash) -> Self {
        Self::at(directory.join(format!("{fingerprint}.json")))
    }

    pub fn at(path: PathBuf) -> Self {
        Self { path, writing: Mutex::new(()) }
    }

    /// A failure is logged.
    pub fn read<T: Default + DeserializeOwned>(&self) -> T {
        let path = self.path.display();
        let text = match fs::read(&self.path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return T::default(),
            Err(error) => {
                tracing::warn!(%path, %error, "unreadable, and counts as empty");
                return T::default();
            }
        };
        serde_json::from_slice(&text).unwrap_or_else(|error| {
            tracing::warn!(%path, %error, "damaged, and counts as empty");
            T::default()
        })
    }

    /// Writes the content as it is when the write begins. A failure is logged.
    pub fn write<T: Serialize>(&self, content: impl FnOnce() -> T) {
        let _one_at_a_time = self.writing.lock();
        if let Err(error) = self.replace(&content()) {
            tracing::warn!(path = %self.path.display(), %error, "cannot write the file");
        }
    }

    fn replace(&self, content: &impl Serialize) -> io::Result<()> {
        let directory = self.path.parent().unwrap_or(Path::new("."));
        private_dir::create(directory)?;
        let mut file = NamedTempFile::new_in(directory)?;
        file.write_all(&serde_json::to_vec(content)?)?;
        file.as_file().sync_all()?;
        file.persist(&self.path)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn a_missing_and_a_damaged_file_count_as_empty() {
        let directory = tempfile::tempdir().unwrap();
        let file = JsonFile::of(&directory.path().join("found"), ModelHash([1; 8]));
        let read = || file.read::<BTreeMap<String, u64>>();
        assert_eq!(read(), BTreeMap::new());
        let content = BTreeMap::from([("prompts".to_owned(), 5)]);
        file.write(|| content.clone());
        assert_eq!(read(), content);
        for damaged in [r#"{"prompts": "#, r#"{"prompts": "five"}"#] {
            fs::write(&file.path, damaged).unwrap();
            assert_eq!(read(), BTreeMap::new());
        }
    }
}
