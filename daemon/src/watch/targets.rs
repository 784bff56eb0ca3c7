//! The files that matter, the directories in which to watch for them, and how they stand.
//!
//! - A path that does not exist is watched for in its nearest existing ancestor.
//! - A link matters like the file that it leads to.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::stamps::{self, Stamps};

/// What a file belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    Profiles,
    Model,
}

/// Paths, each beside the one that it leads to if it is a link.
#[derive(Clone, Debug, Default)]
pub struct Targets {
    /// All their entries matter.
    profile_dirs: Vec<PathBuf>,
    profile_files: Vec<PathBuf>,
    model_files: Vec<PathBuf>,
}

impl Targets {
    /// `profile_files`: the files that profiles are read from, wherever they are.
    pub fn new(
        profiles_dir: Option<&Path>,
        profile_files: &[PathBuf],
        model_files: &[PathBuf],
    ) -> Self {
        let resolved = |files: &[PathBuf]| files.iter().flat_map(both).collect();
        Self {
            profile_dirs: profiles_dir.into_iter().flat_map(both).collect(),
            profile_files: resolved(profile_files),
            model_files: resolved(model_files),
        }
    }

    /// The existing directories to watch.
    pub fn directories(&self) -> BTreeSet<PathBuf> {
        let files = self.profile_files.iter().chain(&self.model_files);
        // A profiles directory that is a link may be replaced by another link.
        let links = self.profile_dirs.iter().filter(|path| path.is_symlink());
        let parents = files.chain(links).filter_map(|path| path.parent());
        let wanted = self.profile_dirs.iter().map(PathBuf::as_path).chain(parents);
        wanted
            .filter_map(|path| path.ancestors().find(|path| path.is_dir()))
            .map(PathBuf::from)
            .collect()
    }

    /// The groups that an event at `path` concerns.
    pub fn touched(&self, path: &Path) -> Vec<Group> {
        // An event at a directory concerns everything below it.
        let is_of = |files: &[PathBuf]| files.iter().any(|file| file.starts_with(path));
        let in_profiles = self.profile_dirs.iter().any(|directory| path.starts_with(directory));
        let mut groups = Vec::new();
        if in_profiles || is_of(&self.profile_dirs) || is_of(&self.profile_files) {
            groups.push(Group::Profiles);
        }
        if is_of(&self.model_files) {
            groups.push(Group::Model);
        }
        groups
    }

    /// The metadata of all files, the profiles' first.
    pub fn stamps(&self) -> [(Group, Stamps); 2] {
        let mut profiles = stamps::of_files(&self.profile_files);
        for directory in &self.profile_dirs {
            profiles.extend(stamps::of_directory(directory));
        }
        [(Group::Profiles, profiles), (Group::Model, stamps::of_files(&self.model_files))]
    }
}

/// The absolute path, and the one that it leads to if that is another.
fn both(path: impl AsRef<Path>) -> Vec<PathBuf> {
    let path = path.as_ref();
    let given = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let real = std::fs::canonicalize(&given).ok().filter(|real| *real != given);
    std::iter::once(given).chain(real).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_path_is_watched_for_in_its_nearest_existing_ancestor() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        let (profiles, model) = (root.join("config/hob/profiles"), root.join("models/a.gguf"));
        let directories =
            || Targets::new(Some(&profiles), &[], std::slice::from_ref(&model)).directories();
        assert_eq!(directories(), [root.clone()].into());
        std::fs::create_dir_all(root.join("config/hob")).unwrap();
        std::fs::create_dir(root.join("models")).unwrap();
        assert_eq!(directories(), [root.join("config/hob"), root.join("models")].into());
    }

    #[test]
    fn an_event_concerns_the_groups_that_its_path_belongs_to() {
        let files = vec![PathBuf::from("/data/now.txt")];
        let profiles = Path::new("/c/profiles");
        let targets = Targets::new(Some(profiles), &files, &["/m/a.gguf".into()]);
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

    #[test]
    fn a_link_is_watched_at_both_of_its_ends() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        std::fs::create_dir(root.join("real")).unwrap();
        std::fs::create_dir(root.join("shown")).unwrap();
        std::os::unix::fs::symlink(root.join("real"), root.join("shown/profiles")).unwrap();
        let targets = Targets::new(Some(&root.join("shown/profiles")), &[], &[]);
        let expected = ["real", "shown", "shown/profiles"].map(|name| root.join(name));
        assert_eq!(targets.directories(), expected.into());
        assert_eq!(targets.touched(&root.join("real/voice.toml")), [Group::Profiles]);
    }
}
