//! Which directories and files are used when nothing else is said.
//!
//! - [`Places::of_user`] asks the system once, in `main`; everything else computes from it.
//! - No directory is made here.

use std::path::{Path, PathBuf};

use directories::{BaseDirs, ProjectDirs};

use crate::error::ConfigError;

/// The directories of one user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Places {
    /// The user's home, which `~` stands for.
    pub home: PathBuf,
    /// Holds `hob.toml`.
    pub config_dir: PathBuf,
    /// The data directory, unless it is set.
    pub data_dir: PathBuf,
}

impl Places {
    /// The directories that this system gives its current user.
    pub fn of_user() -> Result<Self, ConfigError> {
        let base = BaseDirs::new().ok_or(ConfigError::NoHome)?;
        let project = ProjectDirs::from("", "", "hob").ok_or(ConfigError::NoHome)?;
        Ok(Self {
            home: base.home_dir().to_owned(),
            config_dir: project.config_dir().to_owned(),
            data_dir: project.data_dir().to_owned(),
        })
    }

    /// Everything below one directory: for tests and for portable installations.
    pub fn under(root: &Path) -> Self {
        Self { home: root.to_owned(), config_dir: root.join("config"), data_dir: root.join("data") }
    }

    /// The configuration file, unless another is named.
    pub fn config_file(&self) -> PathBuf {
        self.config_dir.join("hob.toml")
    }

    /// Profiles, unless `profiles_dir` is set.
    pub fn profiles_dir(&self) -> PathBuf {
        self.config_dir.join("profiles")
    }

    /// The path with a leading `~` replaced by the home directory.
    pub fn expand(&self, path: &str) -> PathBuf {
        match path.strip_prefix('~') {
            Some("") => self.home.clone(),
            Some(rest) if rest.starts_with(['/', '\\']) => self.home.join(&rest[1..]),
            _ => PathBuf::from(path),
        }
    }
}

/// Kept KV, unless `slots_dir` is set.
pub fn slots_dir(data_dir: &Path) -> PathBuf {
    data_dir.join("slots")
}

/// The key of encrypted KV, if nothing else is set. Beside the directory, not in it: whoever takes
/// the directory has no key.
pub fn slots_key_file(data_dir: &Path) -> PathBuf {
    data_dir.join("slots.key")
}

/// The access token, unless `token_file` is set.
pub fn token_file(data_dir: &Path) -> PathBuf {
    data_dir.join("token")
}

/// What a client needs to find the daemon that runs on this data directory.
pub fn daemon_file(data_dir: &Path) -> PathBuf {
    data_dir.join("hobd.json")
}

/// The conversations' text.
pub fn transcript_file(data_dir: &Path) -> PathBuf {
    data_dir.join("transcripts.sqlite")
}

/// Models that the user puts beside the other data.
pub fn models_dir(data_dir: &Path) -> PathBuf {
    data_dir.join("models")
}

/// Hashes of model files that were read before.
pub fn hash_cache_file(data_dir: &Path) -> PathBuf {
    data_dir.join("model-hashes.json")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tilde_stands_for_home_only_in_front() {
        let places = Places::under(Path::new("/h"));
        assert_eq!(places.expand("~/a"), Path::new("/h/a"));
        assert_eq!(places.expand("~"), Path::new("/h"));
        assert_eq!(places.expand("~other/a"), Path::new("~other/a"));
        assert_eq!(places.expand("a/~"), Path::new("a/~"));
    }
}
