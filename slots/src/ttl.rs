//! TTL classes: how long a saved conversation stays after its last use.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The retention of a saved conversation.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum TtlClass {
    /// 5 minutes by default.
    Short,
    /// 1 hour by default. Also the class of a file without one.
    #[default]
    Long,
    /// 24 hours by default.
    Extended,
    /// Until the quota needs its bytes. `kept` is a deprecated alias.
    #[serde(alias = "kept")]
    Permanent,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{got:?} is not a TTL class: use short, long, extended or permanent")]
pub struct TtlParseError {
    pub got: String,
}

impl TtlClass {
    /// By lifetime, ascending.
    pub const ALL: [Self; 4] = [Self::Short, Self::Long, Self::Extended, Self::Permanent];

    /// The word in settings, requests and messages.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Short => "short",
            Self::Long => "long",
            Self::Extended => "extended",
            Self::Permanent => "permanent",
        }
    }

    /// The word in names of slot files and in archives, which keep the first one: `kept`.
    pub fn file_word(self) -> &'static str {
        if self == Self::Permanent { "kept" } else { self.as_str() }
    }

    pub fn from_file_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|class| class.file_word() == word)
    }
}

/// Time from the last use to expiry, by class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lifetimes {
    pub short: Duration,
    pub long: Duration,
    pub extended: Duration,
}

impl Default for Lifetimes {
    fn default() -> Self {
        const MINUTE: u64 = 60;
        Self {
            short: Duration::from_secs(5 * MINUTE),
            long: Duration::from_secs(60 * MINUTE),
            extended: Duration::from_secs(24 * 60 * MINUTE),
        }
    }
}

impl Lifetimes {
    /// The lifetime of a class; `None` when only the quota ends it.
    pub fn of(&self, class: TtlClass) -> Option<Duration> {
        match class {
            TtlClass::Short => Some(self.short),
            TtlClass::Long => Some(self.long),
            TtlClass::Extended => Some(self.extended),
            TtlClass::Permanent => None,
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
        let class =
            Self::ALL.into_iter().find(|class| [class.as_str(), class.file_word()].contains(&text));
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
    fn kept_is_an_alias_of_permanent() {
        assert_eq!("kept".parse(), Ok(TtlClass::Permanent));
        assert_eq!(serde_json::from_str::<TtlClass>("\"kept\"").unwrap(), TtlClass::Permanent);
        assert_eq!(TtlClass::Permanent.to_string(), "permanent");
    }

    #[test]
    fn files_keep_their_words() {
        let words = TtlClass::ALL.map(TtlClass::file_word);
        assert_eq!(words, ["short", "long", "extended", "kept"]);
        assert_eq!(words.map(TtlClass::from_file_word), TtlClass::ALL.map(Some));
        assert_eq!(TtlClass::from_file_word("permanent"), None);
    }

    #[test]
    fn an_unknown_class_is_refused_with_the_known_ones() {
        let error = "forever".parse::<TtlClass>().unwrap_err();
        assert_eq!(
            error.to_string(),
            "\"forever\" is not a TTL class: use short, long, extended or permanent"
        );
    }

    #[test]
    fn each_class_lives_longer_than_the_one_before() {
        let lifetimes = Lifetimes::default();
        let lifetimes = TtlClass::ALL.map(|class| lifetimes.of(class).unwrap_or(Duration::MAX));
        assert!(lifetimes.is_sorted());
        assert_eq!(lifetimes[0], Duration::from_secs(300));
        assert_eq!(lifetimes[3], Duration::MAX);
    }
}
