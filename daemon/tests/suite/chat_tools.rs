//! Chats with tools that are no functions, and with functions as they were before there were tools.

use serde_json::{Value, json};

use crate::common::{World, chat_body, merged, text, user};
use crate::response_tools::{calling, with_calls};
use crate::responses::say;

const CHAT: &str = "/v1/chat/completions";

/// A text that JSON escapes.
const PATCH: &str = "*** Begin Patch\n+ \"é\" \\ 😀\n*** End Patch\n";

fn patch(extra: Value) -> Value {
    let custom = merged(json!({"name": "patch", "description": "Edits files."}), &extra);
    json!({"type": "custom", "custom": custom})
}

/// The message that answers, and its `finish_reason`.
fn answer(world: &World, messages: Value, extra: Value) -> (Value, Value) {
    let extra = merged(json!({"max_tokens": 400}), &extra);
    let choice = world.chat(messages, extra)["choices"][0].clone();
    (choice["message"].clone(), choice["finish_reason"].clone())
}

/// The `delta`s of the same answer, and the last `finish_reason`.
fn deltas(world: &World, messages: Value, extra: Value) -> (Vec<Value>, Value) {
    let extra = merged(json!({"max_tokens": 400}), &extra);
    let chunks = world.stream(messages, extra).collect();
    let reason = chunks.last().unwrap()["choices"][0]["finish_reason"].clone();
    let deltas = chunks.iter().map(|chunk| chunk["choices"][0]["delta"].clone());
    (deltas.collect(), reason)
}

#[test]
fn a_custom_tool_is_called_with_a_text() {
    let world = with_calls();
    let asked = user(&calling("patch", json!({"input": PATCH})));
    let light = json!({"type": "function", "function": {"name": "light"}});
    let extra = json!({"tools": [light, patch(json!({}))], "conversation": "c"});
    let (message, reason) = answer(&world, json!([asked]), extra.clone());
    assert_eq!(reason, "tool_calls", "{message}");
    let call = &message["tool_calls"][0];
    let custom = json!({"name": "patch", "input": PATCH});
    assert_eq!((&call["type"], &call["custom"]), (&json!("custom"), &custom));
    assert_eq!((call.get("function"), message["tool_calls"].as_array().unwrap().len()), (None, 1));

    let (streamed, reason) = deltas(&world, json!([asked]), extra.clone());
    assert_eq!(reason, "tool_calls");
    let pieces = streamed.iter().filter_map(|delta| delta["tool_calls"].get(0));
    let pieces: Vec<&Value> = pieces.collect();
    let first = pieces[0];
    assert_eq!(
        (&first["type"], &first["custom"]["name"], &first["index"]),
        (&json!("custom"), &json!("patch"), &json!(0))
    );
    let texts = pieces.iter().map(|piece| piece["custom"]["input"].as_str().unwrap());
    assert!(pieces.len() > 2, "they come as the model writes them: {pieces:?}");
    assert_eq!(texts.collect::<String>(), PATCH);

    // The client sends its call back, and the stored one is the same.
    let result = json!({"role": "tool", "tool_call_id": call["id"], "content": "done"});
    let history = json!([asked, message, result, user(&say("Well."))]);
    let follow = world.chat(history, extra);
    assert_eq!(text(&follow), "Well.");
    let stored = world.get("/v1/conversations/c").json()["messages"].clone();
    assert_eq!(
        (&stored[1]["tool_calls"][0]["id"], &stored[2]["content"]),
        (&call["id"], &json!("done"))
    );
}

