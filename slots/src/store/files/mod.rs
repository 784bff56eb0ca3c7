//! The file system as a trait.
//!
//! - A method is about one system call, so a test can fail, shorten or lose any of them. The store
//!   decides their order.
//! - No symbolic link below the store's directory is followed.
//! - Files and directories are created for their owner alone, whatever the umask.

use std::ffi::OsString;
use std::fmt::Debug;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

mod disk;
mod hooked;

pub use disk::{Disk, assume_free_bytes, free_bytes};
pub use hooked::{HookedDisk, Hooks};

/// Paths are absolute, or relative to the working directory.
pub trait Files: Debug + Send + Sync {
    /// The path of a directory without symbolic links.
    fn resolve(&self, dir: &Path) -> io::Result<PathBuf>;

    /// Creates a file for its owner alone; an error if it exists.
    fn create(&self, path: &Path) -> io::Result<Box<dyn NewFile>>;

    fn open(&self, path: &Path) -> io::Result<Box<dyn OpenFile>>;

    /// Replaces the target.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Creates one directory for its owner alone.
    fn make_dir(&self, path: &Path) -> io::Result<()>;

    /// Makes creations, renames and removals in a directory durable.
    fn sync_dir(&self, path: &Path) -> io::Result<()>;

    /// The entries of a directory, in no order.
    fn list(&self, dir: &Path) -> io::Result<Vec<Entry>>;

    /// Facts of a file; of a symbolic link, those of the link itself.
    fn stat(&self, path: &Path) -> io::Result<Facts>;

    /// The facts of each of `names`. The directory is looked up once.
    fn stat_in(&self, dir: &Path, names: &[OsString]) -> io::Result<Vec<io::Result<Facts>>> {
        Ok(names.iter().map(|name| self.stat(&dir.join(name))).collect())
    }

    /// Sets the modification time.
    fn touch(&self, path: &Path, time: SystemTime) -> io::Result<()>;

    /// Free bytes of the disk of `path`.
    fn free_bytes(&self, path: &Path) -> io::Result<u64>;

    /// Locks a directory until the value is dropped.
    fn lock(&self, path: &Path) -> Result<Box<dyn Lock>, LockError>;
}

/// An open file for writing.
pub trait NewFile: Send {
    /// Returns how many bytes were written, which may be fewer.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize>;

    fn sync(&mut self) -> io::Result<()>;
}

/// An open file for reading. Threads may share it.
pub trait OpenFile: Send + Sync {
    fn facts(&self) -> io::Result<Facts>;

    /// Returns how many bytes were read; 0 at the end.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;
}

pub trait Lock: Debug + Send + Sync {}

#[derive(Debug)]
pub enum LockError {
    /// The name of the holder.
    Held(String),
    Io(io::Error),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub name: OsString,
    pub kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    pub kind: Kind,
    pub bytes: u64,
    /// The modification time.
    pub modified: SystemTime,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    File,
    Dir,
    /// A symbolic link, a socket or the like.
    Other,
}

/// The whole of an open file, `limit` bytes at most.
pub fn read_all(file: &dyn OpenFile, limit: u64) -> io::Result<Vec<u8>> {
    let bytes = file.facts()?.bytes.min(limit);
    let mut buffer = vec![0; usize::try_from(bytes).map_err(|_| io::ErrorKind::OutOfMemory)?];
    let filled = read_range(file, &mut buffer, 0)?;
    buffer.truncate(filled); // Truncated meanwhile: decoding reports it.
    Ok(buffer)
}

/// Fills `buffer` from `offset` up to the end of the file. Returns the length.
pub fn read_range(file: &dyn OpenFile, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read_at(&mut buffer[filled..], offset + filled as u64) {
            Ok(0) => break,
            Ok(more) => filled += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

pub fn write_all(file: &mut dyn NewFile, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match file.write(bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => bytes = &bytes[written..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
