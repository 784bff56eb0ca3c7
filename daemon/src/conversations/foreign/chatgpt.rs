//! ChatGPT's `conversations.json`: an array of trees.
//!
//! - `mapping` has the nodes by id, each with `parent`, `children` and a `message` or null.
//! - Nodes of the app's own machinery (tools, hidden context, empty system messages) are left out;
//!   their children follow the message before.
//! - Custom instructions are a hidden node of the type `user_editable_context`.
//! - An answer may be a chain of nodes, with the calls of tools in between: one message here.

use std::collections::{HashMap, HashSet};
use std::mem;

use serde_json::Value;

use super::Source;
use super::conversation::{ForeignConversation, ForeignMessage};
use super::fields::{model_name, number, some_text, text};

/// `None` if it is no conversation of ChatGPT.
pub fn conversation(value: &Value) -> Option<ForeignConversation> {
    let mapping = value.get("mapping")?.as_object()?;
    let instructions = mapping.values().find_map(instructions).unwrap_or_default();
    let mut conversation = ForeignConversation {
        id: some_text(value, "conversation_id").or_else(|| some_text(value, "id")),
        title: some_text(value, "title"),
        created_at: number(value, "create_time"),
        updated_at: number(value, "update_time"),
        ..ForeignConversation::new(Source::ChatGpt, &instructions)
    };
    let is_root = |node: &Value| !mapping.contains_key(text(node, "parent"));
    let roots = mapping.iter().filter(|(_, node)| is_root(node)).map(|(id, _)| id.as_str());
    let mut stack: Vec<Step<'_>> = roots.map(Step::root).collect();
    let mut last_of: HashMap<&str, Option<i64>> = HashMap::new();
    let mut visited = HashSet::new();
    while let Some(step) = stack.pop() {
        // A file may have circles.
        let Some(node) = mapping.get(step.node).filter(|_| visited.insert(step.node)) else {
            continue;
        };
        let id = step.node;
        let Step { last, open, mut reasoning, .. } = add(&mut conversation, node, step);
        last_of.insert(id, last);
        let children = node["children"].as_array().into_iter().flatten();
        let children = children.filter_map(Value::as_str).filter(|id| mapping.contains_key(*id));
        let children: Vec<&str> = children.collect();
        let open = open.filter(|_| children.len() == 1);
        let pushed = stack.len();
        for child in children {
            // The first child has it alone: copies for a million children have no bound.
            let reasoning = mem::take(&mut reasoning);
            stack.push(Step { node: child, last, open, reasoning });
        }
        stack[pushed..].reverse();
    }
    conversation.head = last_of.get(text(value, "current_node")).copied().flatten();
    Some(conversation)
}

/// A node to visit, and what is before it.
struct Step<'m> {
    node: &'m str,
    last: Option<i64>,
    /// The answer that this node may be a part of.
    open: Option<i64>,
    /// What the model thought before the answer to come, or before its next part.
    reasoning: String,
}

impl<'m> Step<'m> {
    fn root(node: &'m str) -> Self {
        Self { node, last: None, open: None, reasoning: String::new() }
    }
}

/// Adds the node's message, and returns what is before its children.
fn add<'m>(conversation: &mut ForeignConversation, node: &Value, mut step: Step<'m>) -> Step<'m> {
    let message = &node["message"];
    let (content, metadata) = (&message["content"], &message["metadata"]);
    let is_answer = match text(&message["author"], "role") {
        "assistant" => true,
        "user" => false,
        _ => return step,
    };
    if is_answer && text(content, "content_type") == "thoughts" {
        let thoughts = content["thoughts"].as_array().into_iter().flatten();
        let thoughts = thoughts.map(|thought| text(thought, "content"));
        for thought in thoughts.filter(|thought| !thought.is_empty()) {
            if !step.reasoning.is_empty() {
                step.reasoning.push_str("\n\n");
            }
            step.reasoning.push_str(thought);
        }
        return step;
    }
    let is_hidden = metadata["is_visually_hidden_from_conversation"] == true;
    let is_for_all = matches!(text(message, "recipient"), "" | "all");
    let Some(text) = text_of(content).filter(|_| !is_hidden && (is_for_all || !is_answer)) else {
        return step;
    };
    let reasoning = mem::take(&mut step.reasoning);
    if let Some(open) = step.open.filter(|_| is_answer) {
        conversation.go_on(open, &text, &reasoning);
        return step;
    }
    let message = ForeignMessage {
        is_answer,
        text,
        reasoning,
        model: model_name(metadata, "model_slug"),
        at: number(message, "create_time"),
    };
    step.last = conversation.push(step.last, message);
    step.open = step.last.filter(|_| is_answer);
    step
}

/// `None` for what is no text that people read.
fn text_of(content: &Value) -> Option<String> {
    let text = match text(content, "content_type") {
        "text" | "multimodal_text" => {
            let parts = content["parts"].as_array().into_iter().flatten().filter_map(part);
            parts.collect::<Vec<_>>().join("\n\n")
        }
        "code" => {
            let language = Some(text(content, "language")).filter(|name| *name != "unknown");
            format!("```{}\n{}\n```", language.unwrap_or_default(), text(content, "text"))
        }
        _ => return None,
    };
    (!text.trim().is_empty()).then_some(text)
}

fn part(part: &Value) -> Option<String> {
    match part {
        Value::String(text) if text.is_empty() => None,
        Value::String(text) => Some(text.clone()),
        part if text(part, "content_type") == "image_asset_pointer" => Some("[image]".to_owned()),
        part => some_text(part, "text"),
    }
}

/// The custom instructions, or a system message with a text.
fn instructions(node: &Value) -> Option<String> {
    let message = &node["message"];
    let content = &message["content"];
    let all = |texts: [&str; 2]| {
        let texts = texts.into_iter().filter(|text| !text.trim().is_empty());
        Some(texts.collect::<Vec<_>>().join("\n\n")).filter(|text| !text.is_empty())
    };
    if text(content, "content_type") == "user_editable_context" {
        // As the user wrote them, without the sentences that ChatGPT puts around.
        let written = &message["metadata"]["user_context_message_data"];
        return all([text(written, "about_user_message"), text(written, "about_model_message")])
            .or_else(|| all([text(content, "user_profile"), text(content, "user_instructions")]));
    }
    if text(&message["author"], "role") == "system" { text_of(content) } else { None }
}
