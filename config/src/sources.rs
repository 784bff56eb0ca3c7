//! The layers before they are merged.
//!
//! - [`Sources::gather`] is the only part of this crate that reads the configuration file.
//! - It picks the variables that begin with `HOB_`, except those of tests and benchmarks
//!   (`HOB_TEST_…`, `HOB_BENCH_…`).

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::{fs, io};

use crate::error::ConfigError;
use crate::flags::Flags;
use crate::key::Key;
use crate::origin::Origin;
use crate::parse::Raw;
use crate::paths::UserDirs;

/// The input of [`Settings::resolve`](crate::Settings::resolve).
#[derive(Clone, Debug)]
pub struct Sources {
    /// The user's directories, from which most defaults follow.
    pub user_dirs: UserDirs,
    pub file: Option<ConfigFile>,
    /// The variables that begin with `HOB_`, and those of the eliza family that set the same.
    pub env: Vec<(String, String)>,
    pub flags: Flags,
}

/// A configuration file, read but not yet parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigFile {
    /// Relative paths in the file start from its directory.
    pub path: PathBuf,
    pub text: String,
}

impl Sources {
    /// Picks our variables out of `env` and reads the file that flags or environment name, or else
    /// the user's own, when it exists.
    pub fn gather(
        user_dirs: UserDirs,
        env: impl IntoIterator<Item = (OsString, OsString)>,
        flags: Flags,
    ) -> Result<Self, ConfigError> {
        let env = our_variables(env)?;
        let file = match named_file(&user_dirs, &env, &flags) {
            Some((path, origin)) => Some(read(&path, origin)?),
            None => read_if_there(&user_dirs.config_file())?,
        };
        Ok(Self { user_dirs, file, env, flags })
    }
}

fn our_variables(
    env: impl IntoIterator<Item = (OsString, OsString)>,
) -> Result<Vec<(String, String)>, ConfigError> {
    let mut ours = Vec::new();
    for (name, value) in env {
        let Ok(name) = name.into_string() else { continue };
        let foreign = ["HOB_TEST_", "HOB_BENCH_"].iter().any(|prefix| name.starts_with(prefix));
        let known = name.starts_with("HOB_") || Key::of_eliza_variable(&name).is_some();
        if !known || foreign {
            continue;
        }
        match value.into_string() {
            Ok(value) => ours.push((name, value)),
            Err(_) => return Err(ConfigError::NotText { name }),
        }
    }
    ours.sort();
    Ok(ours)
}

fn named_file(
    user_dirs: &UserDirs,
    env: &[(String, String)],
    flags: &Flags,
) -> Option<(PathBuf, Origin)> {
    if let Some(Raw::Text(path)) = flags.get(Key::Config) {
        return Some((user_dirs.expand(path), Origin::Flag { name: Key::Config.flag() }));
    }
    let variable = Key::Config.variable();
    let (name, path) = env.iter().find(|(name, value)| *name == variable && !value.is_empty())?;
    Some((user_dirs.expand(path), Origin::Environment { name: name.clone() }))
}

fn read(path: &Path, origin: Origin) -> Result<ConfigFile, ConfigError> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(ConfigFile { path: path.to_owned(), text }),
        Err(source) => Err(ConfigError::Unreadable { path: path.to_owned(), origin, source }),
    }
}

fn read_if_there(path: &Path) -> Result<Option<ConfigFile>, ConfigError> {
    match read(path, Origin::Default) {
        Err(ConfigError::Unreadable { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
            Ok(None)
        }
        other => other.map(Some),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gather(user_dirs: &UserDirs, env: &[(&str, &str)]) -> Result<Sources, ConfigError> {
        let env = env.iter().map(|(name, value)| (OsString::from(name), OsString::from(value)));
        Sources::gather(user_dirs.clone(), env, Flags::default())
    }

    #[test]
    fn the_file_may_be_missing_unless_it_is_named() {
        let root = tempfile::tempdir().unwrap();
        let user_dirs = UserDirs::under(root.path());
        assert_eq!(gather(&user_dirs, &[]).unwrap().file, None);

        let error =
            gather(&user_dirs, &[("HOB_CONFIG", "~/nowhere.toml")]).unwrap_err().to_string();
        assert!(error.contains("nowhere.toml") && error.contains("HOB_CONFIG"), "{error}");
    }

    #[test]
    fn the_users_own_file_is_read() {
        let root = tempfile::tempdir().unwrap();
        let user_dirs = UserDirs::under(root.path());
        fs::create_dir_all(&user_dirs.config_dir).unwrap();
        fs::write(user_dirs.config_file(), "ctx = 1024").unwrap();
        assert_eq!(gather(&user_dirs, &[]).unwrap().file.unwrap().text, "ctx = 1024");
    }

    #[test]
    fn other_variables_are_ignored() {
        let root = tempfile::tempdir().unwrap();
        let env = [("PATH", "/bin"), ("HOB_CTX", "512"), ("HOB_TEST_ROUNDS", "3")];
        let sources = gather(&UserDirs::under(root.path()), &env).unwrap();
        assert_eq!(sources.env, [("HOB_CTX".to_owned(), "512".to_owned())]);
    }
}
