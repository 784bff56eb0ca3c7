//! Which conversation a request belongs to.
//!
//! - Keys are tried in the order of `hob_slots::key`. A named conversation (`conv:`) has text in
//!   the transcript; the weaker keys pin KV only.
//! - Fields of other programs (`providerOptions`, `promptCacheKey`) count as absent when their type
//!   is wrong. `conversation` and `X-Session-Id` must be valid names.

use hob_slots::{CacheKey, ConversationId, KeyFields, KeySegment};
use serde_json::Value;

use crate::error::ApiError;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Identity {
    /// A conversation whose text and KV are saved.
    Named(ConversationId),
    /// A prefix that several requests may share: only its KV is saved.
    Keyed(ConversationId),
    /// Nothing is saved.
    Ephemeral,
}

impl Identity {
    /// # Errors
    /// When `conversation` or the session header is not a valid name.
    pub fn of(body: &Value, session_header: Option<&str>) -> Result<Self, ApiError> {
        let conversation = conversation(body);
        check(conversation.as_deref(), "conversation")?;
        check(session_header, "X-Session-Id")?;
        let fields = KeyFields {
            conversation,
            session_header: session_header.map(str::to_owned),
            eliza_conversation_id: text(body, "/providerOptions/eliza/conversationId"),
            prompt_cache_key: text(body, "/prompt_cache_key"),
            segments: segments(body),
            prefix_hash: text(body, "/providerOptions/eliza/prefixHash"),
            bare_prompt_cache_key: text(body, "/promptCacheKey")
                .or_else(|| text(body, "/providerOptions/eliza/promptCacheKey")),
        };
        Ok(match CacheKey::from_fields(&fields) {
            Some(CacheKey::Conversation(id)) => Self::Named(id),
            Some(key) => match ConversationId::new(&key.to_string()) {
                Ok(id) => Self::Keyed(id),
                Err(_) => Self::Ephemeral, // A key too long to be a name pins nothing.
            },
            None => Self::Ephemeral,
        })
    }

    /// The name under which the engine pins and saves KV.
    pub fn pinned(&self) -> Option<&ConversationId> {
        match self {
            Self::Named(id) | Self::Keyed(id) => Some(id),
            Self::Ephemeral => None,
        }
    }

    /// The conversation whose text is saved.
    pub fn named(&self) -> Option<&ConversationId> {
        match self {
            Self::Named(id) => Some(id),
            Self::Keyed(_) | Self::Ephemeral => None,
        }
    }
}

/// `"conversation": "id"`, or OpenAI's `{"id": "id"}`.
fn conversation(body: &Value) -> Option<String> {
    text(body, "/conversation").or_else(|| text(body, "/conversation/id"))
}

/// An empty text counts as absent.
fn text(body: &Value, pointer: &str) -> Option<String> {
    body.pointer(pointer)?.as_str().filter(|text| !text.is_empty()).map(str::to_owned)
}

fn check(name: Option<&str>, param: &str) -> Result<(), ApiError> {
    match name.filter(|name| !name.is_empty()).map(ConversationId::new) {
        Some(Err(error)) => {
            Err(ApiError::field(param, format!("`{param}` cannot name a conversation: {error}")))
        }
        _ => Ok(()),
    }
}

/// One malformed segment discards the list.
fn segments(body: &Value) -> Option<Vec<KeySegment>> {
    let list = body.pointer("/providerOptions/eliza/promptSegments")?.as_array()?;
    let segment = |value: &Value| {
        Some(KeySegment {
            text: value.get("content")?.as_str()?.to_owned(),
            stable: value.get("stable")?.as_bool()?,
        })
    };
    list.iter().map(segment).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn of(body: Value) -> Identity {
        Identity::of(&body, None).unwrap()
    }

    fn named(id: &str) -> Identity {
        Identity::Named(ConversationId::new(id).unwrap())
    }

    fn keyed(id: &str) -> Identity {
        Identity::Keyed(ConversationId::new(id).unwrap())
    }

    #[test]
    fn a_conversation_is_named_in_five_ways() {
        assert_eq!(of(json!({"conversation": "a"})), named("a"));
        assert_eq!(of(json!({"conversation": {"id": "a"}})), named("a"));
        assert_eq!(of(json!({"providerOptions": {"eliza": {"conversationId": "a"}}})), named("a"));
        assert_eq!(of(json!({"prompt_cache_key": "a"})), named("a"));
        assert_eq!(Identity::of(&json!({}), Some("a")).unwrap(), named("a"));
        let both = json!({"conversation": "a", "prompt_cache_key": "b"});
        assert_eq!(Identity::of(&both, Some("c")).unwrap(), named("a"));
    }

    #[test]
    fn weaker_keys_pin_without_a_name() {
        let stable = json!([{"content": "x", "stable": true}, {"content": "y", "stable": false}]);
        let segments = json!({"providerOptions": {"eliza": {"promptSegments": stable}}});
        assert_eq!(of(segments), keyed("seg:f5e2794887fba944"));
        assert_eq!(of(json!({"promptCacheKey": "v5:abc"})), keyed("v5:abc"));
    }

    #[test]
    fn wrong_types_count_as_absent() {
        assert_eq!(of(json!({"conversation": 5, "prompt_cache_key": ["a"]})), Identity::Ephemeral);
        let malformed = json!([{"content": "x", "stable": true}, {"content": 1, "stable": true}]);
        let body = json!({"providerOptions":
            {"eliza": {"promptSegments": malformed, "prefixHash": "00"}}});
        assert_eq!(of(body), keyed("pfx:00"));
    }

    #[test]
    fn an_invalid_name_is_refused() {
        let error = Identity::of(&json!({"conversation": "a\nb"}), None).unwrap_err();
        assert_eq!(error.param.as_deref(), Some("conversation"));
        let error = Identity::of(&json!({}), Some(&"x".repeat(300))).unwrap_err();
        assert_eq!(error.param.as_deref(), Some("X-Session-Id"));
    }
}
