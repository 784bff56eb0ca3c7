//! The files of a profile that somebody edits: read, checked, and replaced as one.
//!
//! - Nothing outside the profiles directory is ever written, and nothing that belongs to something
//!   else. What the profile names elsewhere may stay in it, as its author wrote it.
//! - Everything is checked before anything is written; each file appears at once and whole, the
//!   profile itself last.
//! - A revision is a hash of what was read: who edits an older one is told. Files that something
//!   else writes, which are those that are not stable or lie elsewhere, are no part of it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use hob_prewarm::profile::{Draft, DraftSegment, DraftSource, Outline, Profile, Source};
use hob_prewarm::{ProfileError, ProfileName};
use hob_slots::TtlClass;
use serde::Deserialize;
use sha2::{Digest, Sha256};
use tempfile::NamedTempFile;

use super::profile_place::{Place, is_editable};
use super::profiles::{profile_files, read_bounded};
use crate::error::{ApiError, ErrorKind};

/// A draft, and what the files that it names are to hold.
#[derive(Clone, Debug)]
pub struct Edit {
    /// How long the prefix is kept.
    pub ttl: TtlClass,
    /// The parts, in order.
    pub segments: Vec<EditSegment>,
}

/// A part of it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EditSegment {
    /// The name of its layer.
    pub layer: String,
    /// What it is called.
    pub key: Option<String>,
    /// Whether it stays from request to request.
    #[serde(default = "yes")]
    pub stable: bool,
    /// What kind of source it has.
    pub source: SourceKind,
    /// Its file, as it is written in the profile.
    pub path: Option<String>,
    /// What it holds; `None`: its file stays as it is.
    pub content: Option<String>,
}

fn yes() -> bool {
    true
}

/// Where a part's text comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SourceKind {
    /// It stands in the profile.
    Text,
    /// A text file.
    File,
    /// A JSON file with tools.
    Tools,
}

/// A profile as it lies there.
#[derive(Clone, Debug, Default)]
pub struct OnDisk {
    /// The text of its file; `None`: there is none.
    pub toml: Option<String>,
    /// What it names, by the path that it writes; `None`: it cannot be read.
    pub files: BTreeMap<String, Option<String>>,
    /// Those that nobody but an editor changes.
    steady: BTreeSet<String>,
}

/// A checked edit, ready to be written.
#[derive(Debug)]
pub struct Checked {
    /// The profile that it makes.
    pub profile: Profile,
    /// The same before its files were read.
    pub outline: Outline,
    toml: String,
    writes: BTreeMap<PathBuf, String>,
}

impl OnDisk {
    /// Reads a profile and whatever it names.
    ///
    /// # Errors
    /// When its own file is there and cannot be read as text.
    pub fn read(directory: &Path, name: &ProfileName) -> io::Result<Self> {
        let file = profile_file(directory, name);
        let bytes = match read_bounded(&file) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(error),
        };
        let toml = String::from_utf8(bytes)
            .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it is not text in UTF-8"))?;
        let mut there = Self::default();
        let outline = Outline::parse(&toml).ok();
        for segment in outline.iter().flat_map(|outline| &outline.segments) {
            let Some(path) = written_path(&segment.source) else { continue };
            if segment.stable && is_editable(directory, &path) {
                there.steady.insert(path.clone());
            }
            let read = read_bounded(&directory.join(&path)).ok();
            there.files.insert(path, read.and_then(|bytes| String::from_utf8(bytes).ok()));
        }
        Ok(Self { toml: Some(toml), ..there })
    }

    /// Another one when anything that was read is another; `None`: there is no profile.
    pub fn revision(&self) -> Option<String> {
        let mut digest = Sha256::new();
        digest.update(self.toml.as_ref()?);
        let steady = self.files.iter().filter(|(path, _)| self.steady.contains(*path));
        for (path, text) in steady {
            // A length in front, so that no text can look like the beginning of the next.
            for part in [Some(path), text.as_ref()] {
                digest.update(part.map_or(u64::MAX, |part| part.len() as u64).to_le_bytes());
                digest.update(part.map_or("", String::as_str));
            }
        }
        Some(digest.finalize()[..8].iter().map(|byte| format!("{byte:02x}")).collect())
    }
}

