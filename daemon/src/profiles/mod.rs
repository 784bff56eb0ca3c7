//! The profiles of the profiles directory: loaded, watched, edited, and rendered to prefixes.
//!
//! Reading order: this file (the handle), `load` (files to preambles), [`prefix`] (the tokens that
//! a profile's requests share), [`status`] (where a prefix is), [`edit`], `files` and `place`
//! (writing profiles), [`view`] (what each segment costs).
//!
//! - A profile that breaks keeps its last good version and reports the error.
//! - A changed profile is reloaded as a whole; the change names the first segment that differs.

pub mod edit;
pub mod files;
mod load;
mod place;
pub mod prefix;
pub mod status;
pub mod view;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hob_prewarm::profile::{Profile, ProfileSegment};
use hob_prewarm::{Event, PrefixName, ProfileName};
use hob_slots::store::StoreReader;
use hob_slots::{ModelHash, TtlClass};
use serde_json::Value;

use load::{LoadedProfile, profile_files};

use crate::blocking::compute;
use crate::error::ApiError;
use crate::prompt::preamble::sampling_json;
use crate::prompt::{Preamble, Renderer};
use crate::warm::events::WarmEvents;
use crate::warm::warm_status::{WarmStatus, WarmStatusReader};
use parking_lot::{Mutex, MutexGuard};

/// What [`Profiles`] is made of.
pub struct Options {
    /// `None`: there are no profiles.
    pub directory: Option<PathBuf>,
    pub renderer: Arc<Renderer>,
    pub fingerprint: ModelHash,
    /// `None`: no KV on disk.
    pub reader: Option<StoreReader>,
    pub events: WarmEvents,
    pub warm_status: WarmStatusReader,
}

/// The profiles. Clones share them.
#[derive(Clone)]
pub struct Profiles {
    shared: Arc<Shared>,
}

struct Shared {
    options: Options,
    /// By the names of their files.
    loaded: Mutex<BTreeMap<String, LoadedProfile>>,
    /// One reload at a time, so that an older one never replaces a newer one.
    reloading: Mutex<()>,
    /// One edit at a time, from reading the old files to writing the last new one.
    editing: Mutex<()>,
}

/// A profile whose prefix changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProfileChange {
    pub name: ProfileName,
    pub kind: ChangeKind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    /// New, or valid for the first time.
    Added,
    Removed,
    Changed {
        /// The first segment of the prefix that differs.
        segment: String,
    },
    /// The prefix is the same, its TTL class another one.
    Reclassed,
}

/// One line of the list of profiles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProfileStatus {
    /// The name of its file, without `.toml`.
    pub name: String,
    /// What is wrong with its file; the other fields describe the last good version.
    pub error: Option<String>,
    /// `None`: no version was valid.
    pub ttl: Option<TtlClass>,
    /// The segments of its prefix, as `layer:key`.
    pub prefix: Vec<String>,
    /// The segments behind the prefix.
    pub tail: Vec<String>,
    /// Tokens of its prefix.
    pub tokens: Option<usize>,
    /// Parameters of its answers, as a request has them.
    pub sampling: Value,
}

impl Profiles {
    /// Loads the profiles of the directory.
    pub fn new(options: Options) -> Self {
        let shared = Shared {
            options,
            loaded: Mutex::default(),
            reloading: Mutex::default(),
            editing: Mutex::default(),
        };
        let profiles = Self { shared: Arc::new(shared) };
        profiles.reload_now();
        profiles
    }

    pub fn directory(&self) -> Option<&Path> {
        self.shared.options.directory.as_deref()
    }

    /// All profiles, broken ones included.
    pub async fn list(&self) -> Vec<ProfileStatus> {
        let profiles = self.clone();
        compute(move || {
            let loaded = profiles.loaded().clone();
            loaded.into_iter().map(|(name, profile)| profiles.status(name, profile)).collect()
        })
        .await
    }

    /// The names of the usable profiles.
    pub fn names(&self) -> Vec<ProfileName> {
        let loaded = self.loaded();
        let usable = loaded.iter().filter(|(_, profile)| profile.good.is_some());
        usable.filter_map(|(name, _)| name.parse().ok()).collect()
    }

    /// The default profile's name, if there is one, usable or not.
    pub fn default(&self) -> Option<ProfileName> {
        let name = ProfileName::default();
        self.loaded().contains_key(name.as_str()).then_some(name)
    }

