//! Open WebUI's export: an array of chats, each with its messages as a tree.
//!
//! - `chat.history.messages` has them by id, with `parentId` and `childrenIds`; `currentId` is the last
//!   one that was shown. Older chats have `chat.messages` only.
//! - What the model thought stands in front of an answer, in `<details type="reasoning">`.

use std::collections::{BTreeMap, HashMap, HashSet};

use serde_json::{Map, Value};

use super::Source;
use super::conversation::{ForeignConversation, ForeignMessage, split_reasoning};
use super::fields::{model_name, number, some_text, text};

/// `None` if it is no chat of Open WebUI.
pub fn conversation(value: &Value) -> Option<ForeignConversation> {
    // One chat may stand without the row of the database around it.
    let chat = value.get("chat").unwrap_or(value);
    let history = chat.get("history").and_then(|history| history.get("messages"));
    let list = chat.get("messages").and_then(Value::as_array);
    if history.is_none() && (list.is_none() || value.get("chat").is_none()) {
        return None;
    }
    let system = [text(&chat["params"], "system"), text(chat, "system")];
    let system = system.into_iter().find(|text| !text.is_empty()).unwrap_or_default();
    let times = [value, chat];
    let time = |names: [&str; 2]| {
        times.iter().find_map(|of| names.iter().find_map(|name| number(of, name)))
    };
    let mut conversation = ForeignConversation {
        id: some_text(value, "id").or_else(|| some_text(chat, "id")),
        title: some_text(value, "title").or_else(|| some_text(chat, "title")),
        created_at: time(["created_at", "timestamp"]),
        updated_at: time(["updated_at", "timestamp"]),
        pinned: value["pinned"] == true,
        ..ForeignConversation::new(Source::OpenWebUi, system)
    };
    match history.and_then(Value::as_object) {
        Some(messages) if !messages.is_empty() => {
            let added = add_tree(&mut conversation, messages);
            conversation.head = added.get(text(&chat["history"], "currentId")).copied().flatten();
        }
        _ => {
            let mut last = None;
            for message in list.into_iter().flatten() {
                last = add(&mut conversation, last, message);
            }
        }
    }
    Some(conversation)
}

/// The last message at or before each node.
fn add_tree<'m>(
    conversation: &mut ForeignConversation,
    messages: &'m Map<String, Value>,
) -> HashMap<&'m str, Option<i64>> {
    let children = children_of(messages);
    let mut added = HashMap::new();
    let mut visited = HashSet::new();
    let mut stack: Vec<(&str, Option<i64>)> = Vec::new();
    let roots = children.get("").into_iter().flatten().rev();
    stack.extend(roots.map(|root| (*root, None)));
    while let Some((id, before)) = stack.pop() {
        let Some(message) = messages.get(id).filter(|_| visited.insert(id)) else { continue };
        let last = add(conversation, before, message);
        added.insert(id, last);
        let next = children.get(id).into_iter().flatten().rev();
        stack.extend(next.map(|child| (*child, last)));
    }
    added
}

/// By parent, `""` for the roots; in the order of `childrenIds`, and then of their times.
fn children_of(messages: &Map<String, Value>) -> HashMap<&str, Vec<&str>> {
    let mut listed: HashMap<(&str, &str), usize> = HashMap::new();
    for (id, message) in messages {
        let ids = message["childrenIds"].as_array().into_iter().flatten().filter_map(Value::as_str);
        listed.extend(ids.enumerate().map(|(at, child)| ((id.as_str(), child), at)));
    }
    let mut sorted: BTreeMap<(&str, usize, i64, &str), ()> = BTreeMap::new();
    for (id, message) in messages {
        let parent =
            Some(text(message, "parentId")).filter(|parent| messages.contains_key(*parent));
        let parent = parent.unwrap_or_default();
        let at = listed.get(&(parent, id.as_str())).copied().unwrap_or(usize::MAX);
        let time = message["timestamp"].as_i64().unwrap_or(0);
        sorted.insert((parent, at, time, id), ());
    }
    let mut children: HashMap<&str, Vec<&str>> = HashMap::new();
    for (parent, _, _, id) in sorted.into_keys() {
        children.entry(parent).or_default().push(id);
    }
    children
}

fn add(
    conversation: &mut ForeignConversation,
    before: Option<i64>,
    message: &Value,
) -> Option<i64> {
    let is_answer = match text(message, "role") {
        "assistant" => true,
        "user" => false,
        _ => return before,
    };
    let written = content(&message["content"]);
    let (reasoning, text) =
        if is_answer { without_details(&written) } else { (String::new(), written) };
    let model = model_name(message, "model").or_else(|| model_name(message, "modelName"));
    conversation.push(
        before,
        ForeignMessage { is_answer, text, reasoning, model, at: number(message, "timestamp") },
    )
}

/// A text, or the texts of a list of parts.
fn content(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        parts => {
            let parts = parts.as_array().into_iter().flatten().map(|part| text(part, "text"));
            parts.filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n\n")
        }
    }
}

/// What the model thought, and the answer without it and without calls of tools. The time is linear in the text: the
/// file may be hostile.
fn without_details(written: &str) -> (String, String) {
    const CLOSE: &str = "</details>";
    let (mut reasoning, mut rest) = split_reasoning(written);
    for kind in ["reasoning", "tool_calls", "code_interpreter"] {
        let open = format!("<details type=\"{kind}\"");
        let (mut kept, mut unread) = (String::with_capacity(rest.len()), rest.as_str());
        while let Some(begin) = unread.find(&open)
            && let Some(length) = unread[begin..].find(CLOSE)
        {
            let end = begin + length;
            if kind == "reasoning" {
                let inner = &unread[begin..end];
                let inner = inner.split_once("</summary>").map_or("", |(_, inner)| inner);
                let lines = inner.trim().lines().map(|line| {
                    let line = line.trim_start_matches("&gt;").trim_start_matches('>');
                    line.strip_prefix(' ').unwrap_or(line)
                });
                if !reasoning.is_empty() {
                    reasoning.push_str("\n\n");
                }
                reasoning.push_str(&lines.collect::<Vec<_>>().join("\n"));
            }
            kept.push_str(&unread[..begin]);
            unread = &unread[end + CLOSE.len()..];
        }
        kept.push_str(unread);
        rest = kept;
    }
    (reasoning, rest)
}
