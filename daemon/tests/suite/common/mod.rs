//! A daemon in the test process ([`world`]), opened as hobd opens it, with the fake model and a free
//! port; [`plan`] has its settings. [`home`]: a directory for built hobds whose clock a test moves.
//! [`socket`]: a client of `/v1/realtime/events`. [`recognizer`]: commands that stand for one. [`chance`]: random
//! numbers.

#![cfg_attr(not(feature = "llama"), allow(dead_code, reason = "tests on llama.cpp use it"))]

pub mod chance;
pub mod home;
pub mod plan;
pub mod recognizer;
pub mod socket;
pub mod world;

pub use hob_testkit::{Answer, Call};
pub use plan::{KV_BYTES_PER_TOKEN, Plan, model};
use serde_json::{Value, json};
pub use world::{TOKEN, World};

/// An object with these fields too, in place of its own of the same names.
pub fn merged(mut object: Value, fields: &Value) -> Value {
    for (name, value) in fields.as_object().expect("fields are an object") {
        object[name] = value.clone();
    }
    object
}

pub fn chat_body(messages: Value, extra: Value) -> Value {
    merged(json!({"messages": messages, "temperature": 0, "max_tokens": 8}), &extra)
}

pub fn user(text: &str) -> Value {
    json!({"role": "user", "content": text})
}

pub fn assistant(text: &str) -> Value {
    json!({"role": "assistant", "content": text})
}

/// The text of a complete answer.
pub fn text(answer: &Value) -> String {
    answer["choices"][0]["message"]["content"].as_str().unwrap().to_owned()
}

/// The messages of a conversation.
pub fn roles_and_texts(conversation: &Value) -> Vec<(String, String)> {
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let messages = conversation["messages"].as_array().unwrap();
    messages.iter().map(|m| (word(&m["role"]), word(&m["content"]))).collect()
}

/// The tokens of the prompt that the answer computed.
pub fn computed(answer: &Value) -> u64 {
    answer["hob"]["tokens"]["computed"].as_u64().unwrap()
}
