//! Cache keys: which field of a request names its conversation, and the slot that a key prefers.
//!
//! - Strongest first: `conv:` > `seg:` > `pfx:` > `v5:`. An absent, empty or malformed field never
//!   wins over a weaker valid one.
//! - [`CacheKey::Conversation`] names a conversation. Every other key is a hint: its turns prefer a
//!   slot and run side by side.
//! - A resolved key `conv:ID` in `promptCacheKey` names the conversation `ID`.
//! - Hashes and slots equal those of the elizaOS runtime digit for digit, so both sides of a
//!   connection derive the same ones.

use std::fmt;

use sha2::{Digest, Sha256};

use crate::id::{ConversationId, hex_text};

/// The fields of a request that can name its place in the cache. Callers leave out values of a
/// wrong type.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyFields {
    /// `conversation` in the body.
    pub conversation: Option<String>,
    /// The header `X-Session-Id`.
    pub session_header: Option<String>,
    /// `providerOptions.eliza.conversationId`.
    pub eliza_conversation_id: Option<String>,
    /// `prompt_cache_key` in the body.
    pub prompt_cache_key: Option<String>,
    /// `providerOptions.eliza.promptSegments`; one malformed segment voids the list.
    pub segments: Option<Vec<KeySegment>>,
    /// `providerOptions.eliza.prefixHash`.
    pub prefix_hash: Option<String>,
    /// A bare `promptCacheKey`, which already begins with `v5:` when it comes from elizaOS.
    pub bare_prompt_cache_key: Option<String>,
}

/// The part of a prompt segment that a key depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeySegment {
    pub text: String,
    /// Whether its text is the same in every turn.
    pub stable: bool,
}

/// A cache key. [`derive_slot_id`] hashes its text form.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CacheKey {
    Conversation(ConversationId),
    /// The id under which elizaOS computes its system prompt: a hint.
    SystemPrefix,
    /// OpenAI's `prompt_cache_key`: a hint with the slot of the conversation of that name.
    PromptCacheKey(String),
    /// Prompts that begin with the same stable segments.
    Segments(PrefixHash),
    /// Prompts whose sender names their prefix.
    Prefix(String),
    /// A key in the sender's own form.
    V5(String),
}

impl CacheKey {
    /// The strongest key that `fields` hold.
    pub fn from_fields(fields: &KeyFields) -> Option<Self> {
        Self::conversation(fields)
            .or_else(|| text(&fields.prompt_cache_key).map(Self::PromptCacheKey))
            .or_else(|| Self::segments(fields))
            .or_else(|| text(&fields.prefix_hash).map(Self::Prefix))
            .or_else(|| text(&fields.bare_prompt_cache_key).map(Self::V5))
    }

    fn conversation(fields: &KeyFields) -> Option<Self> {
        let names = [
            fields.conversation.as_deref(),
            fields.session_header.as_deref(),
            fields.eliza_conversation_id.as_deref(),
            fields.resolved_conversation(),
        ];
        let id = names.into_iter().flatten().find_map(|name| ConversationId::of_name(name).ok())?;
        Some(if id.as_str() == ConversationId::SYSTEM_PREFIX {
            Self::SystemPrefix
        } else {
            Self::Conversation(id)
        })
    }

    fn segments(fields: &KeyFields) -> Option<Self> {
        stable_prefix_hash(fields.segments.as_deref()?).map(Self::Segments)
    }
}

impl CacheKey {
    /// Whether the key names a conversation, which has text.
    pub fn names_conversation(&self) -> bool {
        matches!(self, Self::Conversation(_))
    }

    /// The id of the key's KV.
    pub fn id(&self) -> ConversationId {
        match self {
            Self::Conversation(id) => id.clone(),
            hint => ConversationId::of_hint(&hint.to_string()).expect("hints are checked"),
        }
    }
}

impl KeyFields {
    /// The name in a `promptCacheKey` that elizaOS resolved to a conversation.
    pub fn resolved_conversation(&self) -> Option<&str> {
        self.bare_prompt_cache_key.as_deref()?.strip_prefix("conv:")
    }
}

/// A text that can be a hint.
fn text(field: &Option<String>) -> Option<String> {
    let is_usable = |text: &String| {
        let fits = (1..=ConversationId::MAX_KEY_BYTES).contains(&text.len());
        fits && !text.contains(char::is_control)
    };
    field.clone().filter(is_usable)
}

