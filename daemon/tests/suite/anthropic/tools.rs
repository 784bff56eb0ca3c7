//! Tools: offered, called, required, forbidden, answered.

use serde_json::{Value, json};

use crate::common::merged;

use super::{World, say, user, with};

const CALL: &str = "<tool_call>\n{\"name\": \"light\", \"arguments\": {\"room\": \"hall\", \"on\": true}}\n</tool_call>";

fn light() -> Value {
    json!({
        "name": "light", "description": "Switches a light.",
        "input_schema": {
            "type": "object",
            "properties": {"room": {"enum": ["hall", "attic"]}, "on": {"type": "boolean"}},
            "required": ["room", "on"],
        },
    })
}

fn tools(extra: Value) -> Value {
    merged(json!({"tools": [light()]}), &extra)
}

#[test]
fn a_call_is_a_block_behind_the_text() {
    let world = World::new();
    let message = world.message(&say(&format!("So.\n{CALL}"), tools(json!({}))));
    assert_eq!(message["stop_reason"], "tool_use");
    let blocks = message["content"].as_array().unwrap();
    assert_eq!(blocks[0]["text"].as_str().unwrap().trim_end(), "So.");
    let id = blocks[1]["id"].as_str().unwrap();
    let input = json!({"room": "hall", "on": true});
    assert_eq!(blocks[1], json!({"type": "tool_use", "id": id, "name": "light", "input": input}));
    assert_eq!(blocks.len(), 2);
}

