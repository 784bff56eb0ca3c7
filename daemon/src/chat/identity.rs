//! Which conversation a request belongs to.
//!
//! - Keys are tried in the order of `hob_slots::key`. A conversation (`conv:`) has text in the
//!   transcript. Every other key is a hint: it has KV and no text.
//! - Fields of other programs (`providerOptions`, `eliza`, `promptCacheKey`, `id_slot`) count as absent when
//!   their type is wrong. `conversation`, which has a type,
//!   `X-Session-Id` and `X-Evoke-Session` must be valid names.
//! - Reserved ids are refused wherever a client names a conversation, except the one under which
//!   elizaOS computes its system prompt: that is a hint.

use hob_slots::{CacheKey, ConversationId, KeyFields, KeySegment};
use serde_json::Value;

use crate::error::ApiError;
use crate::wire::fields::{Fields, whole, wrong_type};

/// The headers of a request that may name its conversation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Session {
    /// `X-Session-Id`
    pub own: Option<String>,
    /// EVOKE's `X-Evoke-Session`. It counts where nothing else names a key.
    pub evoke: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Identity {
    /// A conversation whose text and KV are saved.
    Named(ConversationId),
    /// KV that several requests may share: it has no text.
    Hint(ConversationId),
    /// Nothing is saved.
    Ephemeral,
}

impl Identity {
    /// # Errors
    /// When a name is not valid, or reserved.
    pub fn of(body: &Value, session: &Session) -> Result<Self, ApiError> {
        let conversation = conversation(body)?;
        check(conversation.as_deref(), "conversation")?;
        check(session.own.as_deref(), "X-Session-Id")?;
        check(session.evoke.as_deref(), "X-Evoke-Session")?;
        let fields = KeyFields {
            conversation,
            session_header: session.own.clone(),
            eliza_conversation_id: eliza(body, "conversationId").and_then(owned),
            prompt_cache_key: text(body, "/prompt_cache_key"),
            segments: segments(body),
            prefix_hash: eliza(body, "prefixHash").and_then(owned),
            bare_prompt_cache_key: text(body, "/promptCacheKey")
                .or_else(|| eliza(body, "promptCacheKey").and_then(owned)),
        };
        let param = match fields.eliza_conversation_id {
            Some(_) => "eliza.conversationId",
            None => "promptCacheKey",
        };
        let evoke = || {
            let session_header = session.evoke.clone();
            CacheKey::from_fields(&KeyFields { session_header, ..KeyFields::default() })
        };
        Ok(match CacheKey::from_fields(&fields).or_else(evoke).or_else(|| numbered_slot(body)) {
            Some(key) if key.names_conversation() => Self::Named(unreserved(key.id(), param)?),
            Some(hint) => Self::Hint(hint.id()),
            None => Self::Ephemeral,
        })
    }

    /// The name under which the engine pins and saves KV.
    pub fn pinned(&self) -> Option<&ConversationId> {
        match self {
            Self::Named(id) | Self::Hint(id) => Some(id),
            Self::Ephemeral => None,
        }
    }

    /// The conversation whose text is saved.
    pub fn named(&self) -> Option<&ConversationId> {
        match self {
            Self::Named(id) => Some(id),
            Self::Hint(_) | Self::Ephemeral => None,
        }
    }
}

/// The id of the conversation that a client calls `name`, in the field `param`.
///
/// # Errors
/// When the name is not valid, or reserved.
pub fn conversation_id(name: &str, param: &str) -> Result<ConversationId, ApiError> {
    let invalid =
        |error| ApiError::field(param, format!("`{param}` cannot name a conversation: {error}"));
    unreserved(ConversationId::of_name(name).map_err(invalid)?, param)
}

fn unreserved(id: ConversationId, param: &str) -> Result<ConversationId, ApiError> {
    if !id.is_reserved() {
        return Ok(id);
    }
    let message = format!(
        "`{}` is reserved for the prefixes of profiles and for cache keys: choose another name",
        id.as_str().escape_debug()
    );
    Err(ApiError::field(param, message).code("reserved_name"))
}

