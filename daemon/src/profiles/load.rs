//! Files to profiles.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hob_prewarm::profile::{MAX_FILE_BYTES, Outline, Profile};
use hob_prewarm::{ProfileError, ProfileName};

use crate::prompt::{Preamble, Template};

/// What the last reload found.
#[derive(Clone, Debug, Default)]
pub struct LoadedProfile {
    /// The last valid version.
    pub good: Option<Arc<Preamble>>,
    /// What is wrong with the newest version.
    pub error: Option<String>,
    /// The files that it was read from, as far as they are known.
    pub files: Vec<PathBuf>,
}

impl LoadedProfile {
    /// Reads the profile's file again.
    pub fn reload(self, file: &Path, directory: &Path, template: &Template) -> Self {
        let mut files = vec![file.to_owned()];
        match read_profile(file, directory, template, &mut files) {
            Ok(preamble) => {
                let preamble = match &self.good {
                    Some(good) => preamble.after(good),
                    None => preamble,
                };
                Self { good: Some(Arc::new(preamble)), error: None, files }
            }
            Err(error) => {
                if self.error.as_ref() != Some(&error) {
                    let (file, is_usable) = (file.display(), self.good.is_some());
                    tracing::warn!(%file, error, is_usable, "profile broken");
                }
                // A repair may change a file that only the good version names.
                for known in self.files {
                    if !files.contains(&known) {
                        files.push(known);
                    }
                }
                Self { good: self.good, error: Some(error), files }
            }
        }
    }
}

/// Names and files of the profiles; empty if the directory does not exist.
pub fn profile_files(directory: &Path) -> io::Result<Vec<(String, PathBuf)>> {
    let entries = match std::fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut files = Vec::new();
    for entry in entries {
        let path = entry?.path();
        let name = path.file_stem().map(|name| name.to_string_lossy().into_owned());
        let is_profile = path.extension().is_some_and(|extension| extension == "toml");
        if let Some(name) = name.filter(|name| is_profile && !name.starts_with('.')) {
            files.push((name, path));
        }
    }
    Ok(files)
}

/// Adds every file that the profile names to `files`, also when the profile is broken.
fn read_profile(
    file: &Path,
    directory: &Path,
    template: &Template,
    files: &mut Vec<PathBuf>,
) -> Result<Preamble, String> {
    let text_of = |error: ProfileError| error.to_string();
    let name = file.file_stem().unwrap_or_default().to_string_lossy();
    name.parse::<ProfileName>().map_err(|error| error.to_string())?;
    let bytes = read_bounded(file).map_err(|error| format!("it cannot be read: {error}"))?;
    if bytes.len() > MAX_FILE_BYTES {
        return Err("it is larger than 1 MiB: move texts of it into files".to_owned());
    }
    let text = String::from_utf8(bytes)
        .map_err(|_| "it is not text in UTF-8: save it as UTF-8".to_owned())?;
    let outline = Outline::parse(&text).map_err(text_of)?;
    files.extend(outline.files(directory));
    let profile = Profile::load(&outline, directory, read_bounded).map_err(text_of)?;
    Preamble::new(profile, template).map_err(|error| error.to_string())
}

/// Reads at most one byte more than the limit, so that the caller notices a file that is too large.
pub fn read_bounded(path: &Path) -> io::Result<Vec<u8>> {
    if !std::fs::metadata(path)?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(MAX_FILE_BYTES as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}
