//! One object of an answer: that of a whole one, or a line of a stream.

use hob_runtime::turn::Logprobs;
use serde_json::{Value, json};

use super::models::listed;
use crate::wire::answer::chat_logprobs;

/// The route whose objects these are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Chat,
    Generate,
}

/// What an object adds to the answer.
#[derive(Default)]
pub struct Part<'p> {
    pub content: &'p str,
    pub thinking: &'p str,
    /// In Ollama's form.
    pub tool_calls: Vec<Value>,
    pub logprobs: &'p [Logprobs],
}

impl Form {
    /// An object that is not the last. `created_at`: RFC 3339.
    pub fn object(self, model: &str, created_at: &str, part: Part<'_>) -> Value {
        let mut object = json!({"model": listed(model), "created_at": created_at});
        match self {
            Self::Chat => {
                let mut message = json!({"role": "assistant", "content": part.content});
                if !part.thinking.is_empty() {
                    message["thinking"] = part.thinking.into();
                }
                if !part.tool_calls.is_empty() {
                    message["tool_calls"] = part.tool_calls.into();
                }
                object["message"] = message;
            }
            Self::Generate => {
                object["response"] = part.content.into();
                if !part.thinking.is_empty() {
                    object["thinking"] = part.thinking.into();
                }
            }
        }
        if !part.logprobs.is_empty() {
            object["logprobs"] = chat_logprobs(part.logprobs)["content"].take();
        }
        object["done"] = false.into();
        object
    }
}
