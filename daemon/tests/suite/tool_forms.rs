//! Calls in the forms of chat templates, through the built hobd: the bundled model knows none of these,
//! so the grammar alone makes it write them.

use std::fs;

use hob_testkit::{Hobd, Launch};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::common::merged;

/// What a template of each form has, and of which its form is known. Not gpt-oss's: it may think before,
/// which this model does without an end.
const SHOWN: [(&str, &str); 6] = [
    ("Qwen3-Coder", "<tool_call>\n<function=name>\n<parameter=key>"),
    ("GLM", "<tool_call>name\n<arg_key>"),
    ("LFM2", "List of tools: "),
    ("Gemma 4", "<|tool_call>"),
    ("DeepSeek V3.1", "<｜tool▁call▁begin｜>"),
    ("MiniMax M2", "<minimax:tool_call>"),
];

fn tool() -> Value {
    let parameters = json!({
        "type": "object",
        "properties": {
            "room": {"enum": ["kitchen", "hall"]},
            "level": {"type": "integer", "minimum": 0, "maximum": 9},
            "on": {"type": "boolean"},
        },
        "required": ["room", "level", "on"],
        "additionalProperties": false,
    });
    json!({"type": "function", "function": {"name": "light", "parameters": parameters}})
}

fn assert_fits(call: &Value, form: &str) {
    let function = &call["function"];
    assert_eq!(function["name"], "light", "{form}: {call}");
    let text = function["arguments"].as_str().unwrap();
    let arguments: Value = serde_json::from_str(text).unwrap_or_else(|_| panic!("{form}: {text}"));
    assert_eq!(arguments.as_object().unwrap().len(), 3, "{form}: {text}");
    assert!(["kitchen", "hall"].contains(&arguments["room"].as_str().unwrap()), "{form}: {text}");
    assert!(arguments["level"].as_u64().unwrap() <= 9, "{form}: {text}");
    assert!(arguments["on"].is_boolean(), "{form}: {text}");
}

#[test]
fn a_forced_call_is_written_in_the_form_of_the_template() {
    let model = if cfg!(feature = "llama") { "bundled" } else { "fake" };
    for (form, shown) in SHOWN {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("own.jinja");
        let template = format!(
            "{{# {shown} #}}{{{{ tools | length }}}} tools\n{{% for message in messages %}}\
             {{{{ message.content }}}}{{% endfor %}}"
        );
        fs::write(&path, template).unwrap();
        let hobd = Launch::new(env!("CARGO_BIN_EXE_hobd"), directory.path())
            .args(["--model", model, "--chat-template"])
            .args([&path])
            .start();
        let mut body = json!({
            "messages": [{"role": "user", "content": "Light on"}], "tools": [tool()],
            "tool_choice": {"type": "function", "function": {"name": "light"}},
            "max_tokens": 400, "seed": 1, "logprobs": true,
        });
        let answer = hobd.client.call("POST", "/v1/chat/completions").json(&body).send();
        assert_eq!(answer.status, 200, "{form}: {}", answer.text());
        let choice = answer.json()["choices"][0].clone();
        assert_eq!(choice["finish_reason"], "tool_calls", "{form}: {choice}");
        assert_fits(&choice["message"]["tool_calls"][0], form);
        // The tokens are those of the form, and not of another one.
        let tokens = choice["logprobs"]["content"].as_array().unwrap().iter();
        let written: String = tokens.map(|token| token["token"].as_str().unwrap()).collect();
        assert!(!written.contains("\"arguments\""), "{form}: {written}");

        body["stream"] = json!(true);
        let chunks =
            hobd.client.call("POST", "/v1/chat/completions").json(&body).stream().collect();
        let pieces = chunks.iter().map(|chunk| &chunk["choices"][0]["delta"]["tool_calls"][0]);
        let pieces: Vec<&Value> = pieces.filter(|piece| piece.is_object()).collect();
        let texts = pieces.iter().filter_map(|piece| piece["function"]["arguments"].as_str());
        let function = json!({
            "name": pieces[0]["function"]["name"], "arguments": texts.collect::<String>(),
        });
        assert_fits(&json!({"function": function}), form);
    }
}

