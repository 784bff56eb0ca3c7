//! The name of a profile, and the conversation id of its prefix.
//!
//! - A name has 1 to 64 letters, digits, `_`, `-` and `.`, and does not begin with a dot: it is the
//!   stem of a file and a label of metrics.
//! - The prefix of `default` has the id that agents of the eliza family use.
//! - `none` is no name: requests ask with it for no profile.

use std::fmt;
use std::str::FromStr;

use hob_slots::ConversationId;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProfileName(String);

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{got:?} is not a valid profile name: use 1 to 64 letters, digits, `_`, `-` or `.`, \
     not beginning with a dot, and not `none`"
)]
pub struct ProfileNameError {
    pub got: String,
}

impl ProfileName {
    const MAX_BYTES: usize = 64;
    const DEFAULT: &str = "default";
    /// What a request names instead of a profile, to have none.
    pub const NONE: &str = "none";

    /// The id under which the engine has this profile's prefix.
    pub fn prefix_id(&self) -> ConversationId {
        let id = match self.as_str() {
            Self::DEFAULT => ConversationId::SYSTEM_PREFIX.to_owned(),
            other => format!("{}{other}", ConversationId::PROFILE_PREFIX),
        };
        ConversationId::new(&id).expect("a name is short and has no control characters")
    }

    /// The profile whose prefix has this `id`; `None` for other conversations.
    pub fn of_prefix(id: &ConversationId) -> Option<Self> {
        match id.as_str() {
            ConversationId::SYSTEM_PREFIX => Some(Self::default()),
            other => other.strip_prefix(ConversationId::PROFILE_PREFIX)?.parse().ok(),
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The profile of requests that name none.
impl Default for ProfileName {
    fn default() -> Self {
        Self(Self::DEFAULT.to_owned())
    }
}

impl FromStr for ProfileName {
    type Err = ProfileNameError;

    fn from_str(text: &str) -> Result<Self, ProfileNameError> {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
        let length_is_wrong = text.is_empty() || text.len() > Self::MAX_BYTES;
        let is_plain = !length_is_wrong && text.bytes().all(allowed);
        if !is_plain || text.starts_with('.') || text == Self::NONE {
            return Err(ProfileNameError { got: text.to_owned() });
        }
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Display for ProfileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_prefix_of_the_default_profile_keeps_its_old_id() {
        assert_eq!(ProfileName::default().prefix_id().as_str(), "__system_prefix__");
        let kitchen: ProfileName = "kitchen".parse().unwrap();
        assert_eq!(kitchen.prefix_id().as_str(), "__prefix__:kitchen");
    }

    #[test]
    fn a_profile_is_read_back_from_the_id_of_its_prefix() {
        for name in ["default", "kitchen", "a-b_C.9"] {
            let name: ProfileName = name.parse().unwrap();
            assert_eq!(ProfileName::of_prefix(&name.prefix_id()), Some(name));
        }
        for id in ["room-1", "__prefix__:", "__prefix__:a b"] {
            assert_eq!(ProfileName::of_prefix(&ConversationId::new(id).unwrap()), None);
        }
    }

    #[test]
    fn a_name_that_cannot_be_a_file_stem_and_a_label_is_refused() {
        let long = "x".repeat(65);
        for text in ["", "a b", "../etc", "ü", ".toml", "a\"b", "none", long.as_str()] {
            let error = text.parse::<ProfileName>().unwrap_err();
            assert!(error.to_string().contains("1 to 64 letters"), "{error}");
        }
    }
}
