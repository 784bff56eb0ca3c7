//! The files that an engine has written.

use std::path::{Path, PathBuf};

/// Every file below a directory, sorted; one that is removed meanwhile is left out.
pub fn below(directory: &Path) -> Vec<PathBuf> {
    let (mut found, mut open) = (Vec::new(), vec![directory.to_owned()]);
    while let Some(directory) = open.pop() {
        for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
            let path = entry.path();
            let group = if path.is_dir() { &mut open } else { &mut found };
            group.push(path);
        }
    }
    found.sort();
    found
}

/// Those whose names end with a `.` and one of `extensions`.
pub fn with_extensions(directory: &Path, extensions: &[&str]) -> Vec<PathBuf> {
    let is_wanted = |path: &PathBuf| {
        path.extension().is_some_and(|found| extensions.iter().any(|wanted| found == *wanted))
    };
    let mut files = below(directory);
    files.retain(is_wanted);
    files
}
