//! Compares files by their metadata, without opening them.
//!
//! - A file differs when its length, modification time, inode or type does. Any difference counts: a
//!   file may be replaced by an older one.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    bytes: u64,
    modified: Option<SystemTime>,
    inode: u64,
    is_dir: bool,
}

/// The stamps of files by path; a file that does not exist has none.
pub type Stamps = BTreeMap<PathBuf, Stamp>;

pub fn of_files<'p>(files: impl IntoIterator<Item = &'p PathBuf>) -> Stamps {
    files.into_iter().filter_map(|path| Some((path.clone(), stamp(path)?))).collect()
}

/// The directory and its entries. The time of the directory is that of its entries, and left out.
pub fn of_directory(directory: &Path) -> Stamps {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let own = stamp(directory).map(|own| Stamp { bytes: 0, modified: None, ..own });
    entries
        .filter_map(|entry| Some((entry.path(), stamp(&entry.path())?)))
        .chain(own.map(|own| (directory.to_owned(), own)))
        .collect()
}

/// Stamp of the file that a link leads to; of the link itself if it leads nowhere.
fn stamp(path: &Path) -> Option<Stamp> {
    let metadata = std::fs::metadata(path).or_else(|_| path.symlink_metadata()).ok()?;
    Some(Stamp {
        bytes: metadata.len(),
        modified: metadata.modified().ok(),
        inode: metadata.ino(),
        is_dir: metadata.is_dir(),
    })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_file_that_comes_changes_or_leaves_differs_once() {
        let root = tempfile::tempdir().unwrap();
        let (directory, file) = (root.path().join("d"), root.path().join("d/a"));
        let mut seen = of_directory(&directory);
        let mut differing = || {
            let now = of_directory(&directory);
            let paths = now.keys().chain(seen.keys()).cloned().collect::<Vec<_>>();
            let differs = |path: &PathBuf| now.get(path) != seen.get(path);
            let mut differing: Vec<_> = paths.into_iter().filter(differs).collect();
            differing.sort();
            differing.dedup();
            seen = now;
            differing
        };

        fs::create_dir(&directory).unwrap();
        fs::write(&file, "one").unwrap();
        assert_eq!(differing(), [directory.clone(), file.clone()]);
        assert!(differing().is_empty());

        fs::write(&file, "four").unwrap();
        assert_eq!(differing(), std::slice::from_ref(&file));
        let older = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
        fs::File::options().append(true).open(&file).unwrap().set_modified(older).unwrap();
        assert_eq!(differing(), std::slice::from_ref(&file));

        fs::remove_dir_all(&directory).unwrap();
        assert_eq!(differing(), [directory.clone(), file.clone()]);
        assert!(differing().is_empty());
    }
}
