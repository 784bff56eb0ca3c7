//! Anthropic's Messages API through the built hobd. The fake model writes what it is asked to say, and its
//! chat template shows the variables that it gets behind the last question.

mod cache;
mod errors;
mod files;
mod requests;
mod streams;
mod threads;
mod tools;

use std::fs;

use hob_testkit::{Answer, Call, Hobd, Launch, wait};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::common::merged;

const MESSAGES: &str = "/v1/messages";
const COUNT: &str = "/v1/messages/count_tokens";

const TEMPLATE: &str = "{# <tool_call> #}\
    {% if tools %}<|im_start|>system\n{{ tools | tojson }}<|im_end|>\n{% endif %}\
    {% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content or '' }}\
    {% if loop.last and enable_thinking is defined %}; thinks: {{ enable_thinking }}, \
    budget: {{ thinking_budget }}, effort: {{ reasoning_effort }}{% endif %}<|im_end|>\n{% endfor %}\
    {{ '<|im_start|>assistant\n' }}";

/// A hobd, its directory, and requests to it.
struct World {
    hobd: Hobd,
    launch: Launch,
    _directory: TempDir,
}

impl World {
    fn new() -> Self {
        Self::with(&[])
    }

    /// `flags`: further ones.
    fn with(flags: &[&str]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("own.jinja");
        fs::write(&path, TEMPLATE).unwrap();
        let launch = Launch::new(env!("CARGO_BIN_EXE_hobd"), directory.path())
            .args(["--model", "fake", "--chat-template"])
            .args([&path])
            .args(flags);
        Self { hobd: launch.start(), launch, _directory: directory }
    }

    /// Ends hobd, which saves everything, and starts it again.
    fn restart(&mut self) {
        assert!(self.hobd.process.terminate(wait::PATIENCE).success(), "{}", self.launch.log());
        self.hobd = self.launch.start();
    }

    fn call(&self, path: &str) -> Call {
        self.hobd.client.call("POST", path)
    }

    fn ask(&self, body: &Value) -> Answer {
        self.call(MESSAGES).json(body).send()
    }

    /// The message that answers.
    fn message(&self, body: &Value) -> Value {
        let answer = self.ask(body);
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()
    }

    /// The events of the same request, whose names are their types.
    fn events(&self, body: &Value) -> Vec<Value> {
        let mut body = body.clone();
        body["stream"] = json!(true);
        let mut stream = self.call(MESSAGES).json(&body).stream();
        assert_eq!(stream.status, 200);
        let mut events = Vec::new();
        while let Some((name, event)) = stream.next_named() {
            assert_eq!(event["type"], name.as_str(), "{event}");
            events.push(event);
        }
        events
    }

    fn count(&self, body: &Value) -> u64 {
        let answer = self.call(COUNT).json(body).send();
        assert_eq!(answer.status, 200, "{}", answer.text());
        let counted = answer.json();
        assert_eq!(counted.as_object().unwrap().len(), 1, "{counted}");
        counted["input_tokens"].as_u64().unwrap()
    }

    /// The stored messages of a conversation.
    fn stored(&self, conversation: &str) -> Vec<Value> {
        let path = format!("/v1/conversations/{conversation}");
        self.hobd.client.get(&path)["messages"].as_array().unwrap().clone()
    }
}

fn user(content: Value) -> Value {
    json!({"role": "user", "content": content})
}

/// A request that is answered with `text`. `extra`: further fields.
fn say(text: &str, extra: Value) -> Value {
    with(json!([user(json!(format!("Say this: {text}")))]), extra)
}

fn with(messages: Value, extra: Value) -> Value {
    let body = json!({"model": "any", "max_tokens": 400, "temperature": 0, "messages": messages});
    merged(body, &extra)
}

fn types(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["type"].as_str().unwrap()).collect()
}

/// The error of a refused request.
fn refused(answer: &Answer, status: u16, kind: &str) -> Value {
    assert_eq!(answer.status, status, "{}", answer.text());
    let body = answer.json();
    assert_eq!((&body["type"], &body["error"]["type"]), (&json!("error"), &json!(kind)), "{body}");
    assert_eq!(body["request_id"].as_str(), answer.header("request-id"), "{body}");
    body["error"].clone()
}
