//! What can be wrong with a configuration, with the facts needed to put it right.

use std::io;
use std::path::PathBuf;

use crate::origin::Origin;

/// Why the settings could not be resolved. The message names key, place, value and remedy.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A key that no part of Hob knows.
    #[error("unknown setting `{name}` in {place}{}", hint(.suggestion))]
    Unknown {
        /// The name as it was written.
        name: String,
        /// Where it was written.
        place: String,
        /// The known name that is closest, spelled for that place.
        suggestion: Option<String>,
    },
    /// A known key with a value that it cannot have.
    #[error("{key} = {value} ({origin}) {problem}; {remedy}")]
    Invalid {
        /// The setting.
        key: &'static str,
        /// The value as it was written.
        value: String,
        /// Where it was written.
        origin: Origin,
        /// What is wrong with it.
        problem: String,
        /// What to write instead.
        remedy: String,
    },
    /// The file is not TOML.
    #[error("{} is not valid TOML: {problem}", path.display())]
    Syntax {
        /// The configuration file.
        path: PathBuf,
        /// What the parser says, with its line.
        problem: String,
    },
    /// The file was named but cannot be read.
    #[error("cannot read the configuration file {} (named by {origin}): {source}", path.display())]
    Unreadable {
        /// The configuration file.
        path: PathBuf,
        /// Who named it.
        origin: Origin,
        /// Why.
        source: io::Error,
    },
    /// A variable of ours holds bytes that are not text.
    #[error("the environment variable {name} is not valid UTF-8; set it again or unset it")]
    NotText {
        /// The variable.
        name: String,
    },
    /// The system tells no home directory.
    #[error("this user has no home directory; set HOME, or give --data-dir and --config")]
    NoHome,
}

fn hint(suggestion: &Option<String>) -> String {
    match suggestion {
        Some(name) => format!("; did you mean `{name}`?"),
        None => "; `hob config show` lists every setting".to_owned(),
    }
}