impl fmt::Display for CacheKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Conversation(id) => write!(f, "conv:{id}"),
            Self::SystemPrefix => write!(f, "conv:{}", ConversationId::SYSTEM_PREFIX),
            Self::PromptCacheKey(key) => write!(f, "conv:{key}"),
            Self::Segments(hash) => write!(f, "seg:{hash}"),
            Self::Prefix(hash) => write!(f, "pfx:{hash}"),
            Self::V5(key) => f.write_str(key),
        }
    }
}

/// The first 16 hex digits of a SHA-256 over stable segments.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PrefixHash(pub [u8; 8]);

impl fmt::Display for PrefixHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&hex_text(&self.0))
    }
}

impl fmt::Debug for PrefixHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PrefixHash({self})")
    }
}

/// The hash of the leading run of stable segments; `None` when the first one is not stable.
pub fn stable_prefix_hash(segments: &[KeySegment]) -> Option<PrefixHash> {
    let stable = segments.iter().take_while(|segment| segment.stable);
    let mut hash = Sha256::new();
    let mut count = 0;
    for segment in stable {
        // The byte after each text keeps `["ab"]` and `["a", "b"]` apart.
        hash.update(&segment.text);
        hash.update([1]);
        count += 1;
    }
    (count > 0).then(|| PrefixHash(leading(&hash.finalize())))
}

/// The slot that `key` prefers among `n`; -1 without a key or a slot.
pub fn derive_slot_id(key: Option<&str>, n: i32) -> i32 {
    match (key, n) {
        (None | Some(""), _) | (_, ..=0) => -1,
        (_, 1) => 0,
        (Some(key), n) => slot_of(leading(&Sha256::digest(key)), n.unsigned_abs()),
    }
}

/// The slot that the KV of `id` prefers among `n`; -1 without a slot.
pub fn slot_of_id(id: &ConversationId, n: u32) -> i32 {
    match n {
        0 => -1,
        n => slot_of(id.key_digest(), n),
    }
}

fn slot_of(digest: [u8; 4], n: u32) -> i32 {
    let slot = u32::from_be_bytes(digest) % n;
    i32::try_from(slot).expect("slots are few")
}

