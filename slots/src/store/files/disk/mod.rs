//! The file system of this machine.

use std::ffi::OsString;
use std::fs::{self, File, Metadata, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::SystemTime;

use super::{Entry, Facts, Files, Kind, Lock, LockError, NewFile, OpenFile};

mod unix;

use unix::Access;

/// The file system of this machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct Disk;

static ASSUMED_FREE_BYTES: OnceLock<u64> = OnceLock::new();

/// From now on every disk counts as having this much free. For tests of small disks.
pub fn assume_free_bytes(bytes: u64) {
    ASSUMED_FREE_BYTES.set(bytes).ok(); // An error: the first one stays.
}

/// Free bytes of the disk that holds `path`.
///
/// # Errors
/// When `path` does not exist or cannot be reached.
pub fn free_bytes(path: &Path) -> io::Result<u64> {
    ASSUMED_FREE_BYTES.get().map_or_else(|| unix::free_bytes(path), |bytes| Ok(*bytes))
}

impl Files for Disk {
    fn resolve(&self, dir: &Path) -> io::Result<PathBuf> {
        dir.canonicalize()
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn NewFile>> {
        Ok(Box::new(unix::open(path, Access::Create)?))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn OpenFile>> {
        Ok(Box::new(unix::open(path, Access::Read)?))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        unix::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        unix::remove(path)
    }

    fn make_dir(&self, path: &Path) -> io::Result<()> {
        unix::make_dir(path)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        unix::sync_dir(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<Entry>> {
        unix::list(dir)
    }

    fn stat(&self, path: &Path) -> io::Result<Facts> {
        unix::stat(path).and_then(|metadata| facts(&metadata))
    }

    fn stat_in(&self, dir: &Path, names: &[OsString]) -> io::Result<Vec<io::Result<Facts>>> {
        unix::stat_in(dir, names)
    }

    fn touch(&self, path: &Path, time: SystemTime) -> io::Result<()> {
        unix::open(path, Access::Change)?.set_modified(time)
    }

    fn free_bytes(&self, path: &Path) -> io::Result<u64> {
        free_bytes(path)
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn Lock>, LockError> {
        // Not truncated: until the lock is held, the file names its holder.
        let mut file = unix::open(path, Access::ChangeOrCreate).map_err(LockError::Io)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(LockError::Held(named_in(&mut file))),
            Err(TryLockError::Error(error)) => return Err(LockError::Io(error)),
        }
        let named = file.set_len(0).and_then(|()| file.rewind());
        // On a full disk the name may not fit; the lock holds anyway.
        let _ = named.and_then(|()| write!(file, "pid {}", std::process::id()));
        Ok(Box::new(FileLock(file)))
    }
}

impl NewFile for File {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Write::write(self, bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.sync_all()
    }
}

impl OpenFile for File {
    fn facts(&self) -> io::Result<Facts> {
        self.metadata().and_then(|metadata| facts(&metadata))
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        unix::read_at(self, buffer, offset)
    }
}

/// The system releases it when its holder dies.
#[derive(Debug)]
struct FileLock(File);

impl Lock for FileLock {}

impl Drop for FileLock {
    /// Closing is not enough: a forked child shares the lock until it executes another program.
    fn drop(&mut self) {
        let _ = self.0.unlock(); // On an error, closing the file releases it.
    }
}

/// Some systems refuse to read a locked file, and the owner may not have written its name yet.
fn named_in(file: &mut File) -> String {
    let mut text = String::new();
    match file.read_to_string(&mut text) {
        Ok(_) if !text.is_empty() => text,
        _ => "another process".to_owned(),
    }
}

fn facts(metadata: &Metadata) -> io::Result<Facts> {
    let kind = kind(metadata.file_type());
    Ok(Facts { kind, bytes: metadata.len(), modified: metadata.modified()? })
}

fn kind(found: fs::FileType) -> Kind {
    match found {
        found if found.is_file() => Kind::File,
        found if found.is_dir() => Kind::Dir,
        _ => Kind::Other,
    }
}

#[cfg(test)]
mod tests;
