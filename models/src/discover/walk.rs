//! Lists files below a directory, up to a depth and a number, always in the same order.

use std::fs;
use std::path::{Path, PathBuf};

use crate::ending::is_gguf;

const MAX_DEPTH: usize = 6;
const MAX_ENTRIES: usize = 100_000;

/// Files below `root` that end in `.gguf`. Follows links, which caches consist of; the maximum
/// depth bounds circular ones.
pub(super) fn gguf_files(root: &Path) -> Vec<PathBuf> {
    files(root).into_iter().filter(|path| is_gguf(path)).collect()
}

/// All files below `root`.
pub(super) fn files(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut entries_left = MAX_ENTRIES;
    visit(root, MAX_DEPTH, &mut entries_left, &mut found);
    found
}

/// The entries of `dir`; none when it cannot be read.
pub(super) fn entries(dir: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(dir) else { return Vec::new() };
    let mut paths: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.sort();
    paths
}

fn visit(dir: &Path, depth: usize, entries_left: &mut usize, found: &mut Vec<PathBuf>) {
    for path in entries(dir) {
        if *entries_left == 0 {
            return;
        }
        *entries_left -= 1;
        if path.is_file() {
            found.push(path);
        } else if depth > 0 {
            visit(&path, depth - 1, entries_left, found);
        }
    }
}
