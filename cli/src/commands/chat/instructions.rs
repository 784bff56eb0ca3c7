//! The system prompt of a conversation at the keyboard.
//!
//! - `--system` and `/system` set it for the next turn, which sends a stored conversation whole: a
//!   history with another system prompt is another branch.

use hob_api::ConversationText;
use serde_json::{Value, json};

use super::Chat;
use crate::client::Client;
use crate::context::Context;
use crate::failure::Failure;
use crate::output::plain;

impl Chat<'_> {
    /// The system prompt of the next turn.
    pub(super) fn instructions(&self, context: &Context) -> Result<Option<String>, Failure> {
        if self.system.is_some() || self.is_new {
            return Ok(self.system.clone());
        }
        let text: ConversationText = Client::find(context)?.get(&self.path())?;
        let system = text.messages.iter().take_while(|message| message.role == "system");
        let texts: Vec<_> = system.map(|message| plain(&message.text())).collect();
        Ok(Some(texts.join("\n\n")).filter(|text| !text.is_empty()))
    }

    pub(super) fn system(&self) -> Option<Value> {
        self.system.as_ref().map(|text| json!({"role": "system", "content": text}))
    }

    /// The conversation's messages without its system prompt; without its last answer where that is
    /// asked for `again`.
    pub(super) fn stored(&self, client: &Client, again: bool) -> Result<Vec<Value>, Failure> {
        let text: Value = client.get(&self.path())?;
        let mut messages: Vec<_> = text["messages"].as_array().cloned().unwrap_or_default();
        let systems = messages.iter().take_while(|message| message["role"] == "system").count();
        messages.drain(..systems);
        while again && messages.last().is_some_and(|message| message["role"] == "assistant") {
            messages.pop();
        }
        // As a client sends them: without what the daemon adds.
        let fields = ["role", "content", "name", "tool_calls", "tool_call_id", "hob"];
        let plain = |message: &Value| {
            let known = fields.into_iter().filter(|field| !message[*field].is_null());
            known.map(|field| (field.to_owned(), message[field].clone())).collect()
        };
        Ok(messages.iter().map(|message| Value::Object(plain(message))).collect())
    }
}
