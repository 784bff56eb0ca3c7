//! The label of a message: its name among the parts of a prompt, and how much it matters that its KV
//! stays in the cells of a conversation with a budget.
//!
//! - `hob.key`, `hob.weight` and `hob.pin` of a message; where they are missing, EVOKE's names of the
//!   same: `evoke_keep`, `evoke_priority`, `evoke_pinned`.
//! - EVOKE's priority is a factor of a block's score, 1 where it is not given, and `prefer` a factor of 2
//!   (OPERATING.md of github.com/Anyesh/EVOKE): a weight is 50 times the factor, 100 at most.
//! - No part of the text: it is stored with the message, and no chat template sees it.

use hob_slots::format::SegmentRef;
use serde_json::{Map, Value};

use super::fields::Fields;
use crate::error::ApiError;

/// EVOKE's factor of a message that says `prefer`.
const PREFERRED: f32 = 2.0;
/// EVOKE sets no bound.
const MAX_PRIORITY: f64 = 1e6;

/// EVOKE's fields of a message.
pub(super) const EVOKE: [&str; 3] = ["evoke_keep", "evoke_priority", "evoke_pinned"];

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Label {
    /// At most [`SegmentRef::MAX_KEY_BYTES`]; `None`: named by its place.
    pub key: Option<String>,
    /// 0 to 100; `None`: [`SegmentRef::DEFAULT_WEIGHT`].
    pub weight: Option<u8>,
    /// The message's KV always stays in the cells; `None`: it does not.
    pub pin: Option<bool>,
}

impl Label {
    /// The label of a message. `hob`: its field of that name.
    pub(super) fn parse(message: &Fields<'_>, hob: Option<&Fields<'_>>) -> Result<Self, ApiError> {
        let own = hob.map(Self::own).transpose()?.unwrap_or_default();
        Ok(own.or(&Self::kept(message)?).or(&Self::of_request(message)?))
    }

    fn own(hob: &Fields<'_>) -> Result<Self, ApiError> {
        let key = hob.string("key")?.map(|key| checked_key(key, &hob.path("key"))).transpose()?;
        let weight = hob.integer("weight", 0..=i64::from(SegmentRef::MAX_WEIGHT))?;
        Ok(Self { key, weight: weight.map(|weight| weight as u8), pin: hob.boolean("pin")? })
    }

    /// `evoke_keep`
    fn kept(message: &Fields<'_>) -> Result<Self, ApiError> {
        match message.string("evoke_keep")? {
            None => Ok(Self::default()),
            Some("pin") => Ok(Self { pin: Some(true), ..Self::default() }),
            Some("prefer") => Ok(Self { weight: Some(weight(PREFERRED)), ..Self::default() }),
            Some(other) => {
                let path = message.path("evoke_keep");
                let other = other.escape_debug();
                let wrong = format!("`{path}` must be pin or prefer, not `{other}`");
                Err(ApiError::field(path, wrong))
            }
        }
    }

    /// `evoke_priority` and `evoke_pinned`, of a message, or of a request for its newest messages.
    pub(super) fn of_request(fields: &Fields<'_>) -> Result<Self, ApiError> {
        let priority = fields.number("evoke_priority", 0.0..=MAX_PRIORITY)?;
        let pin = fields.boolean("evoke_pinned")?;
        Ok(Self { key: None, weight: priority.map(weight), pin })
    }

    /// This label, with what it leaves open as `other` has it.
    #[must_use]
    pub fn or(self, other: &Self) -> Self {
        Self {
            key: self.key.or_else(|| other.key.clone()),
            weight: self.weight.or(other.weight),
            pin: self.pin.or(other.pin),
        }
    }

    /// This weight and pin, under no name.
    pub fn without_key(&self) -> Self {
        Self { key: None, ..self.clone() }
    }

    /// The label of a stored message.
    pub(super) fn stored(message: &Map<String, Value>) -> Self {
        let field = |name: &str| message.get("hob").and_then(|hob| hob.get(name));
        let weight = field("weight").and_then(Value::as_u64);
        Self {
            key: field("key").and_then(Value::as_str).map(str::to_owned),
            weight: weight.and_then(|weight| u8::try_from(weight).ok()),
            pin: field("pin").and_then(Value::as_bool),
        }
    }

