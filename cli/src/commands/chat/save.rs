//! `/save FILE`: a conversation as Markdown.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::Path;

use crate::failure::Failure;

/// Writes `text` to `path`, which must not exist; only its owner can read it. A file that cannot be written whole is
/// removed.
pub fn write(text: &str, path: &Path) -> Result<(), Failure> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let failed = |source| Failure::File { doing: "write", path: path.to_owned(), source };
    let mut file = options.open(path).map_err(failed)?;
    file.write_all(text.as_bytes()).map_err(|error| {
        let _ = fs::remove_file(path); // An error: the part stays, and the failure names it.
        failed(error)
    })
}
