//! The real disk with hooks, by which a test lets calls fail, wait or race.

use std::ffi::OsString;
use std::fmt::Debug;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use super::{Disk, Entry, Facts, Files, Lock, LockError, NewFile, OpenFile};

/// What a [`HookedDisk`] calls. An error of a hook is that of the disk's call.
pub trait Hooks: Debug + Send + Sync {
    /// Before a file is created.
    fn creates(&self, _path: &Path) -> io::Result<()> {
        Ok(())
    }

    /// Before a file is opened.
    fn opens(&self, _path: &Path) -> io::Result<()> {
        Ok(())
    }

    /// After a file was opened.
    fn opened(&self, _path: &Path) -> io::Result<()> {
        Ok(())
    }

    /// Before a directory is listed.
    fn lists(&self, _dir: &Path) -> io::Result<()> {
        Ok(())
    }

    /// Before the facts of a file are read by its path.
    fn stats(&self, _path: &Path) -> io::Result<()> {
        Ok(())
    }
}

#[derive(Debug)]
pub struct HookedDisk(pub Arc<dyn Hooks>);

impl Files for HookedDisk {
    fn resolve(&self, dir: &Path) -> io::Result<PathBuf> {
        Disk.resolve(dir)
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn NewFile>> {
        self.0.creates(path)?;
        Disk.create(path)
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn OpenFile>> {
        self.0.opens(path)?;
        let file = Disk.open(path)?;
        self.0.opened(path)?;
        Ok(file)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        Disk.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        Disk.remove(path)
    }

    fn make_dir(&self, path: &Path) -> io::Result<()> {
        Disk.make_dir(path)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        Disk.sync_dir(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<Entry>> {
        self.0.lists(dir)?;
        Disk.list(dir)
    }

    fn stat(&self, path: &Path) -> io::Result<Facts> {
        self.0.stats(path)?;
        Disk.stat(path)
    }

    fn stat_in(&self, dir: &Path, names: &[OsString]) -> io::Result<Vec<io::Result<Facts>>> {
        Disk.stat_in(dir, names)
    }

    fn touch(&self, path: &Path, time: SystemTime) -> io::Result<()> {
        Disk.touch(path, time)
    }

    fn free_bytes(&self, path: &Path) -> io::Result<u64> {
        Disk.free_bytes(path)
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn Lock>, LockError> {
        Disk.lock(path)
    }
}
