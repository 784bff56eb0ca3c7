//! KV that was computed while parts of its conversation were away is of that conversation alone. On the fake
//! backend, where an answer shows all that its tokens attended to.

use std::path::Path;

use hob_testkit::{Client, Launch, wait};
use serde_json::{Value, json};

use crate::common::{chat_body, computed, merged, text, user};

/// Cells of the conversation whose parts leave.
const BUDGET: u64 = 400;

const QUESTION: &str = "Go on.";

fn launch(directory: &Path) -> Launch {
    let launch = Launch::new(env!("CARGO_BIN_EXE_hobd"), directory);
    launch.args(["--model", "fake", "--ctx", "4096", "--slots", "2"])
}

/// A turn of the conversation with the budget.
fn say(client: &Client, said: &str, extra: &Value) -> Value {
    let hob = json!({"append": true, "budget": BUDGET});
    let body = chat_body(json!([user(said)]), json!({"conversation": "chat", "hob": hob}));
    client.chat(&merged(body, extra))
}

/// An answer of eight letters to the messages, with all cells.
fn ask(client: &Client, conversation: Option<&str>, messages: &Value) -> Value {
    let extra = json!({"conversation": conversation, "ignore_eos": true});
    client.chat(&chat_body(messages.clone(), extra))
}

/// The tokens of the prompt that were not computed.
fn reused(answer: &Value) -> u64 {
    answer["usage"]["prompt_tokens"].as_u64().unwrap() - computed(answer)
}

#[test]
fn no_other_conversation_uses_kv_that_did_not_see_everything() {
    let directory = tempfile::tempdir().unwrap();
    let mut hobd = launch(directory.path()).start();
    for n in 0..12 {
        let statement = format!("Say this: statement {n} is about number {} alone", n * 7919);
        say(&hobd.client, &statement, &json!({"max_tokens": 80}));
    }
    let stored = hobd.client.get("/v1/conversations/chat");
    let mut messages: Vec<Value> = stored["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|message| json!({"role": message["role"], "content": message["content"]}))
        .collect();
    messages.push(user(QUESTION));
    let messages = json!(messages);
    let own = say(&hobd.client, QUESTION, &json!({"ignore_eos": true}));
    assert!(reused(&own) > 2 * BUDGET, "it uses its own KV: {own}");

    // A hobd that has read the same text once, and all of it.
    let elsewhere = tempfile::tempdir().unwrap();
    let alone = launch(elsewhere.path()).start();
    let expected = ask(&alone.client, Some("alone"), &messages);
    assert!(expected["usage"]["prompt_tokens"].as_u64().unwrap() > 2 * BUDGET, "{expected}");
    assert_ne!(text(&own), text(&expected), "what was away matters: {own}");

    // Beside the conversation's cells, and then from its files.
    let beside = ask(&hobd.client, None, &messages);
    hobd.process.terminate(wait::PATIENCE);
    let hobd = launch(directory.path()).start();
    let restored = ask(&hobd.client, Some("other"), &messages);
    for answer in [&beside, &restored] {
        assert_eq!(text(answer), text(&expected), "{answer}");
        assert_eq!(answer["hob"]["tokens"]["away"], 0, "{answer}");
        // What was read before the first part left.
        assert!(reused(answer) <= BUDGET, "{answer}");
    }
    assert!(reused(&restored) > BUDGET / 2, "{restored}");
}
