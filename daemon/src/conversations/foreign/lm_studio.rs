//! LM Studio's `.conversation.json`, from `~/.lmstudio/conversations`.
//!
//! - A message has `versions`, of which one is `currentlySelected`; what follows answers that one. So
//!   each version is a branch here, and the selected ones are the branch that was used last.
//! - A version is a `singleStep` with `content`, or a `multiStep` whose `steps` of the type
//!   `contentBlock` have it. What the model thought is such a step in the style `thinking`.
//! - The system prompt is a field of the chat, or of its own settings for predictions.

use serde_json::Value;

use super::Source;
use super::conversation::{ForeignConversation, ForeignMessage, split_reasoning};
use super::fields::{model_name, number, some_text, text};

/// `None` if it is no chat of LM Studio.
pub fn conversation(value: &Value) -> Option<ForeignConversation> {
    let messages = value.get("messages")?.as_array()?;
    let is_versioned = |message: &Value| message["versions"].is_array();
    let is_named = value.get("name").is_some() && value.get("createdAt").is_some();
    if !messages.iter().all(is_versioned) || (messages.is_empty() && !is_named) {
        return None;
    }
    let created_at = number(value, "createdAt");
    let mut conversation = ForeignConversation {
        // The file has no id, but its time is one, to the millisecond.
        id: created_at.map(|at| format!("lm-studio-{at:.0}")),
        title: some_text(value, "name"),
        created_at,
        updated_at: number(value, "userLastMessagedAt")
            .or_else(|| number(value, "assistantLastMessagedAt")),
        pinned: value["pinned"] == true,
        ..ForeignConversation::new(Source::LmStudio, &instructions(value))
    };
    let model = model_name(&value["lastUsedModel"], "identifier");
    let mut last = None;
    for message in messages {
        let selected = message["currentlySelected"].as_u64().unwrap_or(0);
        let mut chosen = last;
        for (at, version) in (0..).zip(message["versions"].as_array().into_iter().flatten()) {
            let added = add(&mut conversation, last, version, model.as_ref());
            if at == selected {
                chosen = added;
            }
        }
        last = chosen;
    }
    conversation.head = last;
    Some(conversation)
}

fn instructions(value: &Value) -> String {
    let fields = value["perChatPredictionConfig"]["fields"].as_array().into_iter().flatten();
    let own = fields.filter(|field| text(field, "key") == "llm.prediction.systemPrompt");
    let own = own.map(|field| text(field, "value")).find(|text| !text.is_empty());
    own.unwrap_or_else(|| text(value, "systemPrompt")).to_owned()
}

fn add(
    conversation: &mut ForeignConversation,
    before: Option<i64>,
    version: &Value,
    model: Option<&String>,
) -> Option<i64> {
    let is_answer = match text(version, "role") {
        "assistant" => true,
        "user" => false,
        _ => return before,
    };
    let (mut reasoning, mut answer) = (Vec::new(), vec![content(version)]);
    let mut written_by = None;
    for step in version["steps"].as_array().into_iter().flatten() {
        if text(step, "type") != "contentBlock" {
            continue;
        }
        let is_thinking = text(&step["style"], "type") == "thinking";
        if is_thinking { &mut reasoning } else { &mut answer }.push(content(step));
        let info = &step["genInfo"];
        written_by = written_by
            .or_else(|| model_name(info, "identifier"))
            .or_else(|| model_name(info, "indexedModelIdentifier"));
    }
    let joined = |texts: Vec<String>| {
        texts.into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n\n")
    };
    let (thought, text) = split_reasoning(&joined(answer));
    reasoning.push(thought);
    let sender = || model_name(&version["senderInfo"], "senderName");
    let model = written_by.or_else(sender).or_else(|| model.cloned());
    let at = number(&version["preprocessed"], "timestamp");
    conversation
        .push(before, ForeignMessage { is_answer, text, reasoning: joined(reasoning), model, at })
}

fn content(of: &Value) -> String {
    let parts = of["content"].as_array().into_iter().flatten();
    let texts = parts.filter(|part| text(part, "type") == "text").map(|part| text(part, "text"));
    texts.collect::<Vec<_>>().join("\n\n")
}
