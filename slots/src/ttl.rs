//! How long a slot file deserves its disk space after its last use.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The class of a slot file: the second part of its name, `<conversation>.<ttl>.bin`.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum TtlClass {
    /// Five minutes.
    Short,
    /// An hour: also the class of a file that names none.
    #[default]
    Long,
    /// A day.
    Extended,
    /// As long as the quota allows.
    Kept,
}

/// A text that names no class.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{got:?} is no TTL class: use short, long, extended or kept")]
pub struct TtlParseError {
    /// The text.
    pub got: String,
}

impl TtlClass {
    /// Every class, the shortest first.
    pub const ALL: [Self; 4] = [Self::Short, Self::Long, Self::Extended, Self::Kept];

    /// The class as it is written in file names, settings and messages.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Short => "short",
            Self::Long => "long",
            Self::Extended => "extended",
            Self::Kept => "kept",
        }
    }

    /// Time from the last use to expiry; `None` when only the quota ends it.
    pub fn lifetime(self) -> Option<Duration> {
        const MINUTE: u64 = 60;
        match self {
            Self::Short => Some(Duration::from_secs(5 * MINUTE)),
            Self::Long => Some(Duration::from_secs(60 * MINUTE)),
            Self::Extended => Some(Duration::from_secs(24 * 60 * MINUTE)),
            Self::Kept => None,
        }
    }
}

impl fmt::Display for TtlClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for TtlClass {
    type Err = TtlParseError;
    fn from_str(text: &str) -> Result<Self, TtlParseError> {
        let class = Self::ALL.into_iter().find(|class| class.as_str() == text);
        class.ok_or_else(|| TtlParseError { got: text.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_class_is_read_back_from_its_own_text() {
        for class in TtlClass::ALL {
            assert_eq!(class.to_string().parse(), Ok(class));
            let json = serde_json::to_string(&class).unwrap();
            assert_eq!(json, format!("\"{class}\""));
        }
    }

    #[test]
    fn an_unknown_class_is_refused_with_the_known_ones() {
        let error = "forever".parse::<TtlClass>().unwrap_err();
        assert_eq!(
            error.to_string(),
            "\"forever\" is no TTL class: use short, long, extended or kept"
        );
    }

    #[test]
    fn each_class_lives_longer_than_the_one_before() {
        let lifetimes = TtlClass::ALL.map(|class| class.lifetime().unwrap_or(Duration::MAX));
        assert!(lifetimes.is_sorted());
        assert_eq!(lifetimes[0], Duration::from_secs(300));
        assert_eq!(TtlClass::Kept.lifetime(), None);
    }
}
