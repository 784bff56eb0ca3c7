//! The model directories of each program.
//!
//! - Pure: `lookup` returns environment variables, and no file is read. A root need not exist.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Directories to search, by the program that owns them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Roots {
    /// Hob's own: a model of an earlier one hides those with its name in later ones.
    pub own: Vec<PathBuf>,
    /// Directories with `manifests` and `blobs`.
    pub ollama: Vec<PathBuf>,
    /// Directories with `publisher/model`.
    pub lm_studio: Vec<PathBuf>,
    /// Directories with `models--owner--name`.
    pub hugging_face: Vec<PathBuf>,
    /// Flat directories.
    pub llama_cpp: Vec<PathBuf>,
}

impl Roots {
    /// The roots of the user with this home directory and these variables.
    pub fn from_env(
        lookup: impl Fn(&str) -> Option<OsString>,
        home: &Path,
        own: Vec<PathBuf>,
    ) -> Self {
        let variable =
            |name: &str| lookup(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let cache = variable("XDG_CACHE_HOME").unwrap_or_else(|| home.join(".cache"));
        Self {
            own,
            ollama: match variable("OLLAMA_MODELS") {
                Some(dir) => vec![dir],
                None => vec![
                    home.join(".ollama/models"),
                    PathBuf::from("/usr/share/ollama/.ollama/models"), // The system service's user.
                ],
            },
            lm_studio: vec![home.join(".lmstudio/models"), home.join(".cache/lm-studio/models")],
            hugging_face: vec![
                variable("HF_HUB_CACHE")
                    .or_else(|| variable("HUGGINGFACE_HUB_CACHE"))
                    .or_else(|| variable("HF_HOME").map(|dir| dir.join("hub")))
                    .unwrap_or_else(|| cache.join("huggingface/hub")),
            ],
            llama_cpp: match variable("LLAMA_CACHE") {
                Some(dir) => vec![dir],
                None => {
                    let local = variable("LOCALAPPDATA").map(|dir| dir.join("llama.cpp"));
                    let apple = home.join("Library/Caches/llama.cpp");
                    [cache.join("llama.cpp"), apple].into_iter().chain(local).collect()
                }
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn roots(env: &[(&str, &str)]) -> Roots {
        let lookup = |name: &str| {
            env.iter().find(|(known, _)| *known == name).map(|(_, value)| OsString::from(value))
        };
        Roots::from_env(lookup, Path::new("/h"), vec!["/d/models".into()])
    }

    #[test]
    fn roots_are_below_the_home_directory_without_variables() {
        let roots = roots(&[]);
        assert_eq!(roots.own, [Path::new("/d/models")]);
        assert_eq!(roots.ollama[0], Path::new("/h/.ollama/models"));
        assert_eq!(roots.hugging_face, [Path::new("/h/.cache/huggingface/hub")]);
        assert_eq!(roots.llama_cpp[0], Path::new("/h/.cache/llama.cpp"));
    }

    #[test]
    fn roots_follow_the_programs_variables() {
        let hub = roots(&[("HF_HOME", "/hf"), ("LLAMA_CACHE", "/lc"), ("OLLAMA_MODELS", "/o")]);
        assert_eq!(hub.hugging_face, [Path::new("/hf/hub")]);
        assert_eq!(
            (&hub.llama_cpp[..], &hub.ollama[..]),
            (&["/lc".into()][..], &["/o".into()][..])
        );
        let cache = roots(&[("HF_HUB_CACHE", "/hub"), ("HF_HOME", "/hf")]);
        assert_eq!(cache.hugging_face, [Path::new("/hub")]);
        assert_eq!(roots(&[("XDG_CACHE_HOME", "/c")]).llama_cpp[0], Path::new("/c/llama.cpp"));
    }
}
