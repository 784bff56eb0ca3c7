//! `cache_control`: whether the KV of a request is saved, and how long.
//!
//! - Every prompt reuses KV of equal tokens, with marks and without. A mark gives the KV of a request a
//!   cache key, without which the engine saves none.
//! - A mark without `ttl` sets no TTL class: Hob's default is longer than Anthropic's 5 minutes.

use hob_slots::{TtlClass, hex_text};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use crate::chat::identity::{Identity, Session};
use crate::error::ApiError;
use crate::wire::fields::Fields;

/// The marks of a request.
#[derive(Debug, Default)]
pub struct Marks {
    are_any: bool,
    /// The longest that was asked for.
    class: Option<TtlClass>,
}

impl Marks {
    /// Reads the mark of a block, of a tool or of the request.
    pub fn read(&mut self, fields: &Fields<'_>) -> Result<(), ApiError> {
        let Some(control) = fields.get("cache_control") else { return Ok(()) };
        let path = fields.path("cache_control");
        let control = Fields::of(control, &path)?;
        let wrong = |name: &str, known: &str, got: &str| {
            let (path, got) = (control.path(name), got.escape_debug());
            let message = format!("`{path}` must be {known}, not `{got}`");
            ApiError::field(path, message)
        };
        let kind = control.required_string("type")?;
        if kind != "ephemeral" {
            return Err(wrong("type", "ephemeral", kind));
        }
        let class = match control.string("ttl")? {
            None => None,
            Some("5m") => Some(TtlClass::Short),
            Some("1h") => Some(TtlClass::Long),
            Some(other) => return Err(wrong("ttl", "5m or 1h", other)),
        };
        self.are_any = true;
        self.class = self.class.max(class);
        Ok(())
    }

    pub fn are_any(&self) -> bool {
        self.are_any
    }

    /// The body of a chat with a TTL class and with the first of `keys` that can be a cache key, each
    /// unless it has its own.
    pub fn apply(
        &self,
        mut chat: Map<String, Value>,
        keys: &[String],
        session: &Session,
    ) -> Result<Value, ApiError> {
        let has_class = chat.contains_key("prompt_cache_retention");
        if let Some(class) = self.class.filter(|_| !has_class)
            && let Value::Object(hob) = chat.entry("hob").or_insert_with(|| json!({}))
        {
            hob.entry("ttl").or_insert_with(|| class.as_str().into());
        }
        let mut body = Value::Object(chat);
        let mut keys = keys.iter().filter(|_| self.are_any);
        while Identity::of(&body, session)? == Identity::Ephemeral
            && let Some(key) = keys.next()
        {
            body["prompt_cache_key"] = key.as_str().into();
        }
        Ok(body)
    }
}

/// A name of what stands in front of all messages.
pub fn hash(tools: &[Value], system: &str) -> String {
    let mut hash = Sha256::new();
    for tool in tools {
        hash.update(tool.to_string());
        hash.update([1]);
    }
    hash.update(system);
    format!("cache_control:{}", hex_text(&hash.finalize()[..8]))
}
