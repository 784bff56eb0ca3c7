//! What `hob chat` says first: the model, its context, and the conversation.

use hob_api::{Conversation, ConversationText, Status};

use crate::output::{count, counted, line, model_words};

pub fn greeting(status: Option<&Status>, known: Option<&ConversationText>) -> String {
    let model = status.map(|status| {
        let demo = if status.demo { " · a demo: it knows little" } else { "" };
        format!("{}{demo}", model_words(status))
    });
    let conversation = match known {
        None => "new conversation".to_owned(),
        Some(known) => {
            let Conversation { title, tokens, id, .. } = &known.conversation;
            let title = line(title.as_deref().unwrap_or(id), 60);
            let saved = tokens.map(|tokens| format!(" · {} tokens saved", count(tokens as u64)));
            let messages = counted(known.messages.len(), "message");
            format!("{title} · {messages}{}", saved.unwrap_or_default())
        }
    };
    model.into_iter().chain([conversation]).collect::<Vec<_>>().join("\n")
}
