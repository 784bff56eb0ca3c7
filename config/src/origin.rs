//! Which layer set a value.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use serde::Serialize;
use serde_json::Value;

use crate::key::Key;
use crate::parse::Raw;

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "origin", rename_all = "lowercase")]
pub enum Origin {
    Default,
    File {
        path: PathBuf,
        /// Counted from 1.
        line: usize,
    },
    Environment {
        name: String,
    },
    Flag {
        /// Without dashes in front.
        name: String,
    },
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File { path, line } => write!(f, "{}:{line}", path.display()),
            Self::Environment { name } => write!(f, "environment {name}"),
            Self::Flag { name } => write!(f, "flag --{name}"),
        }
    }
}

/// One line of `hob config show`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub key: Key,
    /// Null when the setting has no value.
    pub value: Value,
    pub origin: Origin,
}

/// The values that file, environment and flags set, each by the strongest layer that sets it.
pub(crate) type GivenValues = BTreeMap<Key, (Raw, Origin)>;