/// A hobd whose template has Hermes' form. The fake model writes what it is asked to say.
fn hermes() -> (TempDir, Hobd) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("hermes.jinja");
    let template = "{# <tool_call> #}{{ (tools or []) | length }} tools\n{% for message in messages %}\
        <|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}\
        {{ '<|im_start|>assistant\n' }}";
    fs::write(&path, template).unwrap();
    let hobd = Launch::new(env!("CARGO_BIN_EXE_hobd"), directory.path())
        .args(["--model", "fake", "--chat-template"])
        .args([&path])
        .start();
    (directory, hobd)
}

#[test]
fn a_call_of_the_models_own_accord_follows_the_schema() {
    let (_directory, hobd) = hermes();
    let say = |rooms: Value, call: &str| {
        let parameters = json!({
            "type": "object", "properties": {"room": {"enum": rooms}}, "required": ["room"],
        });
        let tool =
            json!({"type": "function", "function": {"name": "light", "parameters": parameters}});
        let body = json!({
            "messages": [{"role": "user", "content": format!("Say this: {call}")}],
            "tools": [tool], "max_tokens": 200,
        });
        let answer = hobd.client.call("POST", "/v1/chat/completions").json(&body).send();
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()["choices"][0]["message"].clone()
    };
    let call = r#"So. <tool_call>{"name": "light", "arguments": {"room": "attic"}}</tool_call>"#;
    for (rooms, room) in [(json!(["attic", "hall"]), "attic"), (json!(["hall"]), "hall")] {
        let message = say(rooms, call);
        assert!(message["content"].as_str().unwrap().starts_with("So."), "{message}");
        let function = &message["tool_calls"][0]["function"];
        let arguments: Value =
            serde_json::from_str(function["arguments"].as_str().unwrap()).unwrap();
        assert_eq!((&function["name"], arguments), (&json!("light"), json!({"room": room})));
    }
    // A tool that is not offered cannot be called.
    let call = r#"<tool_call>{"name": "lamp", "arguments": {"room": "hall"}}</tool_call>"#;
    assert_eq!(say(json!(["hall"]), call)["tool_calls"][0]["function"]["name"], "light");
    // Text that is no call is what the model wrote.
    let message = say(json!(["hall"]), r#"{"room": "attic"} <tool"#);
    assert_eq!(message["content"], r#"{"room": "attic"} <tool"#);
}

const CALL: &str = "<tool_call>\n{\"name\": \"light\", \"arguments\": \
                    {\"room\": \"hall\", \"level\": 1, \"on\": true}}\n</tool_call>";

/// The choice of an answer to a request that asks the fake model to say `text`.
fn said(hobd: &Hobd, text: &str, extra: Value) -> Value {
    let body = json!({
        "messages": [{"role": "user", "content": format!("Say this: {text}")}],
        "tools": [tool()], "temperature": 0, "max_tokens": 300,
    });
    let mut body = merged(body, &extra);
    let answer = hobd.client.call("POST", "/v1/chat/completions").json(&body).send();
    assert_eq!(answer.status, 200, "{}", answer.text());
    let whole = answer.json()["choices"][0].clone();
    body["stream"] = json!(true);
    let chunks = hobd.client.call("POST", "/v1/chat/completions").json(&body).stream().collect();
    let deltas = chunks.iter().map(|chunk| &chunk["choices"][0]["delta"]["content"]);
    let streamed: String = deltas.filter_map(Value::as_str).collect();
    assert_eq!(streamed, whole["message"]["content"].as_str().unwrap_or_default());
    let last = chunks.last().unwrap();
    assert_eq!(last["choices"][0]["finish_reason"], whole["finish_reason"], "{text}");
    whole
}

#[test]
fn an_answer_with_tools_and_a_form_is_a_call_or_has_the_form() {
    let (_directory, hobd) = hermes();
    let schema = json!({
        "type": "object", "properties": {"mood": {"enum": ["good", "bad"]}}, "required": ["mood"],
    });
    let form = json!({"type": "json_schema", "json_schema": {"name": "n", "schema": schema}});
    let with = |choice: &str| json!({"response_format": form, "tool_choice": choice, "seed": 1});
    let choice = said(&hobd, "{\"mood\": \"bad\"}", with("auto"));
    assert_eq!(choice["message"]["content"], "{\"mood\": \"bad\"}");
    assert_eq!(choice["finish_reason"], "stop");
    // Neither of both is what the model would write.
    let choice = said(&hobd, "Hello, what do you think?", with("auto"));
    match choice["message"]["content"].as_str() {
        Some(content) => {
            let value: Value = serde_json::from_str(content).unwrap();
            assert!(["good", "bad"].contains(&value["mood"].as_str().unwrap()), "{content}");
        }
        None => assert_fits(&choice["message"]["tool_calls"][0], "auto"),
    }
    for choice in ["auto", "required"] {
        let called = said(&hobd, CALL, with(choice));
        assert_eq!(called["finish_reason"], "tool_calls", "{choice}");
        assert_fits(&called["message"]["tool_calls"][0], choice);
    }
    let content = said(&hobd, CALL, with("none"))["message"]["content"].clone();
    assert!(serde_json::from_str::<Value>(content.as_str().unwrap()).is_ok(), "{content}");
}

#[test]
fn marks_of_a_call_that_was_cut_are_no_content() {
    let (_directory, hobd) = hermes();
    let text = format!("So.\n{CALL}\n{CALL}");
    let name_at = text.find("light").unwrap();
    for bytes in 4..name_at {
        let cut = said(&hobd, &text, json!({"max_tokens": bytes}));
        assert_eq!(cut["finish_reason"], "length", "{bytes}");
        let content = cut["message"]["content"].as_str().unwrap_or_default();
        assert_eq!(content.trim_end(), "So.", "{bytes}");
    }
    let stopped = said(&hobd, &text, json!({"stop": "name"}));
    assert_eq!(stopped["message"]["content"].as_str().unwrap().trim_end(), "So.");
    assert_eq!(stopped["finish_reason"], "stop");
    let second = said(&hobd, &format!("{CALL}\n{CALL}"), json!({"max_tokens": CALL.len() + 6}));
    assert_eq!(
        (&second["message"]["content"], &second["finish_reason"]),
        (&json!(null), &json!("length"))
    );
}

#[test]
fn a_call_whose_arguments_a_stop_cuts_is_not_one_to_be_made() {
    let (_directory, hobd) = hermes();
    let one = hobd.client.post("/tokenize", &json!({"content": "1"}))["tokens"][0].clone();
    for stop in [json!({"stop": "1"}), json!({ "stop_token_ids": [one] })] {
        let cut = said(&hobd, CALL, stop.clone());
        assert_eq!(cut["finish_reason"], "stop", "{stop}: {cut}");
        let function = &cut["message"]["tool_calls"][0]["function"];
        let arguments = function["arguments"].as_str().unwrap();
        assert!(arguments.contains("hall") && !arguments.contains('1'), "{stop}: {cut}");
    }
}

#[test]
fn with_tool_choice_none_an_answer_has_no_marks() {
    let (_directory, hobd) = hermes();
    let none = json!({"tool_choice": "none"});
    let choice = said(&hobd, &format!("So. {CALL}"), none.clone());
    assert_eq!(choice["message"]["content"].as_str().unwrap().trim_end(), "So.");
    assert_eq!(
        (&choice["message"]["tool_calls"], &choice["finish_reason"]),
        (&Value::Null, &json!("stop"))
    );
    // Nothing else is left of a call at the beginning, so there is none.
    let choice = said(&hobd, CALL, json!({"tool_choice": "none", "max_tokens": 20}));
    assert!(!choice["message"]["content"].as_str().unwrap().starts_with('<'), "{choice}");
    // Without tools in the prompt there is no call.
    let plain = said(&hobd, CALL, json!({"tools": [], "tool_choice": "none"}));
    assert_eq!(plain["message"]["content"], CALL);
}

#[test]
fn without_parallel_calls_the_answer_ends_behind_its_first() {
    let (_directory, hobd) = hermes();
    let text = format!("So.\n{CALL}\n{CALL}\nDone.");
    let one = json!({"parallel_tool_calls": false});
    let several = said(&hobd, &text, json!({}));
    assert_eq!(several["message"]["tool_calls"].as_array().map(Vec::len), Some(2));
    let choice = said(&hobd, &text, one.clone());
    let calls = choice["message"]["tool_calls"].as_array().unwrap();
    assert_eq!((calls.len(), &choice["finish_reason"]), (1, &json!("tool_calls")), "{choice}");
    assert_fits(&calls[0], "auto");
    assert_eq!(choice["message"]["content"].as_str().unwrap().trim_end(), "So.");
    // Text without a call is free.
    assert_eq!(said(&hobd, "So it is.", one.clone())["message"]["content"], "So it is.");
    // The grammar of the tool cannot be followed, and the answer has one call all the same.
    let parameters = json!({"type": "object", "properties": {"rooms": {"type": "strange"}}});
    let tool = json!({"type": "function", "function": {"name": "light", "parameters": parameters}});
    let mut extra = one;
    extra["tools"] = json!([tool]);
    let choice = said(&hobd, &text, extra);
    assert_eq!(choice["message"]["tool_calls"].as_array().map(Vec::len), Some(1), "{choice}");
}

#[test]
fn a_strict_tool_that_cannot_be_followed_is_refused_also_where_the_model_chooses() {
    let (_directory, hobd) = hermes();
    let named = |name: &str, strict: bool, rooms: Value| {
        let parameters = json!({"type": "object", "properties": {"rooms": rooms}});
        let function = json!({"name": name, "strict": strict, "parameters": parameters});
        json!({"type": "function", "function": function})
    };
    let sets =
        || json!({"type": "array", "items": {"enum": [1]}, "maxItems": 2, "uniqueItems": true});
    let ask = |tools: Value, choice: &str| {
        let messages = json!([{"role": "user", "content": "Say this: Hello"}]);
        let body =
            json!({"messages": messages, "tools": tools, "tool_choice": choice, "max_tokens": 60});
        hobd.client.call("POST", "/v1/chat/completions").json(&body).send()
    };
    let lists = json!({"type": "array", "items": {"enum": [1]}, "maxItems": 2});
    for choice in ["auto", "required"] {
        let refused = ask(json!([named("light", true, sets())]), choice);
        assert_eq!(refused.status, 400, "{choice}: {}", refused.text());
        let error = refused.error();
        assert_eq!((&error["param"], &error["code"]), (&json!("tools"), &json!("grammar")));
        for tool in [named("light", false, sets()), named("light", true, lists.clone())] {
            let answer = ask(json!([tool]), choice);
            assert_eq!(answer.status, 200, "{choice} {tool}: {}", answer.text());
        }
    }
    // A tool that is not strict is offered all the same, and takes no strict one along.
    let strange = named("lamp", false, json!({"type": "strange"}));
    let answer = ask(json!([strange, named("light", true, lists)]), "auto");
    assert_eq!(answer.status, 200, "{}", answer.text());
}

#[test]
fn a_strict_tool_is_followed_beside_one_whose_schema_cannot_be() {
    let (_directory, hobd) = hermes();
    let named = |name: &str, strict: bool, room: Value| {
        let parameters = json!({"type": "object", "properties": {"room": room},
            "required": ["room"], "additionalProperties": false});
        let function = json!({"name": name, "strict": strict, "parameters": parameters});
        json!({"type": "function", "function": function})
    };
    let tools = json!([
        named("lamp", false, json!({"type": "strange"})),
        named("light", true, json!({"enum": ["hall"]})),
    ]);
    for (name, room) in [("light", "hall"), ("lamp", "attic")] {
        let text = format!(
            r#"<tool_call>{{"name": "{name}", "arguments": {{"room": "attic"}}}}</tool_call>"#
        );
        let choice = said(&hobd, &text, json!({ "tools": tools }));
        let function = &choice["message"]["tool_calls"][0]["function"];
        let arguments: Value =
            serde_json::from_str(function["arguments"].as_str().unwrap()).unwrap();
        assert_eq!((&function["name"], arguments), (&json!(name), json!({"room": room})));
    }
}
