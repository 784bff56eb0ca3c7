//! The files that hobd has written.

use std::fs;
use std::path::{Path, PathBuf};

/// Every file below `directory`, sorted; one that is removed meanwhile is left out.
pub fn below(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut waiting = vec![directory.to_owned()];
    while let Some(directory) = waiting.pop() {
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            let path = entry.path();
            let group = if path.is_dir() { &mut waiting } else { &mut found };
            group.push(path);
        }
    }
    found.sort();
    found
}

/// The files whose names end with `.` and `extension`.
pub fn with_extension(directory: &Path, extension: &str) -> Vec<PathBuf> {
    let mut files = below(directory);
    files.retain(|path| path.extension().is_some_and(|found| found == extension));
    files
}