fn leading<const N: usize>(digest: &[u8]) -> [u8; N] {
    digest[..N].try_into().expect("a SHA-256 has 32 bytes")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segments<const N: usize>(texts: [(&str, bool); N]) -> Vec<KeySegment> {
        texts.map(|(text, stable)| KeySegment { text: text.to_owned(), stable }).into()
    }

    fn every_field() -> KeyFields {
        KeyFields {
            conversation: Some("body".into()),
            session_header: Some("header".into()),
            eliza_conversation_id: Some("eliza".into()),
            prompt_cache_key: Some("cache-key".into()),
            segments: Some(segments([("x", true)])),
            prefix_hash: Some("0123".into()),
            bare_prompt_cache_key: Some("v5:abc".into()),
        }
    }

    #[test]
    fn slots_are_derived_to_the_golden_values() {
        let golden = [
            ("conv:__system_prefix__", [0, 2, 2, 2]),
            ("conv:room-1", [0, 2, 2, 10]),
            ("v5:abc", [0, 0, 4, 4]),
        ];
        for (key, expected) in golden {
            assert_eq!([2, 4, 8, 16].map(|n| derive_slot_id(Some(key), n)), expected, "{key}");
        }
    }

    #[test]
    fn without_a_key_or_a_slot_there_is_no_slot_and_one_slot_takes_every_key() {
        assert_eq!(derive_slot_id(None, 4), -1);
        assert_eq!(derive_slot_id(Some(""), 4), -1);
        assert_eq!(derive_slot_id(Some("conv:room-1"), 0), -1);
        assert_eq!(derive_slot_id(Some("conv:room-1"), -3), -1);
        assert_eq!(derive_slot_id(Some("conv:room-1"), 1), 0);
    }

    #[test]
    fn stable_prefixes_hash_to_the_golden_values() {
        let hash = |texts: [(&str, bool); 1]| stable_prefix_hash(&segments(texts)).unwrap();
        assert_eq!(hash([("x", true)]).to_string(), "f5e2794887fba944");
        assert_eq!(hash([("stable-1", true)]).to_string(), "4c2ed26925534b91");
    }

    #[test]
    fn only_the_leading_run_of_stable_segments_counts() {
        let alone = stable_prefix_hash(&segments([("x", true)]));
        let followed = stable_prefix_hash(&segments([("x", true), ("now", false), ("y", true)]));
        assert_eq!(alone, followed);
        assert_eq!(stable_prefix_hash(&segments([("now", false), ("x", true)])), None);
        assert_eq!(stable_prefix_hash(&[]), None);
    }

    #[test]
    fn the_same_text_cut_elsewhere_is_another_prefix() {
        let whole = stable_prefix_hash(&segments([("ab", true)]));
        let parts = stable_prefix_hash(&segments([("a", true), ("b", true)]));
        assert_ne!(whole, parts);
    }

    #[test]
    fn the_strongest_valid_field_is_the_key() {
        let mut fields = every_field();
        let mut keys = Vec::new();
        let mut next = |fields: &KeyFields| {
            keys.push(CacheKey::from_fields(fields).unwrap().to_string());
        };
        next(&fields);
        fields.conversation = None;
        next(&fields);
        fields.session_header = None;
        next(&fields);
        fields.eliza_conversation_id = None;
        next(&fields);
        fields.prompt_cache_key = None;
        next(&fields);
        fields.segments = None;
        next(&fields);
        fields.prefix_hash = None;
        next(&fields);
        fields.bare_prompt_cache_key = None;

        assert_eq!(
            keys,
            [
                "conv:body",
                "conv:header",
                "conv:eliza",
                "conv:cache-key",
                "seg:f5e2794887fba944",
                "pfx:0123",
                "v5:abc"
            ]
        );
        assert_eq!(CacheKey::from_fields(&fields), None);
    }

    #[test]
    fn only_names_of_conversations_name_one_and_every_other_key_is_a_hint() {
        let of = |fields: KeyFields| CacheKey::from_fields(&fields).unwrap();
        let fields = KeyFields { prompt_cache_key: Some("a".into()), ..Default::default() };
        assert_eq!(of(fields.clone()).to_string(), "conv:a");
        assert!(of(fields).id().is_hint());
        for (key, names) in [("v5:a", None), ("conv:room-1", Some("room-1")), ("conv:", None)] {
            let bare = KeyFields { bare_prompt_cache_key: Some(key.into()), ..Default::default() };
            let found = of(bare);
            assert_eq!(found.to_string(), key);
            assert_eq!(
                found.names_conversation().then(|| found.id().to_string()).as_deref(),
                names
            );
        }
    }

    #[test]
    fn the_id_of_each_key_prefers_the_slot_of_the_golden_values_however_long_it_is() {
        let slot = |key: &CacheKey| slot_of_id(&key.id(), 16);
        let long = "é".repeat(512);
        let named = KeyFields { conversation: Some(long.clone()), ..Default::default() };
        let keys = [
            (CacheKey::SystemPrefix, "conv:__system_prefix__".to_owned()),
            (CacheKey::Conversation("room-1".parse().unwrap()), "conv:room-1".to_owned()),
            (CacheKey::PromptCacheKey("room-1".into()), "conv:room-1".to_owned()),
            (CacheKey::V5("v5:abc".into()), "v5:abc".to_owned()),
            (CacheKey::Prefix("0123".into()), "pfx:0123".to_owned()),
            (CacheKey::from_fields(&named).unwrap(), format!("conv:{long}")),
            (CacheKey::V5(long.clone()), long.clone()),
        ];
        for (key, text) in keys {
            assert_eq!(slot(&key), derive_slot_id(Some(&text), 16), "{text}");
            if key.id().is_hint() {
                assert_eq!(slot_of_id(&key.id().copy(7), 16), slot(&key), "{text}");
            }
        }
    }

    #[test]
    fn an_empty_or_malformed_field_counts_as_absent() {
        let fields = KeyFields {
            conversation: Some(String::new()),
            session_header: Some("two\nlines".into()),
            segments: Some(segments([("now", false)])),
            prefix_hash: Some(String::new()),
            ..every_field()
        };
        assert_eq!(CacheKey::from_fields(&fields).unwrap().to_string(), "conv:eliza");
        let fields = KeyFields { eliza_conversation_id: None, prompt_cache_key: None, ..fields };
        assert_eq!(CacheKey::from_fields(&fields).unwrap().to_string(), "v5:abc");
    }
}
