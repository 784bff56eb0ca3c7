//! Profiles that somebody edits: read, checked, written, removed.

use std::path::{Path, PathBuf};
use std::sync::PoisonError;

use hob_prewarm::ProfileName;
use hob_prewarm::profile::{Outline, Profile};

use super::preamble::Preamble;
use super::profile_files::{Edit, OnDisk, profile_file, remove};
use super::profile_view::{ProfileView, Shown, named, outlined};
use super::profiles::read_bounded;
use super::{Service, compute};
use crate::error::{ApiError, ErrorKind};

/// A profile that was asked for.
#[derive(Clone, Debug)]
pub struct ProfileAsked {
    /// Its name.
    pub name: ProfileName,
    /// Its file.
    pub path: PathBuf,
    /// What an edit of it must name.
    pub revision: String,
    /// What is wrong with it.
    pub error: Option<String>,
    /// What is in it; `None` when it cannot be read at all.
    pub view: Option<ProfileView>,
}

impl Service {
    /// Where profiles lie.
    pub fn profiles_dir(&self) -> Option<PathBuf> {
        self.inner.profiles.directory().map(Path::to_owned)
    }

    /// A profile as it lies there now, with what it costs.
    ///
    /// # Errors
    /// When there is none of this name.
    pub async fn profile(&self, name: &str) -> Result<ProfileAsked, ApiError> {
        let (service, name) = (self.clone(), named(name)?);
        compute(move || service.profile_now(name)).await
    }

    /// What a draft would cost. Changes nothing.
    ///
    /// # Errors
    /// When it could not be saved.
    pub async fn check_profile(
        &self,
        name: Option<String>,
        edit: Edit,
    ) -> Result<ProfileView, ApiError> {
        let service = self.clone();
        // A draft needs no name yet.
        let name = named(name.as_deref().filter(|name| !name.is_empty()).unwrap_or("draft"))?;
        compute(move || {
            let directory = service.directory()?;
            let there =
                OnDisk::read(directory, &name).map_err(|error| unreadable(&name, &error))?;
            let checked = edit.checked(directory, &name, &there)?;
            let preamble = Preamble::new(checked.profile.clone(), &service.inner.template)?;
            let instead = edit.segments.into_iter().map(|segment| segment.content).collect();
            let shown = Shown { directory, there: &there, instead };
            service.view(&preamble, &checked.outline, &shown)
        })
        .await
    }

    /// Replaces a profile, or makes one. `revision`: what was read; `None`: there must be none.
    ///
    /// # Errors
    /// When it is wrong, when somebody else changed it, or when it cannot be written; then nothing
    /// is changed.
    pub async fn save_profile(
        &self,
        name: &str,
        revision: Option<String>,
        edit: Edit,
    ) -> Result<ProfileAsked, ApiError> {
        let (service, name) = (self.clone(), named(name)?);
        let saved = name.clone();
        compute(move || {
            let directory = service.directory()?;
            let _alone =
                service.inner.profiles.editing.lock().unwrap_or_else(PoisonError::into_inner);
            let there =
                OnDisk::read(directory, &name).map_err(|error| unreadable(&name, &error))?;
            unchanged(&name, there.revision(), revision)?;
            let checked = edit.checked(directory, &name, &there)?;
            Preamble::new(checked.profile.clone(), &service.inner.template)?;
            checked.write(directory, &name).map_err(|error| {
                ApiError::internal(format!("`{name}` could not be written: {error}"))
            })
        })
        .await?;
        self.warm_changed(&self.reload_profiles().await);
        self.profile(saved.as_str()).await
    }

    /// Removes a profile and the files that it alone has. Tells those.
    ///
    /// # Errors
    /// When there is none, or when it cannot be removed.
    pub async fn remove_profile(&self, name: &str) -> Result<Vec<String>, ApiError> {
        let (service, name) = (self.clone(), named(name)?);
        let removed = compute(move || {
            let directory = service.directory()?;
            let _alone =
                service.inner.profiles.editing.lock().unwrap_or_else(PoisonError::into_inner);
            if !profile_file(directory, &name).exists() {
                return Err(not_found(&name));
            }
            remove(directory, &name).map_err(|error| {
                ApiError::internal(format!("`{name}` could not be removed: {error}"))
            })
        })
        .await?;
        self.warm_changed(&self.reload_profiles().await);
        Ok(removed)
    }

    fn profile_now(&self, name: ProfileName) -> Result<ProfileAsked, ApiError> {
        let directory = self.directory()?;
        let path = profile_file(directory, &name);
        let there = OnDisk::read(directory, &name).map_err(|error| unreadable(&name, &error))?;
        let (Some(revision), Some(toml)) = (there.revision(), &there.toml) else {
            return Err(not_found(&name));
        };
        let shown = Shown { directory, there: &there, instead: Vec::new() };
        let mut asked = ProfileAsked { name, path, revision, error: None, view: None };
        let outline = match Outline::parse(toml) {
            Ok(outline) => outline,
            Err(error) => return Ok(ProfileAsked { error: Some(error.to_string()), ..asked }),
        };
        let viewed = Profile::load(&outline, directory, read_bounded)
            .map_err(|error| error.to_string())
            .and_then(|profile| {
                let opened = match self.preamble(&asked.name) {
                    Ok(known) if known.profile == profile => Ok(known),
                    _ => Preamble::new(profile, &self.inner.template).map(Into::into),
                };
                let view = opened.and_then(|preamble| self.view(&preamble, &outline, &shown));
                view.map_err(|error| error.to_string())
            });
        match viewed {
            Ok(view) => asked.view = Some(view),
            Err(error) => {
                (asked.error, asked.view) = (Some(error), Some(outlined(&outline, &shown)));
            }
        }
        Ok(asked)
    }

    fn directory(&self) -> Result<&Path, ApiError> {
        self.inner.profiles.directory().ok_or_else(|| {
            ApiError::not_found("this daemon has no directory of profiles")
                .code("profile_not_found")
        })
    }
}

fn unchanged(
    name: &ProfileName,
    there: Option<String>,
    revision: Option<String>,
) -> Result<(), ApiError> {
    let conflict =
        |message: String, code| Err(ApiError::new(ErrorKind::Conflict, message).code(code));
    match (there, revision) {
        (there, revision) if there == revision => Ok(()),
        (Some(_), None) => {
            conflict(format!("there is a profile `{name}`: choose another name"), "profile_exists")
        }
        (there, _) => {
            let what = if there.is_some() { "changed" } else { "removed" };
            let message = format!("`{name}` was {what} elsewhere: read it again, then change it");
            conflict(message, "profile_changed")
        }
    }
}

fn not_found(name: &ProfileName) -> ApiError {
    ApiError::not_found(format!("no profile is called `{name}`")).code("profile_not_found")
}

fn unreadable(name: &ProfileName, error: &std::io::Error) -> ApiError {
    ApiError::internal(format!("`{name}` cannot be read: {error}"))
}
