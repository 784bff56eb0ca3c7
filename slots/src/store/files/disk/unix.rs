//! Opens, moves and removes files without following symbolic links.
//!
//! - On Linux the kernel refuses links in every component (`openat2`, since 5.6). Elsewhere, and
//!   where a sandbox forbids that call, only the last component is refused.
//! - Files are moved and removed relative to their open directory, so a link created meanwhile
//!   changes nothing.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{Duration, SystemTime};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags};

use super::super::{Entry, Facts, Kind};

const FILE: Mode = Mode::from_raw_mode(0o600);
const DIR: Mode = Mode::from_raw_mode(0o700);

#[derive(Clone, Copy, Debug)]
pub enum Access {
    Read,
    Change,
    ChangeOrCreate,
    /// Must not exist.
    Create,
}

pub fn open(path: &Path, access: Access) -> io::Result<File> {
    // Not blocking: opening a pipe would wait for its writer.
    let (flags, made) = match access {
        Access::Read => (OFlags::RDONLY | OFlags::NONBLOCK, false),
        Access::Change => (OFlags::RDWR | OFlags::NONBLOCK, false),
        Access::ChangeOrCreate => (OFlags::RDWR | OFlags::NONBLOCK | OFlags::CREATE, true),
        Access::Create => (OFlags::RDWR | OFlags::CREATE | OFlags::EXCL, true),
    };
    let file = resolve(path, flags, if made { FILE } else { Mode::empty() })?;
    if made {
        // A umask can remove rights that the owner needs.
        rustix::fs::fchmod(&file, FILE)?;
    }
    Ok(file.into())
}

pub fn rename(from: &Path, to: &Path) -> io::Result<()> {
    let (from_dir, from) = parent(from)?;
    let (to_dir, to) = parent(to)?;
    Ok(rustix::fs::renameat(from_dir, from, to_dir, to)?)
}

pub fn remove(path: &Path) -> io::Result<()> {
    let (dir, name) = parent(path)?;
    Ok(rustix::fs::unlinkat(dir, name, AtFlags::empty())?)
}

pub fn make_dir(path: &Path) -> io::Result<()> {
    let (dir, name) = parent(path)?;
    rustix::fs::mkdirat(&dir, name, DIR)?;
    match directory(path) {
        // A umask can remove the rights needed to open it.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            Ok(rustix::fs::chmodat(&dir, name, DIR, AtFlags::empty())?)
        }
        made => Ok(rustix::fs::fchmod(made?, DIR)?),
    }
}

pub fn sync_dir(path: &Path) -> io::Result<()> {
    Ok(rustix::fs::fsync(directory(path)?)?)
}

pub fn list(path: &Path) -> io::Result<Vec<Entry>> {
    use std::os::unix::ffi::OsStrExt;
    let mut entries = Vec::new();
    for entry in rustix::fs::Dir::new(directory(path)?)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name == b"." || name == b".." {
            continue;
        }
        let name = OsStr::from_bytes(name).to_owned();
        let kind = match entry.file_type() {
            FileType::RegularFile => Kind::File,
            FileType::Directory => Kind::Dir,
            // Some file systems do not report the type here.
            FileType::Unknown => match kind_at(&path.join(&name))? {
                Some(kind) => kind,
                None => continue, // Removed since.
            },
            _ => Kind::Other,
        };
        entries.push(Entry { name, kind });
    }
    Ok(entries)
}

/// `None` where there is no file: the error would be that of a directory that does not exist.
pub(super) fn kind_at(path: &Path) -> io::Result<Option<Kind>> {
    match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        metadata => Ok(Some(super::kind(metadata?.file_type()))),
    }
}

/// Facts of the file at `path`; of a symbolic link, those of the link itself. Links on the way there are not
/// followed.
#[cfg(target_os = "linux")]
pub fn stat(path: &Path) -> io::Result<std::fs::Metadata> {
    File::from(resolve(path, OFlags::PATH, Mode::empty())?).metadata()
}

#[cfg(not(target_os = "linux"))]
pub fn stat(path: &Path) -> io::Result<std::fs::Metadata> {
    std::fs::symlink_metadata(path)
}

/// As [`stat`], for several names of one directory.
pub fn stat_in(dir: &Path, names: &[OsString]) -> io::Result<Vec<io::Result<Facts>>> {
    let dir = directory(dir)?;
    let facts_of = |name: &OsString| -> io::Result<Facts> {
        let stat = rustix::fs::statat(&dir, name, AtFlags::SYMLINK_NOFOLLOW)?;
        let kind = match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Kind::File,
            FileType::Directory => Kind::Dir,
            _ => Kind::Other,
        };
        let since_1970 = u64::try_from(stat.st_mtime).unwrap_or(0); // Nothing of ours is older.
        let modified =
            SystemTime::UNIX_EPOCH + Duration::new(since_1970, stat.st_mtime_nsec as u32);
        Ok(Facts { kind, bytes: stat.st_size as u64, modified })
    };
    Ok(names.iter().map(facts_of).collect())
}

pub fn read_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    std::os::unix::fs::FileExt::read_at(file, buffer, offset)
}

pub fn free_bytes(path: &Path) -> io::Result<u64> {
    let space = rustix::fs::statvfs(path)?;
    Ok(space.f_bavail.saturating_mul(space.f_frsize))
}

fn parent(path: &Path) -> io::Result<(OwnedFd, &OsStr)> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty());
    Ok((directory(dir.unwrap_or(Path::new(".")))?, name))
}

fn directory(path: &Path) -> io::Result<OwnedFd> {
    resolve(path, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty())
}

fn resolve(path: &Path, flags: OFlags, mode: Mode) -> io::Result<OwnedFd> {
    let flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::ResolveFlags;
        match rustix::fs::openat2(CWD, path, flags, mode, ResolveFlags::NO_SYMLINKS) {
            // An older kernel, or a sandbox without this call.
            Err(rustix::io::Errno::NOSYS | rustix::io::Errno::PERM) => {}
            Err(rustix::io::Errno::LOOP) => return Err(link(path)),
            opened => return Ok(opened?),
        }
    }
    match rustix::fs::openat(CWD, path, flags, mode) {
        Err(rustix::io::Errno::LOOP) => Err(link(path)),
        opened => Ok(opened?),
    }
}

fn link(path: &Path) -> io::Error {
    let path = path.display();
    io::Error::other(format!(
        "{path} is or contains a symbolic link, which the store does not follow"
    ))
}
