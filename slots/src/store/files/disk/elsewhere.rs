//! Where there are no modes and hardly any symbolic links.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::Path;

use super::super::{Entry, Facts};

/// What a file is opened for.
#[derive(Clone, Copy, Debug)]
pub enum Access {
    Read,
    Change,
    ChangeOrCreate,
    /// It must not be there yet.
    Create,
}

pub fn open(path: &Path, access: Access) -> io::Result<File> {
    let mut options = OpenOptions::new();
    match access {
        Access::Read => options.read(true),
        Access::Change => options.read(true).write(true),
        Access::ChangeOrCreate => options.read(true).write(true).create(true).truncate(false),
        Access::Create => options.write(true).create_new(true),
    };
    options.open(path)
}

pub fn rename(from: &Path, to: &Path) -> io::Result<()> {
    fs::rename(from, to)
}

pub fn remove(path: &Path) -> io::Result<()> {
    fs::remove_file(path)
}

pub fn make_dir(path: &Path) -> io::Result<()> {
    fs::create_dir(path)
}

/// A directory cannot be opened as a file here; renames are as durable as they are.
pub fn sync_dir(_: &Path) -> io::Result<()> {
    Ok(())
}

pub fn list(path: &Path) -> io::Result<Vec<Entry>> {
    let entry = |entry: io::Result<fs::DirEntry>| {
        let entry = entry?;
        Ok(Entry { name: entry.file_name(), kind: super::kind(entry.file_type()?) })
    };
    fs::read_dir(path)?.map(entry).collect()
}

pub fn look(path: &Path) -> io::Result<fs::Metadata> {
    fs::symlink_metadata(path)
}

/// As [`look`], of several in one directory.
pub fn look_in(dir: &Path, names: &[OsString]) -> io::Result<Vec<io::Result<Facts>>> {
    let facts = |name: &OsString| look(&dir.join(name)).and_then(|found| super::facts(&found));
    Ok(names.iter().map(facts).collect())
}

pub fn read_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    std::os::windows::fs::FileExt::seek_read(file, buffer, offset)
}

/// It is not known: the quota alone limits what is kept.
pub fn free_bytes(_: &Path) -> io::Result<u64> {
    Ok(u64::MAX)
}
