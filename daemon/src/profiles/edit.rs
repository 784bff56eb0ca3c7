//! Profiles that clients edit: read, checked, written, removed.

use std::path::{Path, PathBuf};

use hob_prewarm::profile::{Outline, Profile};
use hob_prewarm::{ProfileName, ProfileNameError};

use super::Profiles;
use super::files::{Edit, OnDisk, profile_file, remove};
use super::load::read_bounded;
use super::view::{ProfileView, ViewFiles, outline_view};
use crate::blocking::compute;
use crate::error::{ApiError, ErrorKind};
use crate::prompt::Preamble;
use parking_lot::MutexGuard;

/// A profile as an editor reads it.
#[derive(Clone, Debug)]
pub struct ProfileDetails {
    pub name: ProfileName,
    pub path: PathBuf,
    /// An edit sends it back, so that edits of an older version are refused.
    pub revision: String,
    pub error: Option<String>,
    /// `None` when its file cannot be parsed.
    pub view: Option<ProfileView>,
}

impl Profiles {
    /// A profile as its files are now.
    ///
    /// # Errors
    /// When there is no such profile.
    pub async fn details(&self, name: &str) -> Result<ProfileDetails, ApiError> {
        let (profiles, name) = (self.clone(), parse_name(name)?);
        compute(move || profiles.details_now(name)).await
    }

    /// What an edit would cost. Changes nothing.
    ///
    /// # Errors
    /// When it could not be saved.
    pub async fn check(&self, name: Option<String>, edit: Edit) -> Result<ProfileView, ApiError> {
        let profiles = self.clone();
        // A new profile may not have a name yet.
        let name = parse_name(name.as_deref().filter(|name| !name.is_empty()).unwrap_or("draft"))?;
        compute(move || {
            let directory = profiles.editable_directory()?;
            let on_disk =
                OnDisk::read(directory, &name).map_err(|error| unreadable(&name, &error))?;
            let checked = edit.checked(directory, &name, &on_disk)?;
            let preamble = Preamble::new(checked.profile.clone(), profiles.renderer().template())?;
            let new_texts = edit.segments.into_iter().map(|segment| segment.content).collect();
            let files = ViewFiles { directory, on_disk: &on_disk, new_texts };
            profiles.view(&preamble, &checked.outline, &files)
        })
        .await
    }

    /// Replaces a profile, or creates one. `revision`: of the version that was edited; `None`: the
    /// profile must not exist.
    ///
    /// # Errors When the edit is invalid, based on an older version, or cannot be written. Nothing
    /// changes then.
    pub async fn save(
        &self,
        name: &str,
        revision: Option<String>,
        edit: Edit,
    ) -> Result<ProfileDetails, ApiError> {
        let (profiles, name) = (self.clone(), parse_name(name)?);
        let saved = name.clone();
        compute(move || {
            let directory = profiles.editable_directory()?;
            let _one_at_a_time = profiles.lock_editing();
            let on_disk =
                OnDisk::read(directory, &name).map_err(|error| unreadable(&name, &error))?;
            check_revision(&name, on_disk.revision(), revision)?;
            let checked = edit.checked(directory, &name, &on_disk)?;
            Preamble::new(checked.profile.clone(), profiles.renderer().template())?;
            checked.write(directory, &name).map_err(|error| {
                let directory = directory.display();
                let message = format!("`{name}` could not be written in {directory}: {error}");
                ApiError::internal(message).unless_disk_full(&error)
            })
        })
        .await?;
        self.warm_changed(&self.reload().await);
        self.details(saved.as_str()).await
    }

    /// Removes a profile and the files that no other profile names. Returns those files.
    ///
    /// # Errors
    /// When there is no such profile, or it cannot be removed.
    pub async fn remove(&self, name: &str) -> Result<Vec<String>, ApiError> {
        let (profiles, name) = (self.clone(), parse_name(name)?);
        let removed = compute(move || {
            let directory = profiles.editable_directory()?;
            let _one_at_a_time = profiles.lock_editing();
            if !profile_file(directory, &name).exists() {
                return Err(not_found(&name));
            }
            remove(directory, &name).map_err(|error| {
                ApiError::internal(format!("`{name}` could not be removed: {error}"))
            })
        })
        .await?;
        self.warm_changed(&self.reload().await);
        Ok(removed)
    }

    fn details_now(&self, name: ProfileName) -> Result<ProfileDetails, ApiError> {
        let directory = self.editable_directory()?;
        let path = profile_file(directory, &name);
        let on_disk = OnDisk::read(directory, &name).map_err(|error| unreadable(&name, &error))?;
        let (Some(revision), Some(toml)) = (on_disk.revision(), &on_disk.toml) else {
            return Err(not_found(&name));
        };
        let mut details = ProfileDetails { name, path, revision, error: None, view: None };
        let outline = match Outline::parse(toml) {
            Ok(outline) => outline,
            Err(error) => return Ok(ProfileDetails { error: Some(error.to_string()), ..details }),
        };
        let files = ViewFiles { directory, on_disk: &on_disk, new_texts: Vec::new() };
        match self.view_of_files(&details.name, &outline, &files) {
            Ok(view) => details.view = Some(view),
            Err(error) => {
                details.error = Some(error);
                details.view = Some(outline_view(&outline, &files));
            }
        }
        Ok(details)
    }

    fn view_of_files(
        &self,
        name: &ProfileName,
        outline: &Outline,
        files: &ViewFiles<'_>,
    ) -> Result<ProfileView, String> {
        let profile = Profile::load(outline, files.directory, read_bounded)
            .map_err(|error| error.to_string())?;
        let preamble = match self.preamble(name) {
            Ok(known) if known.profile == profile => Ok(known),
            _ => Preamble::new(profile, self.renderer().template()).map(Into::into),
        };
        let view = preamble.and_then(|preamble| self.view(&preamble, outline, files));
        view.map_err(|error| error.to_string())
    }

    fn editable_directory(&self) -> Result<&Path, ApiError> {
        self.directory().ok_or_else(|| {
            ApiError::not_found("this daemon has no directory of profiles")
                .code("profile_not_found")
        })
    }

    fn lock_editing(&self) -> MutexGuard<'_, ()> {
        self.shared.editing.lock()
    }
}

fn check_revision(
    name: &ProfileName,
    current: Option<String>,
    edited: Option<String>,
) -> Result<(), ApiError> {
    if current == edited {
        return Ok(());
    }
    let (message, code) = match (current, edited) {
        (Some(_), None) => {
            (format!("there is a profile `{name}`: choose another name"), "profile_exists")
        }
        (current, _) => {
            let what = if current.is_some() { "changed" } else { "removed" };
            let message = format!("`{name}` was {what} elsewhere: read it again, then change it");
            (message, "profile_changed")
        }
    };
    Err(ApiError::new(ErrorKind::Conflict, message).code(code))
}

fn parse_name(name: &str) -> Result<ProfileName, ApiError> {
    name.parse().map_err(|error: ProfileNameError| ApiError::field("name", error.to_string()))
}

fn not_found(name: &ProfileName) -> ApiError {
    ApiError::not_found(format!("no profile is called `{name}`")).code("profile_not_found")
}

fn unreadable(name: &ProfileName, error: &std::io::Error) -> ApiError {
    ApiError::internal(format!("`{name}` cannot be read: {error}"))
}
