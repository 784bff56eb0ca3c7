//! Ids that no client can choose.
//!
//! - `__system_prefix__` and `__prefix__:NAME` are the prefixes of profiles, `__learned__:NAME` are
//!   learned ones.
//! - `__key__:KEY` is a *hint*: KV that belongs to a cache key and to no conversation. Turns of one
//!   hint run side by side; each further slot has a copy `__key_2__:KEY`, `__key_3__:KEY`, …
//! - A conversation has text; a hint and a prefix have none.

use super::{ConversationId, ParseIdError};

const HINT: &str = "__key_";
const FIRST_COPY: &str = "__key__:";

impl ConversationId {
    /// The prefix of the default profile. Agents of the eliza family use this id, too.
    pub const SYSTEM_PREFIX: &str = "__system_prefix__";
    /// The prefix of the profile whose name follows.
    pub const PROFILE_PREFIX: &str = "__prefix__:";
    /// The learned prefix whose name follows.
    pub const LEARNED_PREFIX: &str = "__learned__:";

    /// The first copy of the hint `key`. A longer key than fits is shortened.
    pub(crate) fn of_hint(key: &str) -> Result<Self, ParseIdError> {
        let shortened = Self::shortened(key, key, Self::MAX_BYTES - "__key_4294967295__:".len());
        Self::new(&format!("{FIRST_COPY}{shortened}"))
    }

    /// Whether this id belongs to a prefix or a hint, so that no client may choose it.
    pub fn is_reserved(&self) -> bool {
        let id = self.as_str();
        let is_prefix = [Self::PROFILE_PREFIX, Self::LEARNED_PREFIX];
        let is_prefix = is_prefix.iter().any(|prefix| id.starts_with(prefix));
        id == Self::SYSTEM_PREFIX || is_prefix || self.is_hint()
    }

    /// Whether this is KV of a cache key, without a conversation and without text.
    pub fn is_hint(&self) -> bool {
        self.hint_key().is_some()
    }

    /// The cache key of a hint, shortened if it was too long.
    pub fn hint_key(&self) -> Option<&str> {
        self.hint().map(|(_, key)| key)
    }

    /// Whether both are copies of one hint, or the same id.
    pub fn is_copy_of(&self, other: &Self) -> bool {
        self == other || (self.is_hint() && self.hint_key() == other.hint_key())
    }

    /// Copy `number` of a hint, counted from 1.
    ///
    /// # Panics
    /// When this is no hint.
    pub fn copy(&self, number: u32) -> Self {
        let key = self.hint_key().expect("only hints have copies");
        match number {
            1 => Self(format!("{FIRST_COPY}{key}")),
            number => Self(format!("{HINT}{number}__:{key}")),
        }
    }

    /// The number of the copy, and the key.
    fn hint(&self) -> Option<(u32, &str)> {
        let id = self.as_str();
        if let Some(key) = id.strip_prefix(FIRST_COPY) {
            return Some((1, key));
        }
        let (number, key) = id.strip_prefix(HINT)?.split_once("__:")?;
        number.parse().ok().map(|number| (number, key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hint(key: &str) -> ConversationId {
        ConversationId::of_hint(key).unwrap()
    }

    #[test]
    fn a_hint_and_a_conversation_of_the_same_text_are_different_ids() {
        let named = ConversationId::new("seg:f5e2794887fba944").unwrap();
        assert_ne!(hint("seg:f5e2794887fba944"), named);
        assert!(!named.is_hint() && !named.is_reserved());
    }

    #[test]
    fn copies_of_a_hint_have_its_key_and_can_be_told_apart() {
        let first = hint("v5:abc");
        let third = first.copy(3);
        assert_eq!((first.hint_key(), third.hint_key()), (Some("v5:abc"), Some("v5:abc")));
        assert_ne!(first, third);
        assert_eq!(third.copy(1), first);
        assert!(third.is_copy_of(&first) && !third.is_copy_of(&hint("v5:abd")));
        assert_eq!(
            ConversationId::new(third.as_str()).unwrap(),
            third,
            "it is read back from disk"
        );
    }

    #[test]
    fn prefixes_and_hints_are_reserved() {
        for id in [
            "__system_prefix__",
            "__prefix__:home",
            "__learned__:a",
            "__key__:v5:a",
            "__key_2__:v5:a",
        ] {
            assert!(ConversationId::new(id).unwrap().is_reserved(), "{id}");
        }
        for id in ["room-1", "system_prefix", "__prefix__", "__key__", "v5:a"] {
            assert!(!ConversationId::new(id).unwrap().is_reserved(), "{id}");
        }
    }

    #[test]
    fn every_copy_of_a_long_hint_is_a_valid_id() {
        let long = hint(&"é".repeat(512));
        assert!(ConversationId::new(long.copy(u32::MAX).as_str()).is_ok());
        assert_ne!(long, hint(&format!("{}x", "é".repeat(511))));
    }
}