/// `"conversation": "id"`, or OpenAI's `{"id": "id"}`. An empty text counts as absent.
fn conversation(body: &Value) -> Result<Option<String>, ApiError> {
    const NAME: &str = "conversation";
    let id = match body.get(NAME) {
        Some(Value::Object(_)) => Fields::of(&body[NAME], NAME)?.string("id")?,
        Some(Value::String(id)) => Some(id.as_str()),
        None | Some(Value::Null) => None,
        Some(other) => return Err(wrong_type(NAME, "a string or an object with an `id`", other)),
    };
    Ok(id.filter(|id| !id.is_empty()).map(str::to_owned))
}

/// The hint of llama-server's `id_slot`: a slot of that server is a place with KV of its own, which its
/// clients save and restore by the number.
pub fn slot_hint(id_slot: u64) -> CacheKey {
    CacheKey::V5(format!("slot:{id_slot}"))
}

fn numbered_slot(body: &Value) -> Option<CacheKey> {
    let number = body.get("id_slot").and_then(whole)?;
    u64::try_from(number).ok().map(slot_hint)
}

/// An empty text counts as absent.
fn text(body: &Value, pointer: &str) -> Option<String> {
    body.pointer(pointer).and_then(owned)
}

fn owned(value: &Value) -> Option<String> {
    value.as_str().filter(|text| !text.is_empty()).map(str::to_owned)
}

/// A field of elizaOS, which sends its options by provider or at the top.
fn eliza<'b>(body: &'b Value, name: &str) -> Option<&'b Value> {
    let places = ["/providerOptions/eliza", "/eliza"];
    let mut fields = places.into_iter().filter_map(|place| body.pointer(place)?.get(name));
    fields.find(|value| !value.is_null())
}

fn check(name: Option<&str>, param: &str) -> Result<(), ApiError> {
    match name.filter(|name| !name.is_empty() && *name != ConversationId::SYSTEM_PREFIX) {
        Some(name) => conversation_id(name, param).map(drop),
        None => Ok(()),
    }
}

