//! Writing so that a crash at any moment leaves the old file, the new one or none, each whole.
//!
//! Directories are 0700 and files 0600, where there are modes: what is kept can be read back into
//! the conversation that it came from.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use super::error::{Miss, StoreError, io_error};

/// A file that is not there yet. Dropped before [`TempFile::commit`], it leaves nothing.
pub struct TempFile {
    file: File,
    path: PathBuf,
    committed: bool,
}

impl TempFile {
    pub fn create(dir: &Path) -> Result<Self, StoreError> {
        // One owner writes in a directory, so a number that is unique in this process is enough.
        static SERIAL: AtomicU64 = AtomicU64::new(0);
        let name = format!("{}-{}", std::process::id(), SERIAL.fetch_add(1, Ordering::Relaxed));
        let path = dir.join(name);
        let file = or_after_making(dir, || private_file().create_new(true).open(&path))?;
        Ok(Self { file, path, committed: false })
    }

    pub fn write(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        self.file.write_all(bytes).map_err(io_error("write", &self.path))
    }

    /// Makes the file visible at `target`.
    pub fn commit(mut self, target: &Path) -> Result<(), StoreError> {
        let dir = target.parent().expect("a target lies in the store's directory");
        self.file.sync_all().map_err(io_error("sync", &self.path))?;
        or_after_making(dir, || fs::rename(&self.path, target))?;
        self.committed = true; // From here on, dropping must not remove the file.
        sync_dir(dir)
    }
}

impl Drop for TempFile {
    fn drop(&mut self) {
        if !self.committed {
            // What cannot be removed now is removed by the next owner.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Does what needs `dir`, which is made when that turns out to be missing: it hardly ever is.
fn or_after_making<T>(dir: &Path, act: impl Fn() -> io::Result<T>) -> Result<T, StoreError> {
    match act() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            ensure_dir(dir)?;
            act().map_err(io_error("write in", dir))
        }
        result => result.map_err(io_error("write in", dir)),
    }
}

/// Makes `dir` and what is above it, each durable and for its owner alone.
pub fn ensure_dir(dir: &Path) -> Result<(), StoreError> {
    if dir.is_dir() {
        return Ok(());
    }
    let parent = dir.parent().filter(|parent| !parent.as_os_str().is_empty());
    if let Some(parent) = parent {
        ensure_dir(parent)?;
    }
    match private_dir().create(dir) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && dir.is_dir() => Ok(()),
        result => result.map_err(io_error("make", dir)),
    }?;
    sync_dir(parent.unwrap_or(Path::new(".")))
}

/// Removes the files in `dir`, which need not be there.
pub fn empty_dir(dir: &Path) -> Result<(), StoreError> {
    let entries = match fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries.map_err(io_error("read", dir))?,
    };
    for entry in entries {
        let path = entry.map_err(io_error("read", dir))?.path();
        if path.is_dir() {
            continue; // None of ours, and no reason not to start.
        }
        fs::remove_file(&path).map_err(io_error("remove", &path))?;
    }
    Ok(())
}

/// Moves a file into `dir` and writes beside it why.
pub fn quarantine(dir: &Path, path: &Path, miss: &Miss) -> Result<(), StoreError> {
    ensure_dir(dir)?;
    let name = path.file_name().expect("a rejected file has a name").to_os_string();
    let mut why = name.clone();
    why.push(".txt");
    let why = dir.join(why);
    fs::rename(path, dir.join(name)).map_err(io_error("move", path))?;
    let mut file =
        private_file().create(true).truncate(true).open(&why).map_err(io_error("write", &why))?;
    writeln!(file, "{miss}").map_err(io_error("write", &why))
}

/// Makes renames and removals in `dir` durable.
#[cfg(unix)]
pub fn sync_dir(dir: &Path) -> Result<(), StoreError> {
    File::open(dir).and_then(|dir| dir.sync_all()).map_err(io_error("sync", dir))
}

/// Elsewhere a directory cannot be opened as a file; renames are as durable as they are.
#[cfg(not(unix))]
pub fn sync_dir(_: &Path) -> Result<(), StoreError> {
    Ok(())
}

/// For files that nobody else may read.
pub fn private_file() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

fn private_dir() -> DirBuilder {
    #[cfg_attr(not(unix), expect(unused_mut, reason = "only unix has modes to set"))]
    let mut builder = DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder
}
