//! The fields of a request that steer the engine's prefix cache: which requests belong together, and which
//! must share nothing.
//!
//! | engine | a conversation or a hint | a private request | one whose KV stays in memory |
//! |---|---|---|---|
//! | llama-server | `cache_prompt` | the same | the same |
//! | vLLM | header `X-Session-Id`, for a router in front of several | `cache_salt` of its own | no further hint |
//! | SGLang | header `X-SMG-Routing-Key`, for its gateway | `cache_salt` of its own | no further hint |
//! | hobd | `prompt_cache_key` | its KV stays in memory | the same |
//! | others | `prompt_cache_key` and header `X-Session-Id` | `store: false` | the same |
//!
//! - vLLM and SGLang share equal beginnings between all requests without a salt, as Hob does between
//!   conversations: a salt for each conversation would compute every system prompt again.
//! - llama-server picks a free slot by the longest common beginning. A request that names a slot waits until that
//!   one is free, also while others are idle, so none is named.

use axum::http::{HeaderName, HeaderValue};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::engine::EngineKind;

const SESSION: HeaderName = HeaderName::from_static("x-session-id");
const ROUTING_KEY: HeaderName = HeaderName::from_static("x-smg-routing-key");

/// Where the KV of a request may be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Privacy {
    #[default]
    None,
    /// Not on disk.
    InMemory,
    /// Not on disk, and shared with no other request.
    Alone,
}

/// What one request tells the engine about its cache.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CacheHint {
    key: Option<String>,
    privacy: Privacy,
}

impl CacheHint {
    /// `id`: of the conversation or the hint. Of a private request without one, `random` keeps it from all others.
    pub fn of(id: Option<&str>, privacy: Privacy, random: impl FnOnce() -> String) -> Self {
        let digest = |text: &str| {
            let digest = Sha256::digest(text.as_bytes());
            digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect::<String>()
        };
        let key = match id {
            Some(id) => Some(digest(id)),
            None => (privacy == Privacy::Alone).then(|| digest(&random())),
        };
        Self { key, privacy }
    }

    /// Adds the fields, and returns the headers.
    pub fn add_to(&self, kind: EngineKind, body: &mut Value) -> Vec<(HeaderName, HeaderValue)> {
        let stays_in_memory = self.privacy != Privacy::None;
        match kind {
            EngineKind::LlamaServer => body["cache_prompt"] = true.into(),
            EngineKind::Hob if stays_in_memory => {
                body["prompt_cache_retention"] = "in_memory".into();
            }
            EngineKind::Other if stays_in_memory => body["store"] = false.into(),
            _ => {}
        }
        let Some(key) = &self.key else { return Vec::new() };
        let header = |name| {
            let value = HeaderValue::from_str(key).expect("hex digits make a header");
            vec![(name, value)]
        };
        match kind {
            EngineKind::LlamaServer => Vec::new(),
            EngineKind::Vllm | EngineKind::Sglang => {
                if self.privacy == Privacy::Alone {
                    body["cache_salt"] = key.as_str().into();
                }
                header(if kind == EngineKind::Vllm { SESSION } else { ROUTING_KEY })
            }
            EngineKind::Hob => {
                body["prompt_cache_key"] = key.as_str().into();
                Vec::new()
            }
            EngineKind::Other => {
                body["prompt_cache_key"] = key.as_str().into();
                header(SESSION)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The fields and the header that an engine gets.
    fn given(hint: &CacheHint, kind: EngineKind) -> (Value, Vec<String>) {
        let mut body = json!({});
        let headers = hint.add_to(kind, &mut body);
        (body, headers.into_iter().map(|(name, _)| name.to_string()).collect())
    }

    #[test]
    fn each_engine_gets_the_hints_that_it_knows_and_no_name() {
        let hint = CacheHint::of(Some("my diary"), Privacy::None, String::new);
        let key = hint.key.clone().unwrap();
        assert!(!key.contains("diary") && key.len() == 32);
        let llama = given(&hint, EngineKind::LlamaServer);
        assert_eq!(llama, (json!({"cache_prompt": true}), vec![]), "no slot to wait for");
        assert_eq!(given(&hint, EngineKind::Vllm), (json!({}), vec!["x-session-id".into()]));
        let sglang = given(&hint, EngineKind::Sglang);
        assert_eq!(sglang, (json!({}), vec!["x-smg-routing-key".into()]));
        assert_eq!(given(&hint, EngineKind::Hob).0, json!({"prompt_cache_key": key}));
        let other = given(&hint, EngineKind::Other);
        assert_eq!(other, (json!({"prompt_cache_key": key}), vec!["x-session-id".into()]));
    }

    #[test]
    fn a_private_request_shares_nothing_where_the_engine_can_be_told() {
        let named = CacheHint::of(Some("talk"), Privacy::Alone, || unreachable!("it has a name"));
        let anonymous = CacheHint::of(None, Privacy::Alone, || "random".into());
        for kind in [EngineKind::Vllm, EngineKind::Sglang] {
            let salts = [&named, &anonymous].map(|hint| given(hint, kind).0);
            let salts = salts.map(|body| body["cache_salt"].as_str().unwrap().to_owned());
            assert_ne!(salts[0], salts[1]);
        }
        let hob = given(&named, EngineKind::Hob).0;
        assert_eq!(hob["prompt_cache_retention"], "in_memory");
        assert_eq!(given(&anonymous, EngineKind::Other).0["store"], false);
        let in_memory = CacheHint::of(Some("talk"), Privacy::InMemory, || unreachable!());
        assert_eq!(given(&in_memory, EngineKind::Vllm).0, json!({}));
        assert_eq!(given(&in_memory, EngineKind::Hob).0, hob);
        let keyless = CacheHint::of(None, Privacy::InMemory, || unreachable!());
        let hob = given(&keyless, EngineKind::Hob).0;
        assert_eq!(hob, json!({"prompt_cache_retention": "in_memory"}));
        assert_eq!(given(&keyless, EngineKind::Other), (json!({"store": false}), vec![]));
        let plain = CacheHint::of(None, Privacy::None, || unreachable!("it is not private"));
        assert_eq!(given(&plain, EngineKind::Vllm), (json!({}), vec![]));
    }
}
