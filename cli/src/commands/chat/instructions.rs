//! The instructions of a conversation at the keyboard.
//!
//! - `--system` and `/system` set them for the next turn. A new conversation begins with them, as a system message;
//!   those of a stored one are a field of it, which the app shows and changes too.

use hob_api::ConversationText;
use serde_json::{Value, json};

use super::Chat;
use crate::client::Client;
use crate::context::Context;
use crate::failure::Failure;
use crate::output::plain;

impl Chat<'_> {
    /// The instructions of the next turn.
    pub(super) fn instructions(&self, context: &Context) -> Result<Option<String>, Failure> {
        if self.system.is_some() || self.is_new {
            return Ok(self.system.clone());
        }
        Ok(of(&Client::find(context)?.get(&self.path())?))
    }

    /// The instructions of a new conversation.
    pub(super) fn system_message(&self) -> Option<Value> {
        let text = self.system.as_ref().filter(|_| self.is_new);
        text.map(|text| json!({"role": "system", "content": text}))
    }
}

/// What prompts of a stored conversation begin with, besides a profile's text.
fn of(text: &ConversationText) -> Option<String> {
    let instructs = |role: &str| role == "system" || role == "developer";
    let stored = || {
        let front = text.messages.iter().take_while(|message| instructs(&message.role));
        let texts: Vec<_> = front.map(|message| plain(&message.text())).collect();
        texts.join("\n\n")
    };
    let own = text.instructions.as_deref().map_or_else(stored, plain);
    Some(own).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_of_a_conversation_stand_in_place_of_its_system_messages() {
        let of_text = |instructions: Value| {
            let messages = json!([
                {"role": "developer", "content": "Be long."},
                {"role": "system", "content": "Be kind."},
                {"role": "user", "content": "Hello"},
            ]);
            let text = json!({"id": "c", "instructions": instructions, "messages": messages});
            of(&serde_json::from_value(text).unwrap())
        };
        assert_eq!(of_text(Value::Null).as_deref(), Some("Be long.\n\nBe kind."));
        assert_eq!(of_text("Be brief.".into()).as_deref(), Some("Be brief."));
        assert_eq!(of_text("".into()), None, "they were removed");
    }
}
