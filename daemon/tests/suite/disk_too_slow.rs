//! A disk that takes nothing of what must leave a conversation's cells: the turn ends with the reason, and nothing is
//! discarded in its place.

use std::time::Duration;

use serde_json::{Value, json};

use crate::common::{Plan, World, merged, user};

const CHAT: &str = "/v1/chat/completions";

/// Cells of a conversation whose prompt has four times as many tokens, a token a byte.
const BUDGET: u64 = 400;

fn world() -> World {
    let plan = Plan::new().disk_takes_nothing(Duration::from_millis(50));
    plan.learned_prefixes(0).start()
}

fn story() -> String {
    "word ".repeat(320)
}

/// A request whose blocks must leave.
fn long(extra: Value) -> Value {
    let body = json!({"messages": [user(&story())], "hob": {"budget": BUDGET}, "max_tokens": 4});
    merged(body, &extra)
}

#[test]
fn a_turn_ends_with_the_reason_in_the_form_of_each_protocol() {
    let world = world();
    let refused = world.post(CHAT, long(json!({"conversation": "chat"})));
    let error = refused.error();
    let expected = (503, &json!("disk_too_slow"), &json!("overloaded_error"));
    assert_eq!((refused.status, &error["code"], &error["type"]), expected, "{error}");
    assert_eq!(refused.header("retry-after"), Some("1"));
    let message = error["message"].as_str().unwrap();
    assert!(message.contains("free space"), "{message}");

    let messages = json!([user(&story())]);
    let mut extra = long(json!({"conversation": "streamed"}));
    extra.as_object_mut().unwrap().remove("messages");
    let last = world.stream(messages, extra).collect().pop().unwrap();
    assert_eq!(last["error"]["code"], "disk_too_slow", "{last}");

    let refused = world.post("/v1/messages", long(json!({"conversation": "message"})));
    let expected = (529, json!("overloaded_error"));
    assert_eq!((refused.status, refused.json()["error"]["type"].clone()), expected);

    let body = json!({"input": story(), "hob": {"budget": BUDGET}});
    let refused = world.post("/v1/responses", body);
    assert_eq!((refused.status, &refused.error()["code"]), (503, &json!("disk_too_slow")));
}

#[test]
fn nothing_is_discarded_in_its_place_and_other_turns_are_answered() {
    let world = world();
    let refused = world.post(CHAT, long(json!({"conversation": "long"})));
    assert_eq!(refused.status, 503, "{}", refused.text());
    let counters = world.status().counters;
    assert_eq!((counters.dropped_tokens, counters.blocks_out), (0, 0));
    let stored = world.conversation("long");
    assert_eq!(stored["messages"][0]["content"], story(), "its text is stored");

    let answer = world.chat(json!([user("Say this: on")]), json!({"conversation": "short"}));
    assert_eq!(answer["choices"][0]["message"]["content"], "on", "{answer}");
    let private = long(json!({"messages": [user(&"kettle ".repeat(240))],
                              "hob": {"budget": BUDGET, "private": true}}));
    let answer = world.post(CHAT, private);
    assert_eq!(answer.status, 200, "what stays in memory waits for no disk: {}", answer.text());
}

#[test]
fn a_conversation_that_fills_the_cache_ends_in_the_same_way() {
    let plan = Plan::new().disk_takes_nothing(Duration::from_millis(50));
    let world = plan.learned_prefixes(0).context_tokens(512).start();
    let without_budget = json!({"conversation": "chat", "hob": {}});
    let refused = world.post(CHAT, long(without_budget));
    assert_eq!((refused.status, &refused.error()["code"]), (503, &json!("disk_too_slow")));
    assert_eq!(world.status().counters.dropped_tokens, 0);
}
