//! `/v1/conversations`: the list, one conversation, and the explanation of its last miss.

use std::borrow::Cow;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::turn::{Cells, MovedPart, Reanchored};
use crate::{Explanation, Text};

/// A list of objects.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct List<T> {
    #[serde(default)]
    pub object: Text,
    #[serde(default = "Vec::new")]
    pub data: Vec<T>,
}

/// A conversation as the list shows it. Times are seconds since 1970. While the daemon's model loads, the place of the
/// KV is not known: what depends on it is null there, and empty here.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Conversation<'c> {
    pub id: Cow<'c, str>,
    pub object: Text,
    pub title: Option<Cow<'c, str>>,
    pub created_at: i64,
    pub updated_at: i64,
    pub message_count: i64,
    pub pinned: bool,
    /// It is in memory only.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub private: bool,
    pub trashed_at: Option<i64>,
    pub slot: Option<u32>,
    /// Where its KV is: `slot`, `memory`, `disk` or `none`.
    #[serde(deserialize_with = "or_empty")]
    pub place: Text,
    /// The same place as a tier: `hot`, `warm`, `cold` or `none`.
    #[serde(deserialize_with = "or_empty")]
    pub tier: Text,
    /// Tokens of its timeline. `None`: the daemon's model loads.
    pub tokens: Option<usize>,
    /// The part of `tokens` that a restore reads from memory.
    #[serde(deserialize_with = "or_empty")]
    pub memory_tokens: usize,
    /// The part of `tokens` that a restore reads from disk.
    #[serde(deserialize_with = "or_empty")]
    pub disk_tokens: usize,
    /// Whether the next answer computes only new tokens. `None`: an older daemon, or one whose model loads.
    pub ready: Option<bool>,
    /// Estimated time for which the next answer first computes older tokens.
    pub read_ms: Option<u64>,
}

/// Null is the type's default.
fn or_empty<'de, T, D>(value: D) -> Result<T, D::Error>
where
    T: Default + Deserialize<'de>,
    D: Deserializer<'de>,
{
    Ok(Option::<T>::deserialize(value)?.unwrap_or_default())
}

/// `GET /v1/conversations/{id}/context`: the prompt of the next turn, without its question.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ContextUse {
    pub object: Text,
    pub conversation: String,
    pub tokens: usize,
    /// Maximum tokens of a conversation.
    pub max_tokens: usize,
    /// The part of `tokens` whose KV exists, in any tier.
    pub ready_tokens: usize,
    /// Whether the next answer computes only new tokens.
    pub ready: bool,
    /// Estimated time for which the next answer first computes older tokens.
    pub read_ms: Option<u64>,
    /// Older messages that prompts leave out.
    pub left_out: usize,
    /// Whether the conversation continues past `max_tokens`, as a new timeline that begins with its newest part.
    pub goes_on: bool,
}

/// A conversation and the messages of the branch that was used last.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct ConversationText {
    #[serde(flatten)]
    pub conversation: Conversation<'static>,
    /// What prompts have in place of the system messages in front; empty: nothing. `None`: those messages.
    pub instructions: Option<String>,
    pub messages: Vec<Message>,
}

/// A message in OpenAI's shape.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Message {
    pub role: String,
    /// A text, a list of parts, or null beside tool calls.
    pub content: Value,
    pub tool_calls: Value,
}

impl Message {
    /// The text of its content; without content, the JSON of its tool calls.
    pub fn text(&self) -> String {
        let part = |part: &Value| part["text"].as_str().map(str::to_owned);
        match &self.content {
            Value::String(text) => text.clone(),
            Value::Array(parts) => parts.iter().filter_map(part).collect(),
            _ if !self.tool_calls.is_null() => self.tool_calls.to_string(),
            _ => String::new(),
        }
    }
}

/// `GET /v1/conversations/{id}/explain`
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Explained {
    /// Seconds since 1970.
    pub explained_at: Option<u64>,
    /// `None`: every request computed only new tokens.
    pub explanation: Option<Explanation>,
    /// The latest answers of the current branch during which parts of it left its cells or came back, or
    /// should have left and could not; the latest first.
    pub moves: Vec<AnswerMoves>,
}

/// What left a conversation's cells during an answer, and what came back.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct AnswerMoves {
    /// The id of the answer.
    pub message: i64,
    /// Seconds since 1970.
    pub at: u64,
    /// The beginning of the question.
    pub question: String,
    /// Tokens of the prompt that had no cells when the answer began.
    pub away_tokens: usize,
    /// Tokens of the prompt whose KV was moved from another place; the field below counts those that were computed
    /// at their seams.
    pub moved_tokens: usize,
    pub repaired_tokens: usize,
    /// Tokens of the prompt whose KV was rounded while it was saved.
    pub lossy_tokens: usize,
    /// Why no KV was moved for a request that allows it.
    pub immovable: Option<String>,
    /// Older messages that the question asked for, and that the prompt therefore had in front of it.
    pub recalled: usize,
    /// With this answer the conversation went on as a new timeline.
    pub reanchored: Option<Reanchored>,
    pub cells: Cells,
    pub moved: Vec<MovedPart>,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_text_of_a_message_is_read_from_each_shape_of_its_content() {
        let text = |message: Value| serde_json::from_value::<Message>(message).unwrap().text();
        assert_eq!(text(json!({"content": "a"})), "a");
        let parts = json!([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]);
        assert_eq!(text(json!({"content": parts})), "ab");
        assert_eq!(text(json!({"content": null, "tool_calls": [1]})), "[1]");
    }

    #[test]
    fn the_list_of_a_daemon_whose_model_loads_is_readable() {
        let listed = json!({"id": "a", "place": null, "tier": null, "slot": null, "tokens": null,
                            "memory_tokens": null, "disk_tokens": null, "ready": null});
        let listed: Conversation<'_> = serde_json::from_value(listed).unwrap();
        assert_eq!(listed, Conversation { id: "a".into(), ..Conversation::default() });
        assert_eq!(listed.tokens, None);
    }

    #[test]
    fn a_conversation_of_another_version_is_readable() {
        let text = json!({"id": "room-1", "messages": [{"role": "user", "content": "Hello"}]});
        let text: ConversationText = serde_json::from_value(text).unwrap();
        assert_eq!((text.conversation.id.as_ref(), text.conversation.title), ("room-1", None));
        assert_eq!(text.messages[0].text(), "Hello");
        let list: List<Conversation<'_>> = serde_json::from_value(json!({})).unwrap();
        assert!(list.data.is_empty());
    }
}
