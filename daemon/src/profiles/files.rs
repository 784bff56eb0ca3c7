//! The files of a profile that is edited: read, checked, and replaced together.
//!
//! - Only files inside the profiles directory are written, and only those of this profile. A
//!   profile may keep naming files elsewhere.
//! - An edit is checked completely before the first file is written. Each file is replaced
//!   atomically, the profile's own last.
//! - The revision is a hash of what was read; an edit of an older revision is refused. Unstable
//!   files and files elsewhere are not part of it, because other programs write them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use hob_prewarm::profile::{EditedProfile, EditedSegment, EditedSource, Outline, Profile, Source};
use hob_prewarm::{ProfileError, ProfileName};
use hob_slots::{TtlClass, hex_text};
use serde::Deserialize;
use sha2::{Digest, Sha256};
use tempfile::NamedTempFile;

use super::load::{profile_files, read_bounded};
use super::place::{FilePlace, is_editable};
use crate::error::{ApiError, ErrorKind};

/// The new version of a profile, with the contents of its files.
#[derive(Clone, Debug)]
pub struct Edit {
    pub ttl: TtlClass,
    /// Parameters of its answers; `None`: they do not change.
    pub sampling: Option<BTreeMap<String, f64>>,
    pub segments: Vec<EditSegment>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EditSegment {
    pub layer: String,
    pub key: Option<String>,
    /// Whether the text is the same in every request.
    #[serde(default = "yes")]
    pub stable: bool,
    pub source: SourceKind,
    /// As the profile spells it.
    pub path: Option<String>,
    /// The new text; `None`: its file does not change.
    pub content: Option<String>,
}

fn yes() -> bool {
    true
}

/// Where a segment's text comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SourceKind {
    /// The profile itself.
    Text,
    /// A text file.
    File,
    /// A JSON file with tools.
    Tools,
}

/// A profile as its files are now.
#[derive(Clone, Debug, Default)]
pub struct OnDisk {
    /// Its own file; `None`: it does not exist.
    pub toml: Option<String>,
    /// The files that it names, by the path as it spells it; `None`: unreadable.
    pub files: BTreeMap<String, Option<String>>,
    /// The files that only an editor changes; the revision covers them.
    revised: BTreeSet<String>,
}

/// A checked edit, ready to be written.
#[derive(Debug)]
pub struct Checked {
    pub profile: Profile,
    pub outline: Outline,
    toml: String,
    writes: BTreeMap<PathBuf, String>,
}

impl OnDisk {
    /// Reads a profile and the files that it names.
    ///
    /// # Errors
    /// When its own file exists and is not readable text.
    pub fn read(directory: &Path, name: &ProfileName) -> io::Result<Self> {
        let file = profile_file(directory, name);
        let bytes = match read_bounded(&file) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(error),
        };
        let toml = String::from_utf8(bytes)
            .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it is not text in UTF-8"))?;
        let mut on_disk = Self::default();
        let outline = Outline::parse(&toml).ok();
        for segment in outline.iter().flat_map(|outline| &outline.segments) {
            let Some(path) = written_path(&segment.source) else { continue };
            if segment.stable && is_editable(directory, &path) {
                on_disk.revised.insert(path.clone());
            }
            let read = read_bounded(&directory.join(&path)).ok();
            on_disk.files.insert(path, read.and_then(|bytes| String::from_utf8(bytes).ok()));
        }
        Ok(Self { toml: Some(toml), ..on_disk })
    }

    /// Changes with every file that it covers; `None`: there is no profile.
    pub fn revision(&self) -> Option<String> {
        let mut digest = Sha256::new();
        digest.update(self.toml.as_ref()?);
        let revised = self.files.iter().filter(|(path, _)| self.revised.contains(*path));
        for (path, text) in revised {
            // Lengths keep the end of one text apart from the start of the next.
            for part in [Some(path), text.as_ref()] {
                digest.update(part.map_or(u64::MAX, |part| part.len() as u64).to_le_bytes());
                digest.update(part.map_or("", String::as_str));
            }
        }
        Some(hex_text(&digest.finalize()[..8]))
    }
}

impl Edit {
    /// Checks the edit against the profile `on_disk`. Writes nothing.
    ///
    /// # Errors
    /// An invalid field, or a file that must not be written.
    pub fn checked(
        &self,
        directory: &Path,
        name: &ProfileName,
        on_disk: &OnDisk,
    ) -> Result<Checked, ApiError> {
        let (mut writes, mut segments) = (BTreeMap::new(), Vec::new());
        let mut given = BTreeSet::new();
        for (at, segment) in self.segments.iter().enumerate() {
            let wrong = |field: &str, message: String| {
                ApiError::field(format!("segments[{at}].{field}"), message)
            };
            let path = match (segment.source, &segment.path) {
                (SourceKind::Text, _) => None,
                (_, Some(path)) => Some(path.clone()),
                (SourceKind::Tools, None) => {
                    let path = self.free_path(directory, name, &given);
                    given.insert(path.clone());
                    Some(path)
                }
                (SourceKind::File, None) => {
                    return Err(wrong("path", "a file needs a name, such as rules.md".to_owned()));
                }
            };
            let source = match (segment.source, path) {
                (SourceKind::Tools, Some(path)) => EditedSource::Tools(path),
                (SourceKind::File, Some(path)) => EditedSource::File(path),
                _ => EditedSource::Text(segment.content.clone().unwrap_or_default()),
            };
            if let EditedSource::File(path) | EditedSource::Tools(path) = &source {
                let place = FilePlace::of(directory, path, on_disk.files.get(path));
                let wanted = segment.content.as_deref();
                if let Some((file, text)) =
                    place.write(wanted).map_err(|message| wrong("path", message))?
                    && writes.insert(file, text.clone()).is_some_and(|other| other != text)
                {
                    let message = format!("`{path}` is to hold two different texts");
                    return Err(wrong("path", message));
                }
            }
            let (layer, key) = (segment.layer.clone(), segment.key.clone());
            segments.push(EditedSegment { layer, key, stable: segment.stable, source });
        }
        let edited = EditedProfile { ttl: self.ttl, sampling: self.sampling.clone(), segments };
        let toml = edited.written(on_disk.toml.as_deref().unwrap_or(""));
        let outline = Outline::parse(&toml).map_err(refused)?;
        let read = |path: &Path| match writes.get(path) {
            Some(text) => Ok(text.clone().into_bytes()),
            None => read_bounded(path),
        };
        let profile = Profile::load(&outline, directory, read).map_err(refused)?;
        Ok(Checked { profile, outline, toml, writes })
    }

