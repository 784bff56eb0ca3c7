//! Crash-safe writes: a crash at any time leaves the old file, the new one or none, each whole.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use super::error::{StoreError, io_error};
use super::files::{Files, Kind, NewFile, write_all};

/// A temporary file. Dropped before [`TempFile::commit`], it is removed.
pub struct TempFile<'f> {
    files: &'f dyn Files,
    file: Option<Box<dyn NewFile>>,
    path: PathBuf,
    committed: bool,
}

impl<'f> TempFile<'f> {
    pub fn create(files: &'f dyn Files, dir: &Path) -> Result<Self, StoreError> {
        // A directory has one owner, so a number unique in this process is enough.
        static SERIAL: AtomicU64 = AtomicU64::new(0);
        let name = format!("{}-{}", std::process::id(), SERIAL.fetch_add(1, Ordering::Relaxed));
        let path = dir.join(name);
        let file = or_after_making(files, dir, || files.create(&path))?;
        Ok(Self { files, file: Some(file), path, committed: false })
    }

    pub fn write(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        write_all(self.file(), bytes).map_err(io_error("write", &self.path))
    }

    pub fn commit(mut self, target: &Path) -> Result<(), StoreError> {
        let dir = target.parent().expect("a target is in the store's directory");
        self.file().sync().map_err(io_error("sync", &self.path))?;
        self.file = None;
        let (files, path) = (self.files, &self.path);
        or_after_making(files, dir, || files.rename(path, target))?;
        self.committed = true; // From here on, dropping must not remove the file.
        sync_dir(files, dir)
    }

    fn file(&mut self) -> &mut dyn NewFile {
        &mut **self.file.as_mut().expect("the file is open until it is committed")
    }
}

impl Drop for TempFile<'_> {
    fn drop(&mut self) {
        self.file = None; // Where open files cannot be removed.
        if !self.committed {
            // The next owner removes what cannot be removed now.
            let _ = self.files.remove(&self.path);
        }
    }
}

/// Runs `act`, and creates `dir` when it turns out to be missing, which is rare.
pub fn or_after_making<T>(
    files: &dyn Files,
    dir: &Path,
    act: impl Fn() -> io::Result<T>,
) -> Result<T, StoreError> {
    match act() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            ensure_dir(files, dir)?;
            act().map_err(io_error("write in", dir))
        }
        result => result.map_err(io_error("write in", dir)),
    }
}

/// Creates the store's directory. Links on the way to it are followed: its place is the user's
/// choice.
pub fn ensure_root(files: &dyn Files, dir: &Path) -> Result<(), StoreError> {
    let parent = dir.parent().filter(|parent| !parent.as_os_str().is_empty());
    let (Err(_), Some(name)) = (files.resolve(dir), dir.file_name()) else { return Ok(()) };
    let parent = parent.unwrap_or(Path::new("."));
    ensure_root(files, parent)?;
    let parent = files.resolve(parent).map_err(io_error("find", parent))?;
    ensure_dir(files, &parent.join(name))
}

/// Creates `dir` and its parents, each durable and for its owner alone.
pub fn ensure_dir(files: &dyn Files, dir: &Path) -> Result<(), StoreError> {
    let is_dir = || files.stat(dir).is_ok_and(|facts| facts.kind == Kind::Dir);
    if is_dir() {
        return Ok(());
    }
    let parent = dir.parent().filter(|parent| !parent.as_os_str().is_empty());
    if let Some(parent) = parent {
        ensure_dir(files, parent)?;
    }
    match files.make_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && is_dir() => Ok(()),
        result => result.map_err(io_error("make", dir)),
    }?;
    sync_dir(files, parent.unwrap_or(Path::new(".")))
}

pub fn sync_dir(files: &dyn Files, dir: &Path) -> Result<(), StoreError> {
    files.sync_dir(dir).map_err(|source| StoreError::Unsynced { dir: dir.to_owned(), source })
}

/// Removes the files in `dir`, if it exists.
pub fn empty_dir(files: &dyn Files, dir: &Path) -> Result<(), StoreError> {
    for entry in list(files, dir)? {
        if entry.kind == Kind::Dir {
            continue; // None of ours, and no reason not to start.
        }
        let path = dir.join(entry.name);
        files.remove(&path).map_err(io_error("remove", &path))?;
    }
    Ok(())
}

/// The entries of `dir`; none when it does not exist.
pub fn list(files: &dyn Files, dir: &Path) -> Result<Vec<super::files::Entry>, StoreError> {
    match files.list(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        entries => entries.map_err(io_error("read", dir)),
    }
}

/// Returns whether it existed.
pub fn remove(files: &dyn Files, path: &Path) -> Result<bool, StoreError> {
    match files.remove(path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(io_error("remove", path)(error)),
    }
}
