//! The profiles of the profiles directory, as they were when they were last whole.
//!
//! - A profile that breaks keeps what it was, and says what is wrong with it.
//! - A changed profile is read anew as a whole; which of its segments changed first is told.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hob_prewarm::profile::{FILE_BYTES, Outline, Profile, ProfileSegment};
use hob_prewarm::{ProfileError, ProfileName};
use hob_slots::TtlClass;

use super::preamble::Preamble;
use super::prompt::Template;
use super::{Service, compute};
use crate::error::ApiError;

/// The profiles, by the names of their files.
#[derive(Debug, Default)]
pub struct Profiles {
    directory: Option<PathBuf>,
    entries: Mutex<BTreeMap<String, Entry>>,
    /// One reading at a time, so that an older one never replaces a newer one.
    reading: Mutex<()>,
    /// One editing at a time, from the look at what is there to the last file.
    pub(super) editing: Mutex<()>,
}

#[derive(Clone, Debug, Default)]
struct Entry {
    /// The last one that was whole.
    good: Option<Arc<Preamble>>,
    /// What is wrong with the newest one.
    error: Option<String>,
    /// What it is made of, as far as that is known.
    files: Vec<PathBuf>,
}

/// A profile whose prefix is another one than before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProfileChange {
    /// Which.
    pub name: ProfileName,
    /// What happened to it.
    pub kind: ChangeKind,
}

/// What happened to a profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    /// It is new, or whole for the first time.
    Added,
    /// Its file is gone.
    Removed,
    /// Its prefix is another one from this segment on.
    Changed {
        /// The first segment that differs.
        segment: String,
    },
    /// Its prefix is kept for another time.
    Reclassed,
}

/// A profile, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProfileStatus {
    /// The name of its file, without `.toml`.
    pub name: String,
    /// What is wrong with its file; what is told beside it is the last one that was whole.
    pub error: Option<String>,
    /// How long its prefix is kept on disk; `None`: it was never whole.
    pub ttl: Option<TtlClass>,
    /// The segments of its prefix, as `layer:key`.
    pub prefix: Vec<String>,
    /// Those behind it.
    pub tail: Vec<String>,
    /// Tokens of its prefix.
    pub tokens: Option<usize>,
}

impl Profiles {
    /// Those of `directory`; nothing is read yet. `None`: there are none, ever.
    pub fn new(directory: Option<PathBuf>) -> Self {
        Self { directory, ..Self::default() }
    }

    /// Reads all of them and tells whose prefix is another one now.
    pub fn reload(&self, template: &Template) -> Vec<ProfileChange> {
        let _one_at_a_time = self.reading.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(directory) = &self.directory else { return Vec::new() };
        let files = match profile_files(directory) {
            Ok(files) => files,
            Err(error) => {
                let shown = directory.display();
                tracing::warn!(directory = %shown, %error, "the profiles cannot be listed");
                return Vec::new();
            }
        };
        let before = self.entries().clone();
        let mut after = BTreeMap::new();
        for (name, file) in files {
            let known = before.get(&name).cloned().unwrap_or_default();
            after.insert(name, known.reread(&file, directory, template));
        }
        let changes = changes(&before, &after);
        *self.entries() = after;
        changes
    }

    /// Where they lie.
    pub(super) fn directory(&self) -> Option<&Path> {
        self.directory.as_deref()
    }

    fn preamble(&self, name: &ProfileName) -> Result<Arc<Preamble>, ApiError> {
        let refused = |message: String, code| ApiError::field("hob.profile", message).code(code);
        let entries = self.entries();
        match entries.get(name.as_str()) {
            Some(Entry { good: Some(preamble), .. }) => Ok(preamble.clone()),
            Some(Entry { error: Some(error), .. }) => {
                Err(refused(format!("profile `{name}` cannot be used: {error}"), "profile_broken"))
            }
            _ => {
                let names: Vec<&str> = entries.keys().map(String::as_str).collect();
                let there = match names.is_empty() {
                    true => "the profiles directory has none".to_owned(),
                    false => format!("there are: {}", names.join(", ")),
                };
                Err(refused(format!("no profile is called `{name}`; {there}"), "profile_not_found"))
            }
        }
    }

    fn entries(&self) -> MutexGuard<'_, BTreeMap<String, Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entry {
    /// What it is after its file was read once more.
    fn reread(self, file: &Path, directory: &Path, template: &Template) -> Self {
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
                    let kept = self.good.is_some();
                    tracing::warn!(file = %file.display(), error, kept, "this profile is broken");
                }
                // Those that the last good one was made of may be the ones that were repaired.
                files.extend(self.files.into_iter().filter(|known| known != file));
                files.dedup();
                Self { good: self.good, error: Some(error), files }
            }
        }
    }
}

impl Service {
    /// All profiles and what is wrong with them.
    pub async fn profiles(&self) -> Vec<ProfileStatus> {
        let service = self.clone();
        compute(move || {
            let entries = service.inner.profiles.entries().clone();
            entries.into_iter().map(|(name, entry)| service.profile_status(name, entry)).collect()
        })
        .await
    }

