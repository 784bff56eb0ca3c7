//! The id of a conversation, and its file name.
//!
//! - An id has 1 to 200 bytes and no control characters. A client's name or key has 1 to 1,024
//!   bytes; a longer one than 200 is shortened to a beginning and a hash of the whole.
//! - A turn without a conversation gets a numbered id with a control character, which no request
//!   can send.
//! - [`ConversationId::file_stem`] is safe on every file system: no dots, no separators, no device
//!   names, and no two ids that differ in case alone. Different ids have different stems.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::{ParseIdError, hex_text, parse_hex};

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ConversationId(pub(super) String);

/// Leaves 55 of the 255 bytes that file systems allow for `.extended.bin`.
const STEM_BYTES: usize = 255 - ".extended.bin".len();

/// Bytes of a shortened text that stay in front of the hash, less up to 3 where a character is cut.
const SHORT_BYTES: usize = 120;

impl ConversationId {
    /// In bytes.
    pub const MAX_BYTES: usize = 200;
    /// Maximum length of a client's name or cache key, in bytes.
    pub const MAX_KEY_BYTES: usize = 1024;

    pub fn new(text: &str) -> Result<Self, ParseIdError> {
        if text.is_empty() {
            return Err(ParseIdError::Empty);
        }
        if text.len() > Self::MAX_BYTES {
            return Err(ParseIdError::TooLong { bytes: text.len(), max: Self::MAX_BYTES });
        }
        check_characters(text)?;
        Ok(Self(text.to_owned()))
    }

    /// The id of the conversation that a client calls `name`: a name of more than 200 bytes is
    /// shortened.
    pub fn of_name(name: &str) -> Result<Self, ParseIdError> {
        if name.len() <= Self::MAX_BYTES {
            return Self::new(name);
        }
        if name.len() > Self::MAX_KEY_BYTES {
            return Err(ParseIdError::TooLong { bytes: name.len(), max: Self::MAX_KEY_BYTES });
        }
        check_characters(name)?;
        Self::new(&Self::shortened(name, &format!("conv:{name}"), Self::MAX_BYTES))
    }

    /// `text` if it has at most `max` bytes; else its beginning, `~` and the first half of the
    /// SHA-256 of `key`.
    pub(super) fn shortened(text: &str, key: &str, max: usize) -> String {
        if text.len() <= max {
            return text.to_owned();
        }
        let mut beginning = text.len().min(SHORT_BYTES);
        while !text.is_char_boundary(beginning) {
            beginning -= 1;
        }
        format!("{}~{}", &text[..beginning], hex_text(&Sha256::digest(key)[..16]))
    }

    /// The beginning of the SHA-256 of the cache key from which `id` was shortened.
    fn shortened_digest(id: &str) -> Option<[u8; 4]> {
        let (beginning, hash) = id.split_at_checked(id.len().checked_sub(33)?)?;
        let hash = hash.strip_prefix('~')?;
        let is_short = (SHORT_BYTES - 3..=SHORT_BYTES).contains(&beginning.len());
        let digest = is_short.then(|| parse_hex::<16>("hash", hash).ok()).flatten()?;
        digest.first_chunk().copied()
    }

    /// The first 4 bytes of the SHA-256 of the cache key that leads to this id.
    pub(crate) fn key_digest(&self) -> [u8; 4] {
        let text = self.hint_key().unwrap_or(&self.0);
        Self::shortened_digest(text).unwrap_or_else(|| {
            let hash = match self.hint_key() {
                Some(key) => Sha256::digest(key),
                None => Sha256::digest(format!("conv:{}", self.0)),
            };
            *hash.first_chunk().expect("a SHA-256 has 32 bytes")
        })
    }

    /// The id of turn `number`, which has no conversation.
    pub fn anonymous(number: u64) -> Self {
        Self(format!("\0{number}"))
    }

    /// Whether it is the id of a turn without a conversation.
    pub fn is_anonymous(&self) -> bool {
        self.0.starts_with('\0')
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The id on disk: `[a-z0-9_-]` stay, every other byte becomes `%XX`. A stem that would be too
    /// long ends in `~` and a hash of the whole id.
    pub fn file_stem(&self) -> String {
        let encoded = percent_encoded(&self.0);
        if encoded.len() <= STEM_BYTES {
            return encoded;
        }
        let hash = hex_text(&Sha256::digest(&self.0)[..16]);
        let room = STEM_BYTES - 1 - hash.len();
        format!("{}~{hash}", &encoded[..room])
    }
}

fn check_characters(text: &str) -> Result<(), ParseIdError> {
    match text.char_indices().find(|(_, c)| c.is_control()) {
        Some((at, _)) => Err(ParseIdError::Control { at }),
        None => Ok(()),
    }
}

fn percent_encoded(text: &str) -> String {
    // On Windows these names are devices, whatever the extension.
    let device = matches!(text, "con" | "prn" | "aux" | "nul")
        || matches!(
            text.as_bytes(),
            [b'c', b'o', b'm', b'0'..=b'9'] | [b'l', b'p', b't', b'0'..=b'9']
        );

    let mut encoded = String::with_capacity(text.len());
    for (at, byte) in text.bytes().enumerate() {
        // Capitals are encoded too: some file systems ignore case.
        let kept = matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-');
        if kept && !(device && at == 0) {
            encoded.push(byte as char);
        } else {
            encoded.push('%');
            encoded.push_str(&hex_text(&[byte]).to_ascii_uppercase());
        }
    }
    encoded
}

impl fmt::Display for ConversationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for ConversationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ConversationId({:?})", self.0)
    }
}

