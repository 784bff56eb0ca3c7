//! Errors of a configuration, with the facts needed to mend it.

use std::io;
use std::path::PathBuf;

use crate::origin::Origin;

/// Why the settings could not be resolved. The message names key, place, value and remedy.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("unknown setting `{name}` in {place}{}", hint(.suggestion))]
    Unknown {
        name: String,
        place: String,
        /// The known name that is closest, spelled for that place.
        suggestion: Option<String>,
    },
    #[error("{key} = {value} ({origin}) {problem}; {remedy}")]
    Invalid { key: &'static str, value: String, origin: Origin, problem: String, remedy: String },
    #[error("{} is not valid TOML: {problem}", path.display())]
    Syntax {
        path: PathBuf,
        /// The parser's message, with its line.
        problem: String,
    },
    #[error("cannot read the configuration file {} (named by {origin}): {source}", path.display())]
    Unreadable { path: PathBuf, origin: Origin, source: io::Error },
    #[error("the environment variable {name} is not valid UTF-8; set it again or unset it")]
    NotText { name: String },
    #[error("this user has no home directory; set HOME, or give --data-dir and --config")]
    NoHome,
}

fn hint(suggestion: &Option<String>) -> String {
    match suggestion {
        Some(name) => format!("; did you mean `{name}`?"),
        None => "; `hob config show` lists every setting".to_owned(),
    }
}