    /// The names of those that can be used.
    pub fn profile_names(&self) -> Vec<ProfileName> {
        let entries = self.inner.profiles.entries();
        let usable = entries.iter().filter(|(_, entry)| entry.good.is_some());
        usable.filter_map(|(name, _)| name.parse().ok()).collect()
    }

    /// Reads all profiles anew and tells whose prefix is another one now.
    pub async fn reload_profiles(&self) -> Vec<ProfileChange> {
        let service = self.clone();
        compute(move || service.inner.profiles.reload(&service.inner.template)).await
    }

    /// Whether a profile is broken, and so perhaps half-written.
    pub fn has_broken_profiles(&self) -> bool {
        self.inner.profiles.entries().values().any(|entry| entry.error.is_some())
    }

    /// The profiles directory, and every file that a profile is made of.
    pub fn profile_files(&self) -> (Option<PathBuf>, Vec<PathBuf>) {
        let entries = self.inner.profiles.entries();
        let files = entries.values().flat_map(|entry| entry.files.iter().cloned()).collect();
        (self.inner.profiles.directory.clone(), files)
    }

    /// What a profile puts in front of a chat.
    pub(super) fn preamble(&self, name: &ProfileName) -> Result<Arc<Preamble>, ApiError> {
        self.inner.profiles.preamble(name)
    }

    fn profile_status(&self, name: String, entry: Entry) -> ProfileStatus {
        let count = |preamble: &Preamble| match (preamble.prefix.tokens(), name.parse()) {
            (Some(tokens), _) => Some(tokens),
            (None, Ok(name)) => self.prefix_tokens(&name).ok().map(|tokens| tokens.len()),
            (None, Err(_)) => None,
        };
        let tokens = entry.good.as_deref().and_then(count);
        let profile = entry.good.as_deref().map(|preamble| &preamble.profile);
        let parts = profile.map(Profile::parts).unwrap_or_default();
        let label =
            |segment: &ProfileSegment| format!("{}:{}", segment.layer.as_str(), segment.key);
        let labels = |segments: Vec<_>| segments.into_iter().map(label).collect();
        let (prefix, tail) = (labels(parts.0), labels(parts.1));
        let ttl = profile.map(|profile| profile.ttl);
        ProfileStatus { name, error: entry.error, ttl, prefix, tail, tokens }
    }
}

/// How many profiles there are in a directory, broken ones among them.
pub fn count_profiles(directory: &Path) -> usize {
    profile_files(directory).map_or(0, |files| files.len())
}

/// The names and the files of the profiles; none where there is no directory yet.
pub(super) fn profile_files(directory: &Path) -> io::Result<Vec<(String, PathBuf)>> {
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

/// Everything that it is made of is added to `files`, also when it is broken.
fn read_profile(
    file: &Path,
    directory: &Path,
    template: &Template,
    files: &mut Vec<PathBuf>,
) -> Result<Preamble, String> {
    let told = |error: ProfileError| error.to_string();
    let name = file.file_stem().unwrap_or_default().to_string_lossy();
    name.parse::<ProfileName>().map_err(|error| error.to_string())?;
    let bytes = read_bounded(file).map_err(|error| format!("it cannot be read: {error}"))?;
    if bytes.len() > FILE_BYTES {
        return Err("it is larger than 1 MiB".to_owned());
    }
    let text = String::from_utf8(bytes).map_err(|_| "it is not text in UTF-8".to_owned())?;
    let outline = Outline::parse(&text).map_err(told)?;
    files.extend(outline.files(directory));
    let profile = Profile::load(&outline, directory, read_bounded).map_err(told)?;
    Preamble::new(profile, template).map_err(|error| error.to_string())
}

/// A byte more than a profile may have at most, so that a file that is too large shows.
pub(super) fn read_bounded(path: &Path) -> io::Result<Vec<u8>> {
    if !std::fs::metadata(path)?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no file"));
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(FILE_BYTES as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn changes(
    before: &BTreeMap<String, Entry>,
    after: &BTreeMap<String, Entry>,
) -> Vec<ProfileChange> {
    let good = |entries: &BTreeMap<String, Entry>, name: &str| entries.get(name)?.good.clone();
    let names: std::collections::BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let change = |name: &String| {
        let kind = match (good(before, name), good(after, name)) {
            (None, None) => return None,
            (None, Some(_)) => ChangeKind::Added,
            (Some(_), None) => ChangeKind::Removed,
            (Some(old), Some(new)) => match new.profile.first_change(&old.profile) {
                Some(segment) => ChangeKind::Changed { segment: segment.key.clone() },
                None if new.profile.ttl != old.profile.ttl => ChangeKind::Reclassed,
                None => return None,
            },
        };
        Some(ProfileChange { name: name.parse().ok()?, kind })
    };
    names.into_iter().filter_map(change).collect()
}