/// One malformed segment discards the list.
fn segments(body: &Value) -> Option<Vec<KeySegment>> {
    let list = eliza(body, "promptSegments")?.as_array()?;
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
        Identity::of(&body, &Session::default()).unwrap()
    }

    fn session(name: &str) -> Session {
        Session { own: Some(name.to_owned()), evoke: None }
    }

    fn named(id: &str) -> Identity {
        Identity::Named(ConversationId::new(id).unwrap())
    }

    /// The key of a hint.
    fn hint(body: Value) -> String {
        match of(body) {
            Identity::Hint(id) => id.hint_key().unwrap().to_owned(),
            other => panic!("{other:?} is no hint"),
        }
    }

    #[test]
    fn a_conversation_is_named_in_six_ways() {
        assert_eq!(of(json!({"conversation": "a"})), named("a"));
        assert_eq!(of(json!({"conversation": {"id": "a"}})), named("a"));
        assert_eq!(of(json!({"providerOptions": {"eliza": {"conversationId": "a"}}})), named("a"));
        assert_eq!(of(json!({"eliza": {"conversationId": "a"}})), named("a"));
        assert_eq!(of(json!({"promptCacheKey": "conv:a"})), named("a"));
        assert_eq!(Identity::of(&json!({}), &session("a")).unwrap(), named("a"));
        let both = json!({"conversation": "a", "prompt_cache_key": "b"});
        assert_eq!(Identity::of(&both, &session("c")).unwrap(), named("a"));
    }

    #[test]
    fn every_other_key_is_a_hint() {
        let stable = json!([{"content": "x", "stable": true}, {"content": "y", "stable": false}]);
        let segments = json!({"providerOptions": {"eliza": {"promptSegments": stable}}});
        assert_eq!(hint(segments), "seg:f5e2794887fba944");
        assert_eq!(hint(json!({"eliza": {"prefixHash": "0123"}})), "pfx:0123");
        assert_eq!(hint(json!({"promptCacheKey": "v5:abc"})), "v5:abc");
        assert_eq!(hint(json!({"promptCacheKey": "v5:abc", "id_slot": 2})), "v5:abc");
        assert_eq!(hint(json!({"id_slot": 2})), "slot:2");
        assert_eq!(hint(json!({"id_slot": 2.0})), "slot:2");
        assert_eq!(of(json!({"id_slot": -1})), Identity::Ephemeral);
        assert_eq!(hint(json!({"prompt_cache_key": "a"})), "conv:a");
        assert_eq!(hint(json!({"conversation": "__system_prefix__"})), "conv:__system_prefix__");
    }

    #[test]
    fn wrong_types_count_as_absent() {
        assert_eq!(
            of(json!({"conversation": null, "prompt_cache_key": ["a"]})),
            Identity::Ephemeral
        );
        let malformed = json!([{"content": "x", "stable": true}, {"content": 1, "stable": true}]);
        let body = json!({"providerOptions":
            {"eliza": {"promptSegments": malformed, "prefixHash": "00"}}});
        assert_eq!(hint(body), "pfx:00");
    }

    #[test]
    fn a_conversation_of_another_type_is_refused() {
        for (conversation, param) in [
            (json!(5), "conversation"),
            (json!(true), "conversation"),
            (json!(["a"]), "conversation"),
            (json!({"id": 5}), "conversation.id"),
        ] {
            let body = json!({"conversation": conversation});
            let error = Identity::of(&body, &Session::default()).unwrap_err();
            assert_eq!(error.param.as_deref(), Some(param), "{body}");
        }
        assert_eq!(of(json!({"conversation": {"id": ""}})), Identity::Ephemeral);
    }

    #[test]
    fn an_invalid_name_is_refused() {
        let error =
            Identity::of(&json!({"conversation": "a\nb"}), &Session::default()).unwrap_err();
        assert_eq!(error.param.as_deref(), Some("conversation"));
        let error = Identity::of(&json!({}), &session(&"x".repeat(1025))).unwrap_err();
        assert_eq!(error.param.as_deref(), Some("X-Session-Id"));
    }

    #[test]
    fn a_reserved_name_is_refused_wherever_it_is_sent() {
        for name in ["__prefix__:home", "__key__:v5:abc"] {
            let bodies = [
                json!({"conversation": name}),
                json!({"eliza": {"conversationId": name}}),
                json!({"promptCacheKey": format!("conv:{name}")}),
            ];
            for body in bodies {
                let error = Identity::of(&body, &Session::default()).unwrap_err();
                assert_eq!(error.code, Some("reserved_name"), "{body}");
                assert!(error.message.contains(name), "{error}");
            }
            assert!(Identity::of(&json!({}), &session(name)).is_err());
        }
    }

    #[test]
    fn evoke_s_session_is_a_conversation_where_nothing_else_names_a_key() {
        let of = |body: Value, own: Option<&str>, evoke: &str| {
            let session = Session { own: own.map(str::to_owned), evoke: Some(evoke.to_owned()) };
            Identity::of(&body, &session)
        };
        assert_eq!(of(json!({}), None, "acme/keep").unwrap(), named("acme/keep"));
        assert_eq!(of(json!({}), Some("a"), "acme/keep").unwrap(), named("a"));
        assert_eq!(of(json!({"conversation": "b"}), None, "acme/keep").unwrap(), named("b"));
        let hint = of(json!({"prompt_cache_key": "k"}), None, "acme/keep").unwrap();
        assert!(matches!(hint, Identity::Hint(_)));
        let error = of(json!({}), None, "a\tb").unwrap_err();
        assert_eq!(error.param.as_deref(), Some("X-Evoke-Session"));
    }

    #[test]
    fn keys_of_up_to_1024_bytes_are_accepted() {
        let long = "x".repeat(1024);
        assert!(matches!(of(json!({"conversation": long})), Identity::Named(_)));
        assert_ne!(
            of(json!({"conversation": long})),
            of(json!({"conversation": "x".repeat(1023)}))
        );
        for body in [json!({"prompt_cache_key": long}), json!({"promptCacheKey": long})] {
            assert!(matches!(of(body), Identity::Hint(_)));
        }
        assert_eq!(of(json!({"promptCacheKey": "x".repeat(1025)})), Identity::Ephemeral);
    }
}
