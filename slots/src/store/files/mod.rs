//! What the store asks of a file system.
//!
//! - One method is about one system call, so that a test can fail, cut short or lose any of them.
//!   What is done in which order is the store's affair, not this trait's.
//! - No symbolic link is followed below the store's directory: what lies there is ours, or it is
//!   refused.
//! - Files are made for their owner alone, and so are directories, whatever the umask says.

use std::ffi::OsString;
use std::fmt::Debug;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

mod disk;

pub use disk::Disk;

/// A file system, as the store sees it. Paths are absolute, or relative to the working directory.
pub trait Files: Debug + Send + Sync {
    /// Where a directory really is, behind the symbolic links on the way to it.
    fn resolve(&self, dir: &Path) -> io::Result<PathBuf>;

    /// Makes a file that is not there yet, for its owner alone.
    fn create(&self, path: &Path) -> io::Result<Box<dyn NewFile>>;

    /// Opens a file.
    fn open(&self, path: &Path) -> io::Result<Box<dyn OpenFile>>;

    /// Moves a file, in place of the one that may be there.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Makes one directory, for its owner alone.
    fn make_dir(&self, path: &Path) -> io::Result<()>;

    /// Makes what was created, renamed and removed in a directory durable.
    fn sync_dir(&self, path: &Path) -> io::Result<()>;

    /// What is in a directory, in no order.
    fn list(&self, dir: &Path) -> io::Result<Vec<Entry>>;

    /// What is at a path: of a symbolic link, the link.
    fn look(&self, path: &Path) -> io::Result<Facts>;

    /// What is at each of `names` in one directory, which is sought once for all of them.
    fn look_in(&self, dir: &Path, names: &[OsString]) -> io::Result<Vec<io::Result<Facts>>> {
        Ok(names.iter().map(|name| self.look(&dir.join(name))).collect())
    }

    /// Says that a file was written at `time`.
    fn touch(&self, path: &Path, time: SystemTime) -> io::Result<()>;

    /// Bytes that may still be written where `path` is.
    fn free_bytes(&self, path: &Path) -> io::Result<u64>;

    /// Takes the lock of a directory, which is released when the value is dropped.
    fn lock(&self, path: &Path) -> Result<Box<dyn Lock>, LockError>;
}

/// A file that is being written.
pub trait NewFile: Send {
    /// Appends some of `bytes`. Returns how many.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize>;

    /// Makes what was written durable.
    fn sync(&mut self) -> io::Result<()>;
}

/// A file that is being read. Threads may share it.
pub trait OpenFile: Send + Sync {
    /// What it is.
    fn facts(&self) -> io::Result<Facts>;

    /// Reads some of the bytes from `offset` on. Returns how many; 0 at the end.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;
}

/// Held as long as a directory is owned.
pub trait Lock: Debug + Send + Sync {}

/// Why a lock cannot be had.
#[derive(Debug)]
pub enum LockError {
    /// Somebody has it, who is called so.
    Held(String),
    /// The file system refused.
    Io(io::Error),
}

/// Something in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its name.
    pub name: OsString,
    /// What it is.
    pub kind: Kind,
}

/// What is at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// What it is.
    pub kind: Kind,
    /// How long it is.
    pub bytes: u64,
    /// When it was last written, or touched.
    pub modified: SystemTime,
}

/// What can be at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A file.
    File,
    /// A directory.
    Dir,
    /// A symbolic link, a socket or another thing that is none of ours.
    Other,
}

/// The whole of an open file, `limit` bytes at most.
pub fn read_all(file: &dyn OpenFile, limit: u64) -> io::Result<Vec<u8>> {
    let bytes = file.facts()?.bytes.min(limit);
    let mut buffer = vec![0; usize::try_from(bytes).map_err(|_| io::ErrorKind::OutOfMemory)?];
    let filled = read_range(file, &mut buffer, 0)?;
    buffer.truncate(filled); // It was cut short meanwhile: whoever decodes it says so.
    Ok(buffer)
}

/// Fills `buffer` from `offset` on, as far as the file goes. Returns how far.
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

/// Appends all of `bytes`.
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