    /// The fields of a message's `hob`.
    pub(super) fn to_fields(&self) -> [(&'static str, Option<Value>); 3] {
        [
            ("key", self.key.as_deref().map(Value::from)),
            ("weight", self.weight.map(Value::from)),
            ("pin", self.pin.map(Value::from)),
        ]
    }
}

fn weight(factor: f32) -> u8 {
    let weight = (f32::from(SegmentRef::DEFAULT_WEIGHT) * factor).round();
    weight.min(f32::from(SegmentRef::MAX_WEIGHT)) as u8
}

fn checked_key(key: &str, path: &str) -> Result<String, ApiError> {
    let max = SegmentRef::MAX_KEY_BYTES;
    if (1..=max).contains(&key.len()) && !key.contains(char::is_control) {
        return Ok(key.to_owned());
    }
    let message = format!(
        "`{path}` must have 1 to {max} bytes and no control characters: choose another, or leave it out"
    );
    Err(ApiError::field(path, message))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::wire::message::Message;

    fn label(fields: Value) -> Result<Label, ApiError> {
        let mut message = json!({"role": "tool", "tool_call_id": "c", "content": "x"});
        for (name, value) in fields.as_object().unwrap() {
            message[name] = value.clone();
        }
        Ok(Message::parse(&message, "messages[0]")?.label())
    }

    fn of(key: Option<&str>, weight: Option<u8>, pin: Option<bool>) -> Label {
        Label { key: key.map(str::to_owned), weight, pin }
    }

    #[test]
    fn a_message_has_a_key_a_weight_and_a_pin() {
        let all = json!({"hob": {"key": "a.rs", "weight": 80, "pin": true}});
        assert_eq!(label(all).unwrap(), of(Some("a.rs"), Some(80), Some(true)));
        assert_eq!(label(json!({"hob": {"weight": 0}})).unwrap(), of(None, Some(0), None));
        assert_eq!(label(json!({})).unwrap(), Label::default());
    }

    #[test]
    fn evoke_s_factors_become_weights_and_hob_s_own_fields_count_first() {
        for (fields, expected) in [
            (json!({"evoke_keep": "pin"}), of(None, None, Some(true))),
            (json!({"evoke_keep": "prefer"}), of(None, Some(100), None)),
            (json!({"evoke_priority": 1}), of(None, Some(50), None)),
            (json!({"evoke_priority": 0.5, "evoke_pinned": true}), of(None, Some(25), Some(true))),
            (json!({"evoke_priority": 9.0}), of(None, Some(100), None)),
            (json!({"evoke_priority": 2, "hob": {"weight": 7}}), of(None, Some(7), None)),
            (json!({"evoke_keep": "pin", "hob": {"pin": false}}), of(None, None, Some(false))),
        ] {
            assert_eq!(label(fields.clone()).unwrap(), expected, "{fields}");
        }
    }

    #[test]
    fn each_wrong_value_is_named() {
        for (fields, param) in [
            (json!({"hob": {"key": ""}}), "hob.key"),
            (json!({"hob": {"key": "a\nb"}}), "hob.key"),
            (json!({"hob": {"key": "x".repeat(201)}}), "hob.key"),
            (json!({"hob": {"weight": 101}}), "hob.weight"),
            (json!({"hob": {"weight": 0.5}}), "hob.weight"),
            (json!({"hob": {"pin": 1}}), "hob.pin"),
            (json!({"hob": {"priority": 1}}), "hob.priority"),
            (json!({"hob": {"documents": ["x"]}}), "hob.documents"),
            (json!({"evoke_keep": "always"}), "evoke_keep"),
            (json!({"evoke_priority": -1}), "evoke_priority"),
            (json!({"evoke_pinned": "yes"}), "evoke_pinned"),
        ] {
            let error = label(fields.clone()).expect_err(&fields.to_string());
            assert_eq!(error.param, Some(format!("messages[0].{param}")), "{fields}");
        }
    }

    #[test]
    fn a_label_is_stored_and_makes_no_other_message() {
        let parse = |value: Value| Message::parse(&value, "messages[0]").unwrap();
        let plain = parse(json!({"role": "user", "content": "x"}));
        let marked = parse(json!({"role": "user", "content": "x", "evoke_pinned": true,
                                  "hob": {"key": "k"}}));
        assert!(plain.is_same(&marked));
        assert_ne!(plain, marked);
        let stored = Message::from_stored(&marked.to_json().to_string()).unwrap();
        assert_eq!(stored.label(), of(Some("k"), None, Some(true)));
        assert_eq!(stored.to_json()["hob"], json!({"key": "k", "pin": true}));
        assert_eq!(stored.without_documents("y").label(), stored.label());
        assert_eq!(marked.for_template(), plain.to_json());
    }
}