#[test]
fn a_custom_tool_may_be_forced_and_its_text_follows_a_grammar() {
    let world = with_calls();
    let grammar = json!({"syntax": "regex", "definition": "[0-9]{3}\n[ab]"});
    let code = patch(json!({"format": {"type": "grammar", "grammar": grammar}}));
    let other = json!({"type": "function", "function": {"name": "light"}});
    let named = json!({"type": "custom", "custom": {"name": "patch"}});
    let allowed =
        json!({"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [named]}});
    for choice in [named, allowed] {
        let extra = json!({"tools": [other, code], "tool_choice": choice, "seed": 4,
                           "temperature": 1, "parallel_tool_calls": false});
        let (message, _) = answer(&world, json!([user("Hello")]), extra);
        let input = message["tool_calls"][0]["custom"]["input"].as_str();
        let input = input.unwrap_or_else(|| panic!("{message}"));
        let (digits, letter) = input.split_once('\n').unwrap();
        assert!(digits.len() == 3 && digits.bytes().all(|byte| byte.is_ascii_digit()), "{input}");
        assert!(["a", "b"].contains(&letter), "{input}");
    }
}

#[test]
fn functions_are_the_tools_of_older_clients() {
    let world = with_calls();
    let parameters = json!({"type": "object", "properties": {"room": {"enum": ["hall"]}},
                            "required": ["room"]});
    let light = json!({"name": "light", "description": "Switches.", "parameters": parameters});
    let functions = json!({"functions": [light]});
    let tools = json!({"tools": [{"type": "function", "function": light}]});
    let asked = user(&calling("light", json!({"room": "hall"})));
    let (message, reason) = answer(&world, json!([asked]), functions.clone());
    assert_eq!(reason, "function_call", "{message}");
    let call = &message["function_call"];
    assert_eq!((&call["name"], message.get("tool_calls")), (&json!("light"), None));
    let arguments: Value = serde_json::from_str(call["arguments"].as_str().unwrap()).unwrap();
    assert_eq!(arguments, json!({"room": "hall"}));

    let (streamed, reason) = deltas(&world, json!([asked]), functions.clone());
    assert_eq!(reason, "function_call");
    let part = |name: &str| {
        let parts = streamed.iter().filter_map(|delta| delta["function_call"][name].as_str());
        parts.collect::<String>()
    };
    assert_eq!(
        (part("name"), part("arguments")),
        ("light".to_owned(), call["arguments"].as_str().unwrap().to_owned())
    );
    assert!(streamed.iter().all(|delta| delta.get("tool_calls").is_none()), "{streamed:?}");

    // The model reads the same prompt as that of a client with tools.
    let prompt = |history: Value, extra: &Value| {
        let answer = world.post("/apply-template", chat_body(history, extra.clone())).json();
        answer["prompt"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
    };
    let result = json!({"role": "function", "name": "light", "content": "on"});
    let old = json!([asked, message, result, user(&say("Done."))]);
    let called = json!([{"id": "c1", "type": "function", "function": call}]);
    let new = json!([
        asked,
        {"role": "assistant", "content": null, "tool_calls": called},
        {"role": "tool", "tool_call_id": "c1", "content": "on"},
        user(&say("Done.")),
    ]);
    assert_eq!(prompt(old.clone(), &functions), prompt(new, &tools));
    assert_eq!(answer(&world, old, functions.clone()).0["content"], "Done.");

    let forced = merged(functions.clone(), &json!({"function_call": {"name": "light"}, "seed": 1}));
    assert_eq!(answer(&world, json!([user("Hello")]), forced).1, "function_call");
    let without = merged(functions, &json!({"function_call": "none"}));
    assert_eq!(answer(&world, json!([asked]), without).1, "stop");
    let refused =
        world.post(CHAT, json!({"messages": [asked], "function_call": {"name": "light"}}));
    assert_eq!((refused.status, &refused.error()["param"]), (400, &json!("function_call")));
}

#[test]
fn a_call_that_a_stop_text_has_cut_is_none_to_be_made() {
    let world = with_calls();
    let asked = json!([user(&calling("light", json!({"room": "hall"})))]);
    let parameters = json!({"type": "object", "properties": {"room": {"type": "string"}}});
    let light = json!({"name": "light", "parameters": parameters});
    let tools = json!([{"type": "function", "function": light}]);
    for (stop, arguments, expected) in
        [("all\"", "{\"room\":\"h", "stop"), ("</tool_call>", "{\"room\":\"hall\"}", "tool_calls")]
    {
        let extra = json!({"tools": tools, "stop": [stop]});
        let (message, reason) = answer(&world, asked.clone(), extra.clone());
        assert_eq!(message["tool_calls"][0]["function"]["arguments"], arguments, "{stop}");
        assert_eq!(reason, expected, "{stop}");
        assert_eq!(deltas(&world, asked.clone(), extra).1, expected, "{stop}");
    }
}
