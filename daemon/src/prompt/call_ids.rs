//! The ids of calls where a template writes an id in place of the tool's name: that of Kimi K2.
//!
//! - The model writes `functions.NAME:N` and was trained on that; N counts the calls of the conversation from 0. With
//!   the ids of `hobd` or of the client, the prompt would name no tool, and would differ from what the model wrote.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde_json::Value;

/// The calls of one answer that have one id: clients may take the name of the tool for it.
#[derive(Default)]
struct SameId {
    answer: usize,
    /// Among all calls.
    places: VecDeque<usize>,
}

impl SameId {
    /// The first call without a result, or else the last one.
    fn answered(&mut self, open: &BTreeSet<usize>) -> Option<usize> {
        while self.places.len() > 1 && !open.contains(&self.places[0]) {
            self.places.pop_front();
        }
        self.places.front().copied()
    }
}

/// Numbers the calls of messages in OpenAI's form. A result gets the new id of its call; one that names no call, that of
/// the first call without a result. A history may have a hundred thousand of both: each takes logarithmic time.
pub(super) fn number(messages: &mut [Value]) {
    let mut ids: Vec<String> = Vec::new();
    let mut open: BTreeSet<usize> = BTreeSet::new();
    let mut calls_of: BTreeMap<String, SameId> = BTreeMap::new();
    for (at, message) in messages.iter_mut().enumerate() {
        let Some(message) = message.as_object_mut() else { continue };
        let calls = message.get_mut("tool_calls").and_then(Value::as_array_mut);
        for call in calls.into_iter().flatten().filter_map(Value::as_object_mut) {
            let name = call.get("function").and_then(|function| function["name"].as_str());
            let place = ids.len();
            let id = format!("functions.{}:{place}", name.unwrap_or_default());
            ids.push(id.clone());
            open.insert(place);
            if let Some(Value::String(old)) = call.insert("id".to_owned(), id.into()) {
                let same = calls_of.entry(old).or_default();
                if same.answer != at {
                    *same = SameId { answer: at, places: VecDeque::new() };
                }
                same.places.push_back(place);
            }
        }
        let Some(old) = message.get("tool_call_id").and_then(Value::as_str) else { continue };
        let own = calls_of.get_mut(old).filter(|_| !old.is_empty());
        let own = own.and_then(|same| same.answered(&open));
        let Some(place) = own.or_else(|| open.first().copied()) else { continue };
        open.remove(&place);
        message.insert("tool_call_id".to_owned(), ids[place].clone().into());
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
            called(&[call("look", "look"), call("find", "find"), call("look", "look")]),
            result("look"),
            result("find"),
            result("look"),
            result("look"),
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
            "functions.look:5",
            "functions.find:6",
            "functions.look:7",
            "functions.look:5",
            "functions.find:6",
            "functions.look:7",
            "functions.look:7",
        ];
        assert_eq!(messages.iter().flat_map(ids).collect::<Vec<_>>(), expected);
    }
}
