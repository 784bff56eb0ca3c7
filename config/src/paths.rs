//! Default directories and files.
//!
//! - [`UserDirs::of_current_user`] asks the system once, in `main`; every other path is computed
//!   from it.
//! - This module creates no directory.

use std::path::{Path, PathBuf};

use directories::{BaseDirs, ProjectDirs};

use crate::error::ConfigError;

/// The directories of one user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserDirs {
    /// What `~` stands for.
    pub home: PathBuf,
    /// Holds `hob.toml`.
    pub config_dir: PathBuf,
    /// The data directory, unless `data_dir` is set.
    pub data_dir: PathBuf,
}

impl UserDirs {
    /// The directories of the current user.
    pub fn of_current_user() -> Result<Self, ConfigError> {
        let base = BaseDirs::new().ok_or(ConfigError::NoHome)?;
        let project = ProjectDirs::from("", "", "hob").ok_or(ConfigError::NoHome)?;
        Ok(Self {
            home: base.home_dir().to_owned(),
            config_dir: project.config_dir().to_owned(),
            data_dir: project.data_dir().to_owned(),
        })
    }

    /// All directories below one: for tests and for portable installations.
    pub fn under(root: &Path) -> Self {
        Self { home: root.to_owned(), config_dir: root.join("config"), data_dir: root.join("data") }
    }

    /// The configuration file, unless `config` is set.
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

/// Saved KV, unless `slots_dir` is set.
pub fn slots_dir(data_dir: &Path) -> PathBuf {
    data_dir.join("slots")
}

/// The key of encrypted KV, unless `slots_key_file` is set. Beside the directory, not in it: a copy
/// of the directory does not contain the key.
pub fn slots_key_file(data_dir: &Path) -> PathBuf {
    data_dir.join("slots.key")
}

/// The name of the daemon on this directory, among those that share conversations.
pub fn daemon_name_file(data_dir: &Path) -> PathBuf {
    data_dir.join("daemon-name")
}

/// The access token, unless `token_file` is set.
pub fn token_file(data_dir: &Path) -> PathBuf {
    data_dir.join("token")
}

/// The address and token file of the running daemon, for its clients.
pub fn daemon_file(data_dir: &Path) -> PathBuf {
    data_dir.join("hobd.json")
}

/// A switch that the next process makes.
pub fn switch_file(data_dir: &Path) -> PathBuf {
    data_dir.join("switch.json")
}

/// What is learned of prompts: a file for each model.
pub fn learned_dir(data_dir: &Path) -> PathBuf {
    data_dir.join("learned")
}

/// What moved KV costs the answers of profiles: a file for each model.
pub fn reuse_dir(data_dir: &Path) -> PathBuf {
    data_dir.join("reuse")
}

pub fn transcript_file(data_dir: &Path) -> PathBuf {
    data_dir.join("transcripts.sqlite")
}

/// Models that the user adds.
pub fn models_dir(data_dir: &Path) -> PathBuf {
    data_dir.join("models")
}

/// What probes of model files found.
pub fn probe_cache_file(data_dir: &Path) -> PathBuf {
    data_dir.join("model-probes.json")
}

/// Cached hashes of model files.
pub fn hash_cache_file(data_dir: &Path) -> PathBuf {
    data_dir.join("model-hashes.json")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tilde_stands_for_home_only_in_front() {
        let user_dirs = UserDirs::under(Path::new("/h"));
        assert_eq!(user_dirs.expand("~/a"), Path::new("/h/a"));
        assert_eq!(user_dirs.expand("~"), Path::new("/h"));
        assert_eq!(user_dirs.expand("~other/a"), Path::new("~other/a"));
        assert_eq!(user_dirs.expand("a/~"), Path::new("a/~"));
    }
}
