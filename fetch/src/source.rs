//! llama.cpp's source, for the benchmark that builds llama-server and compares hobd with it.

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
    unpacked(dir, index, shows_bar, |archive| {
        for entry in archive.entries()? {
            let mut entry = entry?;
            let path = entry.path()?.to_string_lossy().into_owned();
            let Some((_, inside)) = path.split_once(REPOSITORY) else { continue };
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
