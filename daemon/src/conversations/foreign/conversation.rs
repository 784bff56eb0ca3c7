//! A conversation of another app on its way to a [`ConversationExport`].

use serde_json::{Value, json};

use super::Source;
use crate::conversations::transcript::ConversationExport;
use crate::error::{ApiError, ErrorKind};

/// Larger times are milliseconds: as seconds they would be in the year 5138.
const MAX_SECONDS: f64 = 1e11;

#[derive(Clone, Debug)]
pub struct ForeignConversation {
    pub source: Source,
    pub id: Option<String>,
    pub title: Option<String>,
    /// Seconds or milliseconds since 1970.
    pub created_at: Option<f64>,
    pub updated_at: Option<f64>,
    pub pinned: bool,
    /// The message that was shown last.
    pub head: Option<i64>,
    pub messages: Vec<Value>,
    /// The row of the instructions; the first messages follow it.
    pub root: Option<i64>,
    /// An export of Hob.
    pub finished: Option<Value>,
}

/// A message of the user or of the model.
#[derive(Clone, Debug, Default)]
pub struct ForeignMessage {
    pub is_answer: bool,
    pub text: String,
    pub reasoning: String,
    pub model: Option<String>,
    pub at: Option<f64>,
}

impl ForeignConversation {
    /// `instructions`: the system message, if it has a text.
    pub fn new(source: Source, instructions: &str) -> Self {
        let mut conversation = Self {
            source,
            id: None,
            title: None,
            created_at: None,
            updated_at: None,
            pinned: false,
            head: None,
            messages: Vec::new(),
            root: None,
            finished: None,
        };
        if !instructions.trim().is_empty() {
            let message = json!({"role": "system", "content": instructions.trim()});
            conversation.root = Some(conversation.store(None, &message, None, None));
        }
        conversation
    }

    /// An export that Hob has written.
    pub fn finished(export: &Value) -> Self {
        let title = export.get("title").and_then(Value::as_str).map(str::to_owned);
        Self { title, finished: Some(export.clone()), ..Self::new(Source::Hob, "") }
    }

    /// Adds a message after `parent`, or after the instructions. Returns its id; without a text
    /// there is nothing to add, and `parent` stays the last one.
    pub fn push(&mut self, parent: Option<i64>, foreign: ForeignMessage) -> Option<i64> {
        let text = foreign.text.trim();
        if text.is_empty() {
            return parent;
        }
        let message = if foreign.is_answer {
            let mut message = json!({"role": "assistant", "content": text});
            if !foreign.reasoning.trim().is_empty() {
                message["reasoning_content"] = foreign.reasoning.trim().into();
            }
            message
        } else {
            json!({"role": "user", "content": text})
        };
        let finish =
            foreign.model.filter(|_| foreign.is_answer).map(|model| json!({"model": model}));
        Some(self.store(parent.or(self.root), &message, foreign.at, finish))
    }

    /// Adds to an answer that the app has in several parts. `reasoning`: what the model thought before this one.
    pub fn go_on(&mut self, answer: i64, text: &str, reasoning: &str) {
        let index = usize::try_from(answer - 1).expect("ids count from one");
        let message = &mut self.messages[index]["message"];
        for (name, part) in [("content", text.trim()), ("reasoning_content", reasoning.trim())] {
            if part.is_empty() {
                continue;
            }
            match &mut message[name] {
                Value::String(before) if !before.is_empty() => {
                    before.push_str("\n\n");
                    before.push_str(part);
                }
                field => *field = part.into(),
            }
        }
    }

    fn store(
        &mut self,
        parent: Option<i64>,
        message: &Value,
        at: Option<f64>,
        finish: Option<Value>,
    ) -> i64 {
        let id = i64::try_from(self.messages.len()).expect("fewer than 2^63") + 1;
        self.messages.push(json!({
            "id": id, "parent": parent, "message": message, "created_at": seconds(at), "finish": finish,
        }));
        id
    }

    /// # Errors
    /// When there is no message with a text, or Hob's own export is invalid.
    pub fn into_export(self) -> Result<ConversationExport, ApiError> {
        if let Some(export) = self.finished {
            return ConversationExport::from_json(&export);
        }
        if self.messages.len() == usize::from(self.root.is_some()) {
            return Err(ApiError::new(ErrorKind::Invalid, "it has no message with a text"));
        }
        ConversationExport::from_json(&json!({
            "format": "hob conversation",
            "id": self.id,
            "title": self.title,
            "created_at": seconds(self.created_at),
            "updated_at": seconds(self.updated_at.or(self.created_at)),
            "pinned": self.pinned,
            "head": self.head,
            "messages": self.messages,
        }))
    }
}

/// Whole seconds since 1970.
fn seconds(at: Option<f64>) -> Option<i64> {
    let at = at.filter(|at| at.is_finite() && *at >= 0.0)?;
    let seconds = if at > MAX_SECONDS { at / 1000.0 } else { at };
    #[expect(clippy::cast_possible_truncation, reason = "at most 10^11, or a time that is refused")]
    Some(seconds as i64)
}

/// What the model thought, where it stands in front of its answer in tags.
pub fn split_reasoning(text: &str) -> (String, String) {
    let found =
        text.trim_start().strip_prefix("<think>").and_then(|rest| rest.split_once("</think>"));
    match found {
        Some((reasoning, answer)) => (reasoning.trim().to_owned(), answer.trim().to_owned()),
        None => (String::new(), text.to_owned()),
    }
}
