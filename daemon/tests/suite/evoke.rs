//! EVOKE's fields of a request, which label its newest messages.

use serde_json::{Value, json};

use crate::budget::{BUDGET, moved, start};
use crate::common::{chat_body, merged};
use crate::labels::left_in;

#[test]
fn the_fields_of_a_request_are_stored_with_its_messages_alone() {
    let directory = tempfile::tempdir().unwrap();
    let hobd = start(directory.path());
    let say = |text: &str, fields: Value| {
        let extra = json!({"conversation": "chat", "hob": {"append": true}});
        let messages = json!([{"role": "user", "content": text}]);
        hobd.client.chat(&chat_body(messages, merged(extra, &fields)));
    };
    say("fn main() {}", json!({"evoke_priority": 1.5, "evoke_pinned": true}));
    say("Thanks", json!({}));
    let stored = hobd.client.get("/v1/conversations/chat");
    let messages = stored["messages"].as_array().unwrap();
    let labels: Vec<&Value> = messages.iter().map(|message| &message["hob"]).collect();
    let label = json!({"weight": 75, "pin": true});
    assert_eq!(labels, [&label, &Value::Null, &Value::Null, &Value::Null]);
}

#[test]
fn what_a_pinned_request_says_stays_in_the_cells() {
    for (fields, stays) in [(json!({"evoke_pinned": true}), true), (json!({}), false)] {
        let directory = tempfile::tempdir().unwrap();
        let hobd = start(directory.path());
        let say = |n: usize| {
            let text = format!("Statement {n}: there are {} of them in all.", n * 7919);
            let message = json!({"role": "user", "content": text});
            let extra = json!({"conversation": "chat", "hob": {"append": true, "budget": BUDGET}});
            let (message, extra) = match n {
                2 => {
                    let label = json!({"hob": {"key": "it", "weight": 0}});
                    (merged(message, &label), merged(extra, &fields))
                }
                _ => (message, extra),
            };
            hobd.client.chat(&chat_body(json!([message]), extra))
        };
        let answers: Vec<Value> = (0..14).map(say).collect();
        assert!(moved(&answers, "out").len() > 4, "{fields}: {answers:?}");
        assert_eq!(left_in(&answers, "it").is_none(), stays, "{fields}: {answers:?}");
    }
}

#[test]
fn evoke_s_session_names_a_conversation_where_nothing_else_does() {
    let directory = tempfile::tempdir().unwrap();
    let hobd = start(directory.path());
    let ask = |extra: Value| {
        let body = chat_body(json!([{"role": "user", "content": "Hello"}]), extra);
        let call = hobd.client.call("POST", "/v1/chat/completions");
        call.header("X-Evoke-Session", "acme/keep").json(&body).send().json()["hob"].clone()
    };
    assert_eq!(ask(json!({}))["conversation"], "acme/keep");
    assert_eq!(ask(json!({"conversation": "chat"}))["conversation"], "chat");
    assert_eq!(ask(json!({"prompt_cache_key": "app"}))["cache_key"], "conv:app");
}
