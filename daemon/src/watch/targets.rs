//! Which files matter, and where to look for them.
//!
//! - What is not there yet is looked for in the nearest directory that is.
//! - A link matters like what it leads to.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// What a file belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// To the profiles.
    Profiles,
    /// To the model.
    Model,
}

/// The paths that matter.
#[derive(Debug, Default)]
pub struct Targets {
    /// Whatever is in it matters.
    profiles: Vec<PathBuf>,
    profile_files: Vec<PathBuf>,
    model_files: Vec<PathBuf>,
}

impl Targets {
    /// The profiles directory, the files that profiles are made of, and those of the model.
    pub fn new(profiles: Option<PathBuf>, files: Vec<PathBuf>, model_files: &[PathBuf]) -> Self {
        Self {
            profiles: profiles.iter().flat_map(both).collect(),
            profile_files: files.iter().flat_map(both).collect(),
            model_files: model_files.iter().flat_map(both).collect(),
        }
    }

    /// The directories to look at.
    pub fn places(&self) -> BTreeSet<PathBuf> {
        let files = self.profile_files.iter().chain(&self.model_files);
        let parents = files.filter_map(|file| file.parent());
        // A profiles directory that is a link may be led elsewhere.
        let links = self.profiles.iter().filter(|path| path.is_symlink());
        let links = links.filter_map(|link| link.parent());
        let directories = self.profiles.iter().map(PathBuf::as_path);
        let places = directories.chain(parents).chain(links);
        places
            .filter_map(|path| path.ancestors().find(|path| path.is_dir()))
            .map(PathBuf::from)
            .collect()
    }

    /// Whom it concerns that something happened at `path`.
    pub fn touched(&self, path: &Path) -> Vec<Group> {
        // What happens to a directory happens to what is in it.
        let is_of = |files: &[PathBuf]| files.iter().any(|file| file.starts_with(path));
        let in_profiles = self.profiles.iter().any(|directory| path.starts_with(directory));
        let mut groups = Vec::new();
        if in_profiles || is_of(&self.profiles) || is_of(&self.profile_files) {
            groups.push(Group::Profiles);
        }
        if is_of(&self.model_files) {
            groups.push(Group::Model);
        }
        groups
    }
}

/// The path, and what it leads to.
fn both(path: &PathBuf) -> Vec<PathBuf> {
    let given = std::path::absolute(path).unwrap_or_else(|_| path.clone());
    let real = std::fs::canonicalize(&given).ok().filter(|real| *real != given);
    std::iter::once(given).chain(real).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_there_is_looked_for_in_the_nearest_directory_that_is() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        let (profiles, model) = (root.join("config/hob/profiles"), root.join("models/a.gguf"));
        let places = || {
            Targets::new(Some(profiles.clone()), Vec::new(), std::slice::from_ref(&model)).places()
        };
        assert_eq!(places(), [root.clone()].into());
        std::fs::create_dir_all(root.join("config/hob")).unwrap();
        std::fs::create_dir(root.join("models")).unwrap();
        assert_eq!(places(), [root.join("config/hob"), root.join("models")].into());
    }

    #[test]
    fn a_touch_concerns_whom_the_path_belongs_to() {
        let files = vec![PathBuf::from("/data/now.txt")];
        let targets = Targets::new(Some("/c/profiles".into()), files, &["/m/a.gguf".into()]);
        for (path, groups) in [
            ("/c/profiles/voice.toml", vec![Group::Profiles]),
            ("/c", vec![Group::Profiles]),
            ("/c/hob.toml", vec![]),
            ("/data/now.txt", vec![Group::Profiles]),
            ("/data/other.txt", vec![]),
            ("/m/a.gguf", vec![Group::Model]),
            ("/m/b.gguf", vec![]),
            ("/", vec![Group::Profiles, Group::Model]),
        ] {
            assert_eq!(targets.touched(Path::new(path)), groups, "{path}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_link_is_watched_at_both_of_its_ends() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        std::fs::create_dir(root.join("real")).unwrap();
        std::fs::create_dir(root.join("shown")).unwrap();
        std::os::unix::fs::symlink(root.join("real"), root.join("shown/profiles")).unwrap();
        let targets = Targets::new(Some(root.join("shown/profiles")), Vec::new(), &[]);
        let expected = ["real", "shown", "shown/profiles"].map(|name| root.join(name));
        assert_eq!(targets.places(), expected.into());
        assert_eq!(targets.touched(&root.join("real/voice.toml")), [Group::Profiles]);
    }
}
