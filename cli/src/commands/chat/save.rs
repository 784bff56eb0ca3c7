//! `/save FILE`: a conversation as Markdown.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};

use crate::failure::Failure;

/// Writes `text` to `path`, which must not exist; only its owner can read it.
pub fn write(text: &str, path: &str) -> Result<PathBuf, Failure> {
    let path = Path::new(path).to_owned();
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let failed = |source| Failure::File { doing: "write", path: path.clone(), source };
    let mut file = options.open(&path).map_err(failed)?;
    file.write_all(text.as_bytes()).map_err(failed)?;
    Ok(path)
}
