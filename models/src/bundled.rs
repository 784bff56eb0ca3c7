//! The model inside the program, which needs neither the source tree nor a download.

use std::path::{Path, PathBuf};
use std::{fs, io};

use crate::hash::replace_file;

const FILE_NAME: &str = "hob-tiny-f16.gguf";
const BYTES: &[u8] = include_bytes!("../../assets/hob-tiny-f16.gguf");

/// The bundled model's file in `models_dir`; writes it when it is missing or differs.
pub fn materialise(models_dir: &Path) -> io::Result<PathBuf> {
    let path = models_dir.join(FILE_NAME);
    if fs::read(&path).is_ok_and(|bytes| bytes == BYTES) {
        return Ok(path);
    }
    replace_file(&path, BYTES)?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bundled_model_is_written_once_and_repaired_when_it_differs() {
        let dir = tempfile::tempdir().unwrap();
        let path = materialise(&dir.path().join("models")).unwrap();
        crate::ModelFile::open(&path).unwrap();
        fs::write(&path, "GGUF").unwrap();
        assert_eq!(materialise(&dir.path().join("models")).unwrap(), path);
        crate::ModelFile::open(&path).unwrap();
    }

    #[test]
    fn a_model_that_cannot_be_written_leaves_no_part_of_it() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join(FILE_NAME)).unwrap();
        materialise(dir.path()).unwrap_err();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
