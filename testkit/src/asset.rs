//! The files of the repository that tests read.

use std::path::{Path, PathBuf};

/// A file of the repository's `assets`.
pub fn asset(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../assets").join(name)
}