impl Edit {
    /// Checks the edit of a profile that is `there`. Reads, and writes nothing.
    ///
    /// # Errors
    /// A field that is wrong, or a file that must not be written.
    pub fn checked(
        &self,
        directory: &Path,
        name: &ProfileName,
        there: &OnDisk,
    ) -> Result<Checked, ApiError> {
        let mut writes = BTreeMap::new();
        let mut segments = Vec::new();
        for (at, segment) in self.segments.iter().enumerate() {
            let wrong = |field: &str, message: String| {
                ApiError::field(format!("segments[{at}].{field}"), message)
            };
            let path = match (segment.source, &segment.path) {
                (SourceKind::Text, _) => None,
                (_, Some(path)) => Some(path.clone()),
                (SourceKind::Tools, None) => Some(self.free_path(directory, name)),
                (SourceKind::File, None) => {
                    return Err(wrong("path", "a file needs a name, such as rules.md".to_owned()));
                }
            };
            let source = match (segment.source, path) {
                (SourceKind::Tools, Some(path)) => DraftSource::Tools(path),
                (SourceKind::File, Some(path)) => DraftSource::File(path),
                _ => DraftSource::Text(segment.content.clone().unwrap_or_default()),
            };
            if let DraftSource::File(path) | DraftSource::Tools(path) = &source {
                let place = Place::of(directory, path, there.files.get(path));
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
            segments.push(DraftSegment { layer, key, stable: segment.stable, source });
        }
        let toml = Draft { ttl: self.ttl, segments }.written(there.toml.as_deref().unwrap_or(""));
        let outline = Outline::parse(&toml).map_err(refused)?;
        let read = |path: &Path| match writes.get(path) {
            Some(text) => Ok(text.clone().into_bytes()),
            None => read_bounded(path),
        };
        let profile = Profile::load(&outline, directory, read).map_err(refused)?;
        Ok(Checked { profile, outline, toml, writes })
    }

    /// A name for tools that nobody gave one.
    fn free_path(&self, directory: &Path, name: &ProfileName) -> String {
        let taken = |path: &str| {
            directory.join(path).symlink_metadata().is_ok()
                || self.segments.iter().any(|segment| segment.path.as_deref() == Some(path))
        };
        let numbered = (2..).map(|number| format!("{name}.tools-{number}.json"));
        let mut names = std::iter::once(format!("{name}.tools.json")).chain(numbered);
        names.find(|path| !taken(path)).expect("a directory has finitely many files")
    }
}

impl Checked {
    /// Replaces the files. On an error, each of them is the old one or the new one, whole.
    ///
    /// # Errors
    /// When the directory cannot be written.
    pub fn write(&self, directory: &Path, name: &ProfileName) -> io::Result<()> {
        fs::create_dir_all(directory)?;
        let toml = profile_file(directory, name);
        let files = self.writes.iter().map(|(file, text)| (file.as_path(), text.as_str()));
        let all: Vec<_> = files.chain([(toml.as_path(), self.toml.as_str())]).collect();
        // All are on disk before the first one replaces anything.
        let staged = all.iter().map(|(file, text)| staged(file, text));
        let staged: Vec<NamedTempFile> = staged.collect::<io::Result<_>>()?;
        for (temporary, (file, _)) in staged.into_iter().zip(all) {
            temporary.persist(file).map_err(|error| error.error)?;
        }
        Ok(())
    }
}

/// Removes a profile, and what lies in the directory for it alone. Tells what went.
///
/// # Errors
/// When its file cannot be removed.
pub fn remove(directory: &Path, name: &ProfileName) -> io::Result<Vec<String>> {
    let there = OnDisk::read(directory, name).unwrap_or_default();
    let others = files_of_others(directory, name);
    fs::remove_file(profile_file(directory, name))?;
    // Where one of the others does not tell, any file may be its own.
    let Some(others) = others else { return Ok(Vec::new()) };
    let own = there.files.keys().filter(|path| {
        let file = directory.join(path).canonicalize();
        is_editable(directory, path) && file.is_ok_and(|file| !others.contains(&file))
    });
    Ok(own.filter(|path| fs::remove_file(directory.join(path)).is_ok()).cloned().collect())
}

/// What the other profiles are made of, where it really lies; `None` when one cannot be read.
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

/// The file of a profile of this name.
pub fn profile_file(directory: &Path, name: &ProfileName) -> PathBuf {
    directory.join(format!("{name}.toml"))
}

/// The path of a source as its author wrote it.
pub fn written_path(source: &Source) -> Option<String> {
    match source {
        Source::Text(_) => None,
        Source::File(path) | Source::Tools(path) => Some(path.to_string_lossy().into_owned()),
    }
}

fn staged(file: &Path, text: &str) -> io::Result<NamedTempFile> {
    let parent = file.parent().unwrap_or(Path::new("."));
    // A name that begins with a dot is no profile's.
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
