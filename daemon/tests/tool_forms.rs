//! Calls in the forms of chat templates, through the built hobd: the bundled model knows none of these,
//! so the grammar alone makes it write them.

use std::fs;

use hob_testkit::Launch;
use serde_json::{Value, json};

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

/// The fake model writes what it is asked to say.
#[test]
fn a_call_of_the_models_own_accord_follows_the_schema() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("hermes.jinja");
    let template = "{# <tool_call> #}{{ tools | length }} tools\n{% for message in messages %}\
        <|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}\
        {{ '<|im_start|>assistant\n' }}";
    fs::write(&path, template).unwrap();
    let hobd = Launch::new(env!("CARGO_BIN_EXE_hobd"), directory.path())
        .args(["--model", "fake", "--chat-template"])
        .args([&path])
        .start();
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
