//! The calls of a streamed answer: pieces of arguments in, whole calls out, because Ollama's arguments are objects.

use serde_json::{Value, json};

use crate::chat::assembly::begins_call;
use crate::wire::message::{CallMade, Message};

/// Collects the pieces of one call at a time.
#[derive(Default)]
pub struct Calls {
    open: Option<OpenCall>,
    count: usize,
}

struct OpenCall {
    id: String,
    name: String,
    arguments: String,
}

impl Calls {
    /// Takes a piece in OpenAI's form of streamed calls. Begin a call after [`Self::finish`].
    pub fn push(&mut self, piece: &Value) {
        let text = |pointer| piece.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        if begins_call(piece) {
            let (id, name) = (text("/id").to_owned(), text("/function/name").to_owned());
            self.open = Some(OpenCall { id, name, arguments: String::new() });
        }
        if let Some(open) = &mut self.open {
            open.arguments.push_str(text("/function/arguments"));
        }
    }

    /// The call that is over, in Ollama's form; `None` without one, and for one that was cut.
    pub fn finish(&mut self) -> Option<Value> {
        let OpenCall { id, name, arguments } = self.open.take()?;
        let call = call(self.count, &id, &name, &arguments)?;
        self.count += 1;
        Some(call)
    }
}

/// The calls of a whole message, without those that were cut.
pub fn of_message(message: &Message) -> Vec<Value> {
    let mut whole = Vec::new();
    for CallMade { id, name, arguments } in message.calls_made() {
        whole.extend(call(whole.len(), id, name, arguments));
    }
    whole
}

fn call(index: usize, id: &str, name: &str, arguments: &str) -> Option<Value> {
    let arguments = match arguments.trim() {
        "" => json!({}),
        text => serde_json::from_str(text).ok().filter(Value::is_object)?,
    };
    Some(json!({"id": id, "function": {"index": index, "name": name, "arguments": arguments}}))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_become_one_call() {
        let mut calls = Calls::default();
        calls.push(&json!({"index": 0, "id": "c1", "type": "function",
            "function": {"name": "f", "arguments": ""}}));
        for piece in ["{\"a\"", ": 1}"] {
            calls.push(&json!({"index": 0, "function": {"arguments": piece}}));
        }
        let function = json!({"index": 0, "name": "f", "arguments": {"a": 1}});
        assert_eq!(calls.finish(), Some(json!({"id": "c1", "function": function})));
        assert_eq!(calls.finish(), None);
    }

    #[test]
    fn a_call_that_was_cut_is_left_out() {
        let cut = json!({"id": "c", "function": {"name": "f", "arguments": "{\"a\""}});
        let bare = json!({"id": "d", "function": {"name": "g", "arguments": ""}});
        let said = json!({"role": "assistant", "content": null, "tool_calls": [cut, bare]});
        let calls = of_message(&Message::parse(&said, "message").unwrap());
        let expected = json!([{"id": "d", "function": {"index": 0, "name": "g", "arguments": {}}}]);
        assert_eq!(Value::from(calls), expected);
    }
}
