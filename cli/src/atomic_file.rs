//! A file that appears whole or not at all.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use crate::signals::{self, CtrlC};

/// A partial file beside the one to write, which only this process has and only its owner can read. Dropping it, and a
/// signal that ends `hob`, removes it.
pub struct AtomicFile {
    path: PathBuf,
    /// The file to write: that which a link names, so that the link stays one.
    target: PathBuf,
}

impl AtomicFile {
    pub fn create(output: &Path) -> io::Result<(Self, File)> {
        let target = target_of(output);
        let mut name = target.as_os_str().to_owned();
        name.push(format!(".{}.part", std::process::id()));
        let path = PathBuf::from(name);
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options.open(&path)?;
        let atomic = Self { path: path.clone(), target };
        signals::listen(CtrlC::Ends, move || drop(fs::remove_file(&path)))?;
        Ok((atomic, file))
    }

    /// Gives the partial file its final name, and replaces a file that has it.
    pub fn commit(self) -> io::Result<()> {
        fs::rename(&self.path, &self.target)
    }
}

/// The file that `output` names, also where a link names a missing one.
fn target_of(output: &Path) -> PathBuf {
    let Ok(link) = fs::read_link(output) else { return output.to_owned() };
    fs::canonicalize(output).unwrap_or_else(|_| output.with_file_name("").join(link))
}

impl Drop for AtomicFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path); // An error: it was renamed to its final name.
    }
}