    /// An unused file name for tools without one. `given`: those of earlier segments.
    fn free_path(&self, directory: &Path, name: &ProfileName, given: &BTreeSet<String>) -> String {
        let taken = |path: &str| {
            given.contains(path)
                || directory.join(path).symlink_metadata().is_ok()
                || self.segments.iter().any(|segment| segment.path.as_deref() == Some(path))
        };
        let numbered = (2..).map(|number| format!("{name}.tools-{number}.json"));
        let mut names = std::iter::once(format!("{name}.tools.json")).chain(numbered);
        names.find(|path| !taken(path)).expect("a directory has finitely many files")
    }
}

impl Checked {
    /// Replaces the files. On an error, each of them is either the old or the new version.
    ///
    /// # Errors
    /// When the directory cannot be written.
    pub fn write(&self, directory: &Path, name: &ProfileName) -> io::Result<()> {
        fs::create_dir_all(directory)?;
        let toml = profile_file(directory, name);
        let files = self.writes.iter().map(|(file, text)| (file.as_path(), text.as_str()));
        let all: Vec<_> = files.chain([(toml.as_path(), self.toml.as_str())]).collect();
        // All temporary files are synced before the first one replaces anything.
        let staged = all.iter().map(|(file, text)| staged(file, text));
        let staged: Vec<NamedTempFile> = staged.collect::<io::Result<_>>()?;
        for (temporary, (file, _)) in staged.into_iter().zip(all) {
            temporary.persist(file).map_err(|error| error.error)?;
        }
        Ok(())
    }
}

/// Removes a profile and the files in the directory that no other profile names. Returns those
/// files.
///
/// # Errors
/// When the profile's own file cannot be removed.
pub fn remove(directory: &Path, name: &ProfileName) -> io::Result<Vec<String>> {
    let on_disk = OnDisk::read(directory, name).unwrap_or_default();
    let others = files_of_others(directory, name);
    fs::remove_file(profile_file(directory, name))?;
    // An unreadable profile may name any of the files.
    let Some(others) = others else { return Ok(Vec::new()) };
    let own = on_disk.files.keys().filter(|path| {
        let file = directory.join(path).canonicalize();
        is_editable(directory, path) && file.is_ok_and(|file| !others.contains(&file))
    });
    Ok(own.filter(|path| fs::remove_file(directory.join(path)).is_ok()).cloned().collect())
}

/// The canonical paths of the other profiles' files; `None` when one of them is unreadable.
fn files_of_others(directory: &Path, name: &ProfileName) -> Option<BTreeSet<PathBuf>> {
    let mut real = BTreeSet::new();
    for (other, file) in profile_files(directory).ok()? {
        if other != name.as_str() {
            let toml = String::from_utf8(read_bounded(&file).ok()?).ok()?;
            let files = Outline::parse(&toml).ok()?.files(directory);
            real.extend(files.iter().filter_map(|file| file.canonicalize().ok()));
        }
    }
    Some(real)
}

pub fn profile_file(directory: &Path, name: &ProfileName) -> PathBuf {
    directory.join(format!("{name}.toml"))
}

/// The path of a source as the profile spells it.
pub fn written_path(source: &Source) -> Option<String> {
    match source {
        Source::Text(_) => None,
        Source::File(path) | Source::Tools(path) => Some(path.to_string_lossy().into_owned()),
    }
}

fn staged(file: &Path, text: &str) -> io::Result<NamedTempFile> {
    let parent = file.parent().unwrap_or(Path::new("."));
    // Loading skips names that begin with a dot.
    let mut temporary = tempfile::Builder::new().prefix(".hob-").tempfile_in(parent)?;
    if let Ok(facts) = fs::metadata(file) {
        temporary.as_file().set_permissions(facts.permissions())?;
    }
    temporary.write_all(text.as_bytes())?;
    temporary.as_file().sync_all()?;
    Ok(temporary)
}

fn refused(error: ProfileError) -> ApiError {
    let message = error.to_string();
    let param = match &error {
        ProfileError::Segment { number, .. } => format!("segments[{}]", number - 1),
        _ => "segments".to_owned(),
    };
    ApiError::new(ErrorKind::Invalid, message).param(param).code("invalid_profile")
}