#[test]
fn arguments_are_streamed_as_the_model_writes_them() {
    let world = World::new();
    let events = world.events(&say(&format!("So.\n{CALL}\n{CALL}"), tools(json!({}))));
    let starts: Vec<_> =
        events.iter().filter(|event| event["type"] == "content_block_start").collect();
    let kinds: Vec<_> =
        starts.iter().map(|start| start["content_block"]["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["text", "tool_use", "tool_use"]);
    for (index, start) in starts.iter().enumerate() {
        assert_eq!(start["index"], index);
    }
    assert_eq!(starts[1]["content_block"]["input"], json!({}));
    assert_ne!(starts[1]["content_block"]["id"], starts[2]["content_block"]["id"]);
    for index in 1..=2 {
        let of_block = events.iter().filter(|event| event["index"] == index);
        let pieces: Vec<_> =
            of_block.filter_map(|event| event["delta"]["partial_json"].as_str()).collect();
        assert!(pieces.len() > 3, "{pieces:?}");
        let input: Value = serde_json::from_str(&pieces.concat()).unwrap();
        assert_eq!(input, json!({"room": "hall", "on": true}));
    }
    // Each block ends before the next one begins.
    let bounds = events.iter().filter(|event| {
        event["type"].as_str().unwrap().ends_with("_stop")
            || event["type"].as_str().unwrap().ends_with("_start")
    });
    let bounds: Vec<_> = bounds.map(|event| event["type"].as_str().unwrap()).collect();
    assert_eq!(
        bounds,
        [
            "message_start",
            "content_block_start",
            "content_block_stop",
            "content_block_start",
            "content_block_stop",
            "content_block_start",
            "content_block_stop",
            "message_stop",
        ]
    );
    assert_eq!(events[events.len() - 2]["delta"]["stop_reason"], "tool_use");
}

#[test]
fn a_choice_forces_forbids_or_leaves_it_to_the_model() {
    let world = World::new();
    let choose = |text: &str, choice: Value| {
        let message = world.message(&say(text, tools(json!({"tool_choice": choice, "seed": 1}))));
        let kinds = message["content"].as_array().unwrap().iter();
        kinds.map(|block| block["type"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(choose("Hello", json!({"type": "auto"})), ["text"]);
    assert_eq!(choose("Hello", json!({"type": "tool", "name": "light"})), ["tool_use"]);
    let any = choose("Hello", json!({"type": "any", "disable_parallel_tool_use": true}));
    assert_eq!(any, ["tool_use"]);
    assert_eq!(choose(&format!("So. {CALL}"), json!({"type": "none"})), ["text"]);
    let several = choose(&format!("{CALL}\n{CALL}"), json!({"type": "any"}));
    assert_eq!(several, ["tool_use", "tool_use"]);
    let one = choose(
        &format!("{CALL}\n{CALL}"),
        json!({"type": "any", "disable_parallel_tool_use": true}),
    );
    assert_eq!(one, ["tool_use"]);
}

#[test]
fn results_answer_their_calls_and_stand_in_front_of_new_text() {
    let world = World::new();
    let named = json!({"conversation": "c"});
    let first = world.message(&say(CALL, tools(named.clone())));
    let id = first["content"][0]["id"].clone();
    let parts =
        json!([{"type": "text", "text": "The lamp"}, {"type": "text", "text": "is broken"}]);
    let messages = json!([
        user(json!(format!("Say this: {CALL}"))),
        {"role": "assistant", "content": first["content"]},
        user(json!([
            {"type": "text", "text": "Say this: Oh"},
            {"type": "tool_result", "tool_use_id": id, "is_error": true, "content": parts},
        ])),
    ]);
    let second = world.message(&with(messages, tools(named)));
    assert_eq!(second["content"][0]["text"], "Oh");
    assert!(second["usage"]["cache_read_input_tokens"].as_u64().unwrap() > 0, "{second}");
    let stored = world.stored("c");
    let roles: Vec<_> = stored.iter().map(|message| message["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["user", "assistant", "tool", "user", "assistant"]);
    assert_eq!(stored[1]["tool_calls"][0]["id"], id);
    assert_eq!(stored[2]["tool_call_id"], id);
    assert_eq!(stored[2]["content"], "Error: The lamp\nis broken");
    assert_eq!(stored[3]["content"], "Say this: Oh");
}

#[test]
fn a_call_that_the_limit_cuts_has_no_whole_input() {
    let world = World::new();
    let cut = CALL.find("hall").unwrap();
    let message = world.message(&say(CALL, tools(json!({"max_tokens": cut}))));
    assert_eq!(message["stop_reason"], "max_tokens");
    let block = message["content"].as_array().unwrap().last().unwrap();
    assert_eq!((&block["name"], &block["input"]), (&json!("light"), &json!({})));
    let events = world.events(&say(CALL, tools(json!({"max_tokens": cut}))));
    let pieces: String =
        events.iter().filter_map(|event| event["delta"]["partial_json"].as_str()).collect();
    assert!(pieces.starts_with("{\"room\""), "{pieces}");
}

/// A conversation that Anthropic's servers began, with tools that they ran.
#[test]
fn tools_that_another_server_ran_are_read_as_far_as_they_have_text() {
    let world = World::new();
    let text = |text: &str| json!({"type": "text", "text": text, "citations": null});
    let ran = |id: &str| json!({"type": "server_tool_use", "id": id, "name": "web_search", "input": {"query": "lamps"}});
    let result = json!({"type": "web_search_tool_result", "tool_use_id": "s1", "content": [
        {"type": "web_search_result", "title": "Lamps", "url": "http://a", "encrypted_content": "x"}]});
    let sealed = json!({"type": "code_execution_tool_result", "tool_use_id": "s2", "content": []});
    let call = json!({"type": "tool_use", "id": "c1", "name": "light", "input": {}});
    let messages = json!([
        user(json!("Look")),
        {"role": "assistant", "content": [text("I look."), ran("s1"), result, ran("s2"), sealed,
                                          text("It"), text(" is on."), call]},
        user(json!([{"type": "tool_result", "tool_use_id": "c1", "content": "on"}, text("Say this: Well")])),
    ]);
    let hosted =
        json!([{"type": "web_search_20250305", "name": "web_search", "max_uses": 5}, light()]);
    let body = with(messages, json!({"conversation": "c", "tools": hosted}));
    assert_eq!(world.message(&body)["content"][0]["text"], "Well");
    let stored = world.stored("c");
    let said = stored
        .iter()
        .map(|it| (it["role"].as_str().unwrap(), it["content"].as_str().unwrap_or_default()));
    let expected = [
        ("user", "Look"),
        ("assistant", "I look."),
        ("tool", "Lamps\nhttp://a"),
        ("assistant", "It is on."),
        ("tool", "on"),
        ("user", "Say this: Well"),
        ("assistant", "Well"),
    ];
    assert_eq!(said.collect::<Vec<_>>(), expected);
    let called = |n: usize| stored[n]["tool_calls"][0]["function"]["name"].clone();
    assert_eq!((called(1), called(3)), (json!("web_search"), json!("light")));
    assert_eq!(stored[1]["tool_calls"].as_array().map(Vec::len), Some(1));

    let tokens = |tools: Value| world.count(&say("x", json!({"tools": tools})));
    assert_eq!(tokens(hosted), tokens(json!([light()])), "a hosted tool is left out");
}

/// An agent that reads a picture sends it with each later request.
#[test]
fn a_picture_in_a_result_becomes_words() {
    let world = World::new();
    let call = json!({"type": "tool_use", "id": "a", "name": "read", "input": {}});
    let image = json!({"type": "image", "source":
        {"type": "base64", "media_type": "image/png", "data": "aa"}});
    let seen = json!({"type": "text", "text": "Seen:"});
    let result = json!({"type": "tool_result", "tool_use_id": "a", "content": [seen, image]});
    let messages = json!([
        user(json!("Look")), {"role": "assistant", "content": [call]}, user(json!([result])),
    ]);
    world.message(&with(messages, json!({"conversation": "c", "max_tokens": 4})));
    let words = "Seen:\n(The tool returned a picture. This model reads text alone.)";
    assert_eq!(world.stored("c")[2]["content"], words);
}
