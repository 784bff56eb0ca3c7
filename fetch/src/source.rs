//! llama.cpp's source, for the benchmark that builds llama-server and compares hobd with it, and the part of it with
//! llama-server's own tests, which hobd is measured by.

use std::fs;
use std::path::{Component, Path};

use crate::error::FetchError;
use crate::index::Index;
use crate::package::{REPOSITORY, unpacked};

/// Puts llama.cpp's repository into `dir`. Does nothing where it is.
///
/// # Errors
/// A [`FetchError`].
pub fn source(
    dir: &Path,
    index: impl FnOnce() -> Result<Index, FetchError>,
    shows_bar: bool,
) -> Result<(), FetchError> {
    parts(dir, index, shows_bar, &[""])
}

/// Puts llama-server's tests, and the chat templates that they name, into `dir`, at their places in the repository.
/// Does nothing where they are.
///
/// # Errors
/// A [`FetchError`].
pub fn server_tests(
    dir: &Path,
    index: impl FnOnce() -> Result<Index, FetchError>,
    shows_bar: bool,
) -> Result<(), FetchError> {
    parts(dir, index, shows_bar, &["tools/server/tests/", "models/templates/"])
}

/// The files whose paths begin with one of `wanted`.
fn parts(
    dir: &Path,
    index: impl FnOnce() -> Result<Index, FetchError>,
    shows_bar: bool,
    wanted: &[&str],
) -> Result<(), FetchError> {
    unpacked(dir, index, shows_bar, |archive| {
        for entry in archive.entries()? {
            let mut entry = entry?;
            let path = entry.path()?.to_string_lossy().into_owned();
            let Some((_, inside)) = path.split_once(REPOSITORY) else { continue };
            if !wanted.iter().any(|part| inside.starts_with(part)) {
                continue;
            }
            let inside = Path::new(inside);
            let stays = inside.components().all(|part| matches!(part, Component::Normal(_)));
            if stays && entry.header().entry_type().is_file() {
                let path = dir.join(inside);
                fs::create_dir_all(path.parent().expect("it is below `dir`"))?;
                entry.unpack(path)?;
            }
        }
        Ok(())
    })
}
