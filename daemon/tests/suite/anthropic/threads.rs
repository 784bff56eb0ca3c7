//! `thread`: what the server holds, the client leaves out.

use hob_testkit::wait;
use serde_json::{Value, json};

use crate::common::merged;

use super::{MESSAGES, World, refused, say, user, with};

const CALL: &str =
    "<tool_call>\n{\"name\": \"light\", \"arguments\": {\"room\": \"hall\"}}\n</tool_call>";

fn tools() -> Value {
    let schema = json!({"type": "object", "properties": {"room": {"type": "string"}}});
    json!([{"name": "light", "input_schema": schema}])
}

fn create() -> Value {
    json!({"system": "Be brief.", "tools": tools(), "thread": {"type": "create"}})
}

fn after(message: &Value) -> Value {
    json!({"thread": {"type": "continue", "previous_message_id": message["id"]}})
}

/// The tokens of the prompt, and those of them that were read.
fn prompt(message: &Value) -> (u64, u64) {
    let usage = &message["usage"];
    let number = |name: &str| usage[name].as_u64().unwrap();
    let read = number("cache_read_input_tokens");
    (read + number("cache_creation_input_tokens") + number("input_tokens"), read)
}

#[test]
fn a_thread_goes_on_with_new_messages_alone() {
    let mut world = World::new();
    let called = world.message(&say(CALL, create()));
    let call = &called["content"][0];
    assert_eq!((&call["type"], &call["name"]), (&json!("tool_use"), &json!("light")), "{called}");

    let result = json!({"type": "tool_result", "tool_use_id": call["id"], "content": "It is on."});
    let text = json!({"type": "text", "text": "Say this: Done"});
    let new = user(json!([result, text]));
    let answer = world.message(&with(json!([new]), after(&called)));
    assert_eq!(answer["content"], json!([{"type": "text", "text": "Done"}]));

    // The prompt is that of the whole history, with the system prompt and the tools.
    let asked = user(json!(format!("Say this: {CALL}")));
    let replied = json!({"role": "assistant", "content": called["content"]});
    let mut whole = create();
    whole.as_object_mut().unwrap().remove("thread");
    let counted = world.count(&with(json!([asked, replied, new]), whole));
    let (tokens, read) = prompt(&answer);
    assert_eq!(tokens, counted);
    assert!(read >= prompt(&called).0, "{answer}");
    assert_eq!(world.count(&with(json!([new]), after(&called))), counted);

    world.restart();
    let again = world.message(&say("Bye", after(&answer)));
    assert_eq!(again["content"][0]["text"], "Bye");
    assert!(prompt(&again).1 >= tokens, "{again}");
    // A call of the thread's tools is still read as one.
    let called = world.message(&say(CALL, after(&again)));
    assert_eq!(called["stop_reason"], "tool_use");
}

#[test]
fn a_message_is_continued_twice_on_branches() {
    let world = World::new();
    let first = world.message(&say("One", create()));
    let short = |text: &str| world.message(&say(text, after(&first)));
    let (two, three) = (short("Two"), short("Three"));
    assert_eq!(prompt(&two).0 + 2, prompt(&three).0, "neither has read the other");
    let events = world.events(&say("Four", after(&two)));
    let id = &events[0]["message"]["id"];
    assert!(id.as_str().unwrap().starts_with("msg_"), "{id}");
    let fifth = world.message(&say("Five", after(&json!({"id": id}))));
    assert_eq!(fifth["content"][0]["text"], "Five");
}

#[test]
fn a_thread_has_its_tools_behind_an_answer_that_its_client_left() {
    let world = World::new();
    let first = world.message(&say("One", create()));
    let slow = format!("Say this slowly: {}", "and so on ".repeat(150)); // 15 s.
    let more = json!({"stream": true, "max_tokens": 2000});
    let body = with(json!([user(json!(slow))]), merged(after(&first), &more));
    let mut stream = world.call(MESSAGES).json(&body).stream();
    let begun = loop {
        let (name, event) = stream.next_named().unwrap();
        if name == "message_start" {
            break event["message"].clone();
        }
    };
    drop(stream);
    let conversation = begun["hob"]["conversation"].as_str().unwrap();
    wait::until("the answer has ended", || {
        let last = world.stored(conversation).pop()?;
        (last["status"] == "interrupted").then_some(())
    });
    let called = world.message(&say(CALL, after(&begun)));
    assert_eq!(called["stop_reason"], "tool_use", "{called}");
}

#[test]
fn a_thread_has_its_system_prompt_behind_a_response_with_instructions() {
    let world = World::new();
    let first = world.message(&say("One", create()));
    let previous = first["id"].as_str().unwrap().replacen("msg", "resp", 1);
    let body = json!({"input": "Say this: Two", "instructions": "In French.", "temperature": 0,
        "previous_response_id": previous});
    let response = world.call("/v1/responses").json(&body).send().json();
    assert_eq!(response["output"][0]["content"][0]["text"], "Two", "{response}");
    let id = response["id"].as_str().unwrap().replacen("resp", "msg", 1);
    let third = say("Three", after(&json!({"id": id})));

    let asked = |text: &str| user(json!(format!("Say this: {text}")));
    let replied = |text: &str| json!({"role": "assistant", "content": text});
    let history =
        json!([asked("One"), replied("One"), asked("Two"), replied("Two"), asked("Three")]);
    let mut whole = create();
    whole.as_object_mut().unwrap().remove("thread");
    assert_eq!(world.count(&third), world.count(&with(history, whole)));
    assert_eq!(world.message(&third)["content"][0]["text"], "Three");
}

#[test]
fn what_cannot_be_continued_is_refused_by_its_code() {
    let world = World::new();
    let message = world.message(&say("One", create()));
    let with_more = |more: Value| merged(after(&message), &more);
    for id in ["msg_1", "msg_99_conv_unknown", "other"] {
        let asked = say("Two", after(&json!({"id": id})));
        let error = refused(&world.ask(&asked), 404, "not_found_error");
        assert_eq!(error["details"]["error_code"], "thread_not_found");
    }
    let kept = world.message(&say("One", json!({})));
    let error = refused(&world.ask(&say("Two", after(&kept))), 404, "not_found_error");
    assert_eq!(error["details"]["error_code"], "thread_not_found", "it was not stored");
    for (extra, code) in [
        (with_more(json!({"system": "Be long."})), json!("thread_fingerprint_mismatch")),
        (with_more(json!({"tools": tools()})), json!("thread_fingerprint_mismatch")),
        (with_more(json!({"store": false})), json!("thread_unsupported_request")),
        (with_more(json!({"conversation": "c"})), Value::Null),
        (json!({"thread": {"type": "fork"}}), Value::Null),
        (json!({"thread": {"type": "continue"}}), Value::Null),
    ] {
        let error = refused(&world.ask(&say("Two", extra.clone())), 400, "invalid_request_error");
        assert_eq!(error["details"]["error_code"], code, "{extra}");
    }
}
