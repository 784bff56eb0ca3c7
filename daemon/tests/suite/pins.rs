//! Stored messages that are pinned, and lose their pin.

use std::path::Path;

use hob_testkit::{Hobd, Launch};
use serde_json::{Value, json};

use crate::common::{World, chat_body, merged, text, user};

const BUDGET: u64 = 400;

fn say(world: &World, text: &str, extra: Value) -> Value {
    let body = json!({"conversation": "room", "hob": {"append": true}, "max_tokens": 100});
    world.chat(json!([user(&format!("Say this: {text}"))]), merged(body, &extra))
}

fn change(world: &World, message: u64, body: Value) -> (u16, Value) {
    let path = format!("/v1/conversations/room/messages/{message}");
    let answer = world.call("PATCH", &path).json(&body).send();
    (answer.status, answer.json())
}

fn pin(world: &World, message: u64, is_pinned: bool) {
    let (status, answer) = change(world, message, json!({"hob": {"pin": is_pinned}}));
    assert_eq!(status, 200, "{answer}");
    assert_eq!((&answer["message"], &answer["hob"]["pin"]), (&json!(message), &json!(is_pinned)));
}

/// What the message at this place has in `hob`.
fn label(world: &World, place: usize) -> Value {
    world.conversation("room")["messages"][place]["hob"].clone()
}

#[test]
fn a_stored_message_is_pinned_in_place_and_keeps_the_rest_of_its_label() {
    let world = World::new();
    let named =
        json!({"role": "user", "content": "Say this: first", "hob": {"key": "a.rs", "weight": 80}});
    world.chat(json!([named]), json!({"conversation": "room", "hob": {"append": true}}));
    say(&world, "second", json!({}));
    let before = world.conversation("room");

    pin(&world, 1, true);
    pin(&world, 4, true);
    assert_eq!(label(&world, 0), json!({"key": "a.rs", "weight": 80, "pin": true}));
    assert_eq!(label(&world, 3), json!({"pin": true}));
    let pinned = world.conversation("room");
    assert_eq!(pinned["messages"].as_array().unwrap().len(), 4);
    assert_eq!((&pinned["head"], &pinned["updated_at"]), (&before["head"], &before["updated_at"]));

    pin(&world, 1, false);
    pin(&world, 4, false);
    assert_eq!(world.conversation("room")["messages"], before["messages"]);
    // It is the same text: nothing is computed again.
    pin(&world, 1, true);
    let answer = say(&world, "third", json!({}));
    assert_eq!(answer["hob"]["miss"], Value::Null, "{answer}");
    assert_eq!(label(&world, 0)["pin"], true);
}

#[test]
fn a_pin_of_a_wrong_type_or_with_another_change_is_refused() {
    let world = World::new();
    say(&world, "first", json!({}));
    for (body, param) in [
        (json!({"hob": {"pin": "yes"}}), "hob.pin"),
        (json!({"hob": {}}), "hob.pin"),
        (json!({"hob": {"weight": 80}}), "hob.weight"),
        (json!({"hob": true}), "hob"),
        (json!({"content": "x", "hob": {"pin": true}}), "hob"),
        (json!({}), "content"),
    ] {
        let (status, answer) = change(&world, 1, body.clone());
        assert_eq!((status, &answer["error"]["param"]), (400, &json!(param)), "{body}: {answer}");
    }
    let (status, answer) = change(&world, 99, json!({"hob": {"pin": true}}));
    assert_eq!((status, &answer["error"]["code"]), (404, &json!("message_not_found")));
    assert_eq!(label(&world, 0), Value::Null);
}

#[test]
fn a_pinned_answer_keeps_its_pin_when_it_goes_on() {
    let world = World::new();
    say(&world, "one two three four five six seven", json!({"max_tokens": 7}));
    pin(&world, 2, true);
    let hob = json!({"append": true, "continue": true});
    let body = json!({"conversation": "room", "hob": hob, "max_tokens": 100});
    let answer = world.chat(json!([]), body);
    assert_eq!(text(&answer), "one two three four five six seven");
    let stored = world.conversation("room")["messages"][1].clone();
    assert_eq!(stored["content"], "one two three four five six seven");
    assert_eq!((&stored["status"], &stored["hob"]), (&json!("complete"), &json!({"pin": true})));
}

#[test]
fn a_message_of_a_private_conversation_is_pinned_in_memory() {
    let world = World::new();
    let extra = json!({"conversation": "secret", "hob": {"append": true, "private": true}});
    world.chat(json!([user("Say this: x")]), extra);
    let path = "/v1/conversations/secret/messages/1";
    let answer = world.call("PATCH", path).json(&json!({"hob": {"pin": true}})).send();
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(world.conversation("secret")["messages"][0]["hob"]["pin"], true);
}

#[test]
fn a_stored_message_that_is_pinned_after_it_left_its_cells_comes_back_with_the_next_append() {
    let directory = tempfile::tempdir().unwrap();
    let hobd = start(directory.path());
    let append = |message: Value| {
        let extra = json!({"conversation": "chat", "hob": {"append": true, "budget": BUDGET}});
        hobd.client.chat(&chat_body(json!([message]), extra))
    };
    let is_it = |answer: &Value, way: &str| {
        let moved = answer["hob"]["moved"].as_array().unwrap();
        moved.iter().any(|it| it["way"] == way && it["key"] == "it")
    };
    let answers: Vec<Value> = (0..14)
        .map(|n| {
            let text = format!("Statement {n}: there are {} of them in all.", n * 7919);
            let label = if n == 2 { json!({"key": "it", "weight": 0}) } else { json!({}) };
            append(json!({"role": "user", "content": text, "hob": label}))
        })
        .collect();
    assert!(answers.iter().any(|answer| is_it(answer, "out")), "{answers:?}");

    let stored = hobd.client.get("/v1/conversations/chat");
    let messages = stored["messages"].as_array().unwrap();
    let it = messages.iter().find(|message| message["hob"]["key"] == "it").unwrap();
    let path = format!("/v1/conversations/chat/messages/{}", it["id"]);
    hobd.client.patch(&path, &json!({"hob": {"pin": true}}));
    // It shares no word with the statement.
    let answer = append(user("Thank you"));
    assert!(is_it(&answer, "back"), "{answer}");
    assert!(answer["hob"]["cells"]["peak"].as_u64().unwrap() <= BUDGET, "{answer}");
}

fn start(directory: &Path) -> Hobd {
    let launch = Launch::new(env!("CARGO_BIN_EXE_hobd"), directory);
    launch.args(["--model", "fake", "--ctx", "4096", "--slots", "2"]).start()
}
