//! The ids of calls where a template writes an id in place of the tool's name: that of Kimi K2.
//!
//! - The model writes `functions.NAME:N` and was trained on that; N counts the calls of the conversation from 0. With
//!   the ids of `hobd` or of the client, the prompt would name no tool, and would differ from what the model wrote.

use std::collections::{BTreeMap, VecDeque};

use serde_json::Value;

/// Numbers the calls of messages in OpenAI's form. A result gets the new id of its call; one that names no call, that of
/// the first call without a result.
pub(super) fn number(messages: &mut [Value]) {
    let mut new: BTreeMap<String, String> = BTreeMap::new();
    let mut open: VecDeque<String> = VecDeque::new();
    let mut count = 0_usize;
    for message in messages.iter_mut().filter_map(Value::as_object_mut) {
        let calls = message.get_mut("tool_calls").and_then(Value::as_array_mut);
        for call in calls.into_iter().flatten().filter_map(Value::as_object_mut) {
            let name = call.get("function").and_then(|function| function["name"].as_str());
            let id = format!("functions.{}:{count}", name.unwrap_or_default());
            count += 1;
            open.push_back(id.clone());
            if let Some(Value::String(old)) = call.insert("id".to_owned(), id.clone().into()) {
                new.insert(old, id);
            }
        }
        let Some(old) = message.get("tool_call_id").and_then(Value::as_str) else { continue };
        let own = new.get(old).filter(|_| !old.is_empty());
        if let Some(id) = own.or(open.front()).cloned() {
            open.retain(|other| *other != id);
            message.insert("tool_call_id".to_owned(), id.into());
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn calls_are_counted_and_results_name_theirs() {
        let call = |id: &str, name: &str| json!({"id": id, "function": {"name": name}});
        let called = |calls: &[Value]| json!({"role": "assistant", "tool_calls": calls});
        let result = |id: &str| json!({"role": "tool", "tool_call_id": id, "content": "x"});
        let mut messages = [
            json!({"role": "user", "content": "Look"}),
            called(&[call("a", "look"), call("b", "find")]),
            result("b"),
            result("a"),
            called(&[call("a", "look"), call("", "find"), call("", "look")]),
            result("a"),
            result(""),
            result("lost"),
            result("more"),
        ];
        number(&mut messages);
        let ids = |message: &Value| {
            let calls = message["tool_calls"].as_array().into_iter().flatten();
            let of_calls = calls.map(|call| call["id"].as_str().unwrap().to_owned());
            let of_result = message["tool_call_id"].as_str().map(str::to_owned);
            of_calls.chain(of_result).collect::<Vec<_>>()
        };
        let expected = [
            "functions.look:0",
            "functions.find:1",
            "functions.find:1",
            "functions.look:0",
            "functions.look:2",
            "functions.find:3",
            "functions.look:4",
            "functions.look:2",
            "functions.find:3",
            "functions.look:4",
            "more",
        ];
        assert_eq!(messages.iter().flat_map(ids).collect::<Vec<_>>(), expected);
    }
}