    /// The last good version of a profile, ready to render.
    ///
    /// # Errors
    /// When the profile is unknown or was never valid.
    pub fn preamble(&self, name: &ProfileName) -> Result<Arc<Preamble>, ApiError> {
        let refused = |message: String, code| ApiError::field("hob.profile", message).code(code);
        let loaded = self.loaded();
        match loaded.get(name.as_str()) {
            Some(LoadedProfile { good: Some(preamble), .. }) => Ok(preamble.clone()),
            Some(LoadedProfile { error: Some(error), files, .. }) => {
                let file = files.first().map(|file| format!("{}: ", file.display()));
                let file = file.unwrap_or_default();
                let message = format!("profile `{name}` cannot be used: {file}{error}");
                Err(refused(message, "profile_broken"))
            }
            _ => {
                let names: Vec<&str> = loaded.keys().map(String::as_str).collect();
                let known = if names.is_empty() {
                    "the profiles directory has none".to_owned()
                } else {
                    format!("there are: {}", names.join(", "))
                };
                Err(refused(format!("no profile is called `{name}`; {known}"), "profile_not_found"))
            }
        }
    }

    /// Whether a profile has an error; an editor may still be writing it.
    pub fn has_broken(&self) -> bool {
        self.loaded().values().any(|profile| profile.error.is_some())
    }

    /// The files that the profiles were read from.
    pub fn files(&self) -> Vec<PathBuf> {
        self.loaded().values().flat_map(|profile| profile.files.iter().cloned()).collect()
    }

    /// Reads all profiles again; returns those whose prefix changed.
    pub async fn reload(&self) -> Vec<ProfileChange> {
        let profiles = self.clone();
        compute(move || profiles.reload_now()).await
    }

    /// Warms the prefixes that changed.
    pub fn warm_changed(&self, changes: &[ProfileChange]) {
        for change in changes {
            let prefix = PrefixName::Profile(change.name.clone());
            self.shared.options.events.send(match change.kind {
                ChangeKind::Removed => Event::PrefixRemoved { prefix },
                ChangeKind::Added | ChangeKind::Changed { .. } | ChangeKind::Reclassed => {
                    Event::PrefixChanged { prefix }
                }
            });
        }
    }

    /// What the warming loop publishes.
    pub fn warm_status(&self) -> WarmStatus {
        self.shared.options.warm_status.read()
    }

    fn renderer(&self) -> &Renderer {
        &self.shared.options.renderer
    }

    fn loaded(&self) -> MutexGuard<'_, BTreeMap<String, LoadedProfile>> {
        self.shared.loaded.lock()
    }

    fn reload_now(&self) -> Vec<ProfileChange> {
        let _one_at_a_time = self.shared.reloading.lock();
        let Some(directory) = self.directory() else { return Vec::new() };
        let files = match profile_files(directory) {
            Ok(files) => files,
            Err(error) => {
                tracing::warn!(directory = %directory.display(), %error, "cannot list profiles");
                return Vec::new();
            }
        };
        let before = self.loaded().clone();
        let mut after = BTreeMap::new();
        for (name, file) in files {
            let known = before.get(&name).cloned().unwrap_or_default();
            after.insert(name, known.reload(&file, directory, self.renderer().template()));
        }
        let changes = changes(&before, &after);
        *self.loaded() = after;
        changes
    }

    fn status(&self, name: String, loaded: LoadedProfile) -> ProfileStatus {
        let count = |preamble: &Preamble| match (preamble.prefix.tokens(), name.parse()) {
            (Some(tokens), _) => Some(tokens),
            (None, Ok(name)) => self.prefix_tokens(&name).ok().map(|tokens| tokens.len()),
            (None, Err(_)) => None,
        };
        let tokens = loaded.good.as_deref().and_then(count);
        let profile = loaded.good.as_deref().map(|preamble| &preamble.profile);
        let (prefix, tail) = profile.map(Profile::parts).unwrap_or_default();
        let label =
            |segment: &ProfileSegment| format!("{}:{}", segment.layer.as_str(), segment.key);
        let labels = |segments: Vec<_>| segments.into_iter().map(label).collect();
        ProfileStatus {
            ttl: profile.map(|profile| profile.ttl),
            sampling: profile.map(sampling_json).unwrap_or_default(),
            prefix: labels(prefix),
            tail: labels(tail),
            tokens,
            error: loaded.error,
            name,
        }
    }
}

fn changes(
    before: &BTreeMap<String, LoadedProfile>,
    after: &BTreeMap<String, LoadedProfile>,
) -> Vec<ProfileChange> {
    let good =
        |profiles: &BTreeMap<String, LoadedProfile>, name: &str| profiles.get(name)?.good.clone();
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