impl AsRef<str> for ConversationId {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl FromStr for ConversationId {
    type Err = ParseIdError;
    fn from_str(text: &str) -> Result<Self, ParseIdError> {
        Self::new(text)
    }
}

impl TryFrom<String> for ConversationId {
    type Error = ParseIdError;
    fn try_from(text: String) -> Result<Self, ParseIdError> {
        Self::new(&text)
    }
}

impl From<ConversationId> for String {
    fn from(id: ConversationId) -> Self {
        id.0
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn id(text: &str) -> ConversationId {
        text.parse().unwrap()
    }

    #[test]
    fn an_id_has_one_to_two_hundred_bytes_and_no_control_characters() {
        assert_eq!(ConversationId::new(""), Err(ParseIdError::Empty));
        assert_eq!(
            ConversationId::new(&"x".repeat(201)),
            Err(ParseIdError::TooLong { bytes: 201, max: 200 })
        );
        assert_eq!(ConversationId::new("a\nb"), Err(ParseIdError::Control { at: 1 }));
        assert_eq!(ConversationId::new("a\u{85}"), Err(ParseIdError::Control { at: 1 }));
        assert!(ConversationId::new(&"x".repeat(200)).is_ok());
        assert!(ConversationId::new("../../etc/passwd").is_ok());
        assert!(ConversationId::new("Küche, 2. Stock").is_ok());
    }

    #[test]
    fn a_name_of_up_to_1024_bytes_is_shortened_to_an_id_of_its_own() {
        let name = |text: &str| ConversationId::of_name(text);
        assert_eq!(name("room-1").unwrap(), id("room-1"));
        assert_eq!(name(&"x".repeat(200)).unwrap(), id(&"x".repeat(200)));
        let long = name(&"x".repeat(201)).unwrap();
        assert!(long.as_str().len() <= ConversationId::MAX_BYTES);
        assert_eq!(long, name(&"x".repeat(201)).unwrap());
        assert_ne!(long, name(&"x".repeat(202)).unwrap());
        assert!(name(&"é".repeat(512)).is_ok());
        let bytes = 1025;
        assert_eq!(name(&"x".repeat(bytes)), Err(ParseIdError::TooLong { bytes, max: 1024 }));
        let control = format!("{}\n", "x".repeat(300));
        assert_eq!(name(&control), Err(ParseIdError::Control { at: 300 }));
    }

    #[test]
    fn an_anonymous_id_cannot_be_parsed() {
        let nameless = ConversationId::anonymous(7);
        assert_ne!(nameless, ConversationId::anonymous(8));
        assert!(nameless.is_anonymous() && !id("7").is_anonymous());
        assert_eq!(ConversationId::new(nameless.as_str()), Err(ParseIdError::Control { at: 0 }));
    }

    #[test]
    fn a_plain_id_is_its_own_file_name() {
        assert_eq!(id("room-1_b").file_stem(), "room-1_b");
    }

    #[test]
    fn characters_special_to_file_systems_are_encoded() {
        assert_eq!(id("../x").file_stem(), "%2E%2E%2Fx");
        assert_eq!(id("v1.2").file_stem(), "v1%2E2");
        assert_eq!(id("a%b~c\\").file_stem(), "a%25b%7Ec%5C");
        assert_eq!(id("é").file_stem(), "%C3%A9");
        assert_eq!(id("Room").file_stem(), "%52oom");
        assert_eq!(id("nul").file_stem(), "%6Eul");
        assert_eq!(id("com7").file_stem(), "%63om7");
        assert_eq!(id("console").file_stem(), "console");
    }

    #[test]
    fn a_long_id_keeps_its_beginning_and_ends_in_a_hash() {
        let (one, other) = (id(&"é".repeat(100)), id(&format!("{}x", "é".repeat(99))));
        assert_eq!(one.file_stem().len(), STEM_BYTES);
        assert!(one.file_stem().starts_with("%C3%A9%C3%A9"));
        assert_ne!(one.file_stem(), other.file_stem());
    }

    #[test]
    fn ids_are_read_from_text_and_refused_like_parsed_ones() {
        assert_eq!(serde_json::from_str::<ConversationId>("\"a.b\"").unwrap(), id("a.b"));
        assert!(serde_json::from_str::<ConversationId>("\"\"").is_err());
    }

    proptest! {
        #[test]
        fn stems_are_short_plain_and_different_even_without_case(texts in prop::collection::btree_set("\\PC{1,60}", 1..8)) {
            let ids: Vec<_> = texts.iter().filter_map(|text| ConversationId::new(text).ok()).collect();
            let stems: BTreeSet<_> = ids.iter().map(|id| id.file_stem().to_lowercase()).collect();
            prop_assert_eq!(stems.len(), ids.len());
            for stem in stems {
                prop_assert!(stem.len() <= STEM_BYTES);
                prop_assert!(stem.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-%~".contains(&b)));
            }
        }
    }
}
