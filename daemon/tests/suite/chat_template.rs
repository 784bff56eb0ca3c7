//! The setting `chat_template`, through the built hobd: what prompts a template writes, and messages that it does not
//! take as they are.

mod processes;

use std::fs;
use std::path::{Path, PathBuf};

use hob_testkit::Launch;
use serde_json::{Value, json};

use crate::common::home::until_warm;

const TEMPLATE: &str = "{% for message in messages %}[{{ message.role }}] {{ message.content }}\n\
    {% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}";

const ANY_PORT: [&str; 2] = ["--listen", "127.0.0.1:0"];

fn launch(directory: &Path, model: &str, template: &Path) -> Launch {
    Launch::new(env!("CARGO_BIN_EXE_hobd"), directory)
        .args(["--model", model, "--chat-template"])
        .args([template])
}

fn models() -> Vec<&'static str> {
    let mut models = vec!["fake"];
    if cfg!(feature = "llama") {
        models.push("bundled");
    }
    models
}

#[test]
fn prompts_are_written_by_the_template_of_the_settings() {
    for model in models() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("own.jinja");
        fs::write(&path, TEMPLATE).unwrap();
        let hobd = launch(directory.path(), model, &path).start();
        let body = json!({"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 4});
        let shown = hobd.client.call("POST", "/apply-template").json(&body).send().json();
        assert_eq!(shown["prompt"], "[user] Hi\n[assistant]", "{model}");
        let answer = hobd.client.call("POST", "/v1/chat/completions").json(&body).send();
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
}

#[test]
fn tools_and_variables_of_the_request_are_in_the_prompt_that_is_shown() {
    let template = "{% for tool in tools or [] %}<{{ tool.function.name }}>{% endfor %}{{ mood or 'calm' }}: \
                    {{ messages[-1].content }}";
    for model in models() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("own.jinja");
        fs::write(&path, template).unwrap();
        let hobd = launch(directory.path(), model, &path).start();
        let tool = json!({"type": "function", "function": {"name": "look_up", "parameters": {"type": "object"}}});
        let mut body = json!({"messages": [{"role": "user", "content": "Hi"}], "tools": [tool]});
        let shown = |body: &Value| {
            let answer = hobd.client.call("POST", "/apply-template").json(body).send();
            answer.json()["prompt"].clone()
        };
        assert_eq!(shown(&body), "<look_up>calm: Hi", "{model}");
        body["chat_template_kwargs"] = json!({"mood": "glad"});
        assert_eq!(shown(&body), "<look_up>glad: Hi", "{model}");
    }
}

#[test]
fn a_function_without_parameters_is_written_as_one_that_has_none() {
    // As the templates of Hermes and Command R read functions.
    let template = "{% for tool in tools or [] %}{% set function = tool.function %}\
                    {{ function.name + ': ' + function.description }}(\
                    {% for name, field in function.parameters.properties | items %}{{ name }}{% endfor %})\
                    {% endfor %} {{ messages[-1].content }}";
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("own.jinja");
    fs::write(&path, template).unwrap();
    let hobd = launch(directory.path(), "fake", &path).start();
    for function in [
        json!({"name": "look"}),
        json!({"name": "look", "description": null, "parameters": null}),
        json!({"name": "look", "description": "", "parameters": {"properties": {}}}),
    ] {
        let tool = json!({"type": "function", "function": function});
        let body = json!({"messages": [{"role": "user", "content": "Hi"}], "tools": [tool]});
        let shown = hobd.client.call("POST", "/apply-template").json(&body).send();
        assert_eq!(shown.json()["prompt"], "look: () Hi", "{body}");
    }
}

/// A template after that of a family of models.
fn template_of(family: &str) -> PathBuf {
    let templates = "../runtime/tests/suite/templates";
    Path::new(env!("CARGO_MANIFEST_DIR")).join(templates).join(format!("{family}.jinja"))
}

/// The prompt of these messages in a hobd with this template, which also answers them.
fn prompt_of(template: &Path, messages: &Value) -> Value {
    let directory = tempfile::tempdir().unwrap();
    let hobd = launch(directory.path(), "fake", template).start();
    let body = json!({"messages": messages, "max_tokens": 4});
    let answer = hobd.client.call("POST", "/v1/chat/completions").json(&body).send();
    assert_eq!(answer.status, 200, "{}", answer.text());
    let shown = hobd.client.call("POST", "/apply-template").json(&body).send();
    shown.json()["prompt"].clone()
}

#[test]
fn instructions_stand_where_the_template_takes_them() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("own.jinja");
    let said = |role: &str, text: &str| json!({"role": role, "content": text});
    let messages = json!([
        said("system", "Be brief."),
        said("developer", "Be kind."),
        said("user", "Hi"),
        said("assistant", "Hello"),
        said("developer", "Be funny."),
        said("user", "Bye"),
    ]);
    fs::write(&path, TEMPLATE).unwrap();
    let as_sent = "[system] Be brief.\n[system] Be kind.\n[user] Hi\n[assistant] Hello\n\
                   [system] Be funny.\n[user] Bye\n[assistant]";
    assert_eq!(prompt_of(&path, &messages), as_sent);
    // As the template of Qwen 3.5 does.
    let strict = "{% for message in messages %}{% if message.role == 'system' and not loop.first %}\
                  {{ raise_exception('System message must be at the beginning.') }}{% endif %}{% endfor %}";
    fs::write(&path, format!("{strict}{TEMPLATE}")).unwrap();
    let in_front = "[system] Be brief.\n\nBe kind.\n[user] Hi\n[assistant] Hello\n\
                    [user] <system-reminder>\nBe funny.\n</system-reminder>\n[user] Bye\n[assistant]";
    assert_eq!(prompt_of(&path, &messages), in_front);
}

/// Codex sends the user's surroundings in a message of their own, Claude Code its reminders behind results.
#[test]
fn the_user_speaks_once_between_answers_where_the_template_wants_that() {
    let mistral = template_of("mistral");
    let call = json!({"id": "call00001", "type": "function",
                      "function": {"name": "light", "arguments": "{}"}});
    let messages = json!([
        {"role": "user", "content": "It is noon."},
        {"role": "user", "content": "Light on"},
        {"role": "assistant", "content": null, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call00001", "content": "on"},
        {"role": "user", "content": "Go on"},
    ]);
    let prompt = prompt_of(&mistral, &messages);
    let prompt = prompt.as_str().unwrap();
    assert!(prompt.contains("[INST] It is noon.\n\nLight on[/INST]"), "{prompt}");
    assert!(prompt.contains("{\"content\": on\n\nGo on, \"call_id\""), "{prompt}");
    // No form of these is what the template takes: its own words say why.
    let directory = tempfile::tempdir().unwrap();
    let hobd = launch(directory.path(), "fake", &mistral).start();
    let answers = json!([
        {"role": "assistant", "content": "Hello"},
        {"role": "user", "content": "Well"},
    ]);
    let body = json!({"messages": answers, "max_tokens": 4});
    let refused = hobd.client.call("POST", "/v1/chat/completions").json(&body).send();
    assert_eq!(refused.status, 400, "{}", refused.text());
    assert_eq!(refused.error()["code"], "template");
    assert!(refused.text().contains("Roles must alternate"), "{}", refused.text());
}

/// As the template of Gemma 2 does, which knows no instructions.
const ALTERNATING: &str = "{% if messages[0].role == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}\
    {% for message in messages %}{% if (message.role == 'user') != (loop.index0 % 2 == 0) %}\
    {{ raise_exception('Conversation roles must alternate') }}{% endif %}{% endfor %}";

#[test]
fn instructions_and_answers_join_where_the_template_has_no_place_for_them() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("own.jinja");
    fs::write(&path, format!("{ALTERNATING}{TEMPLATE}")).unwrap();
    let said = |role: &str, text: &str| json!({"role": role, "content": text});
    let mut messages = vec![said("system", "Be brief."), said("user", "Hi")];
    let prompt = prompt_of(&path, &json!(messages));
    assert_eq!(prompt, "[user] Be brief.\n\nHi\n[assistant]");
    messages.extend([said("assistant", "Hello"), said("assistant", "Friend"), said("user", "Bye")]);
    let prompt = prompt_of(&path, &json!(messages));
    let expected = "[user] Be brief.\n\nHi\n[assistant] Hello\n\nFriend\n[user] Bye\n[assistant]";
    assert_eq!(prompt, expected);
    let alone = json!([
        said("user", "Hi"),
        said("assistant", "Hello"),
        said("assistant", "Friend"),
        said("user", "Bye")
    ]);
    let expected = "[user] Hi\n[assistant] Hello\n\nFriend\n[user] Bye\n[assistant]";
    assert_eq!(prompt_of(&path, &alone), expected);
}

#[test]
fn the_prefix_of_a_profile_begins_its_conversations_where_the_template_takes_no_instructions() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("own.jinja");
    fs::write(&path, format!("{ALTERNATING}{TEMPLATE}")).unwrap();
    let profiles = directory.path().join("profiles");
    fs::create_dir(&profiles).unwrap();
    let rules =
        "[[segment]]\nlayer = 'rules'\nkey = 'tone'\ntext = 'Speak like a spider, softly.'\n";
    fs::write(profiles.join("spider.toml"), rules).unwrap();
    let launch = launch(directory.path(), "fake", &path);
    let hobd = launch.args(["--profiles-dir"]).args([&profiles]).start();
    let prefix = until_warm(&hobd.client, "spider")["tokens"].as_u64().unwrap();
    let own = json!([{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hi"}]);
    for messages in [json!([{"role": "user", "content": "Hi"}]), own] {
        let answer = hobd.client.chat(&json!({"messages": messages, "max_tokens": 4,
                                              "hob": {"profile": "spider"}}));
        let shared = answer["hob"]["tokens"]["shared"].as_u64();
        assert!(shared >= Some(prefix), "{prefix} of {answer}");
    }
    let text = "[user] Speak like a spider, softly.";
    assert!(prefix >= text.len() as u64, "{prefix} tokens");
}

/// A conversation that another model began.
#[test]
fn ids_of_calls_are_as_long_as_the_template_wants_them() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("own.jinja");
    let template = "{% for message in messages %}{% for call in message.tool_calls or [] %}{% if call.id|length != 9 \
                    %}{{ raise_exception('Tool call IDs should have length 9!') }}{% endif %}<{{ call.id }}>\
                    {% endfor %}{% if message.role == 'tool' %}({{ message.tool_call_id }}){% endif %}\
                    {{ message.content }}{% endfor %}";
    fs::write(&path, template).unwrap();
    let talk = |id: &str| {
        let call = json!({"id": id, "type": "function",
                          "function": {"name": "light", "arguments": "{}"}});
        json!([
            {"role": "user", "content": "Light on"},
            {"role": "assistant", "content": "So.", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": id, "content": "on"},
        ])
    };
    assert_eq!(prompt_of(&path, &talk("a1B2c3D4e")), "Light on<a1B2c3D4e>So.(a1B2c3D4e)on");
    let long = talk("call_cc57a5c5119867016966954a");
    assert_eq!(prompt_of(&path, &long), "Light on<call00001>So.(call00001)on");
}

/// Mistral's template does not count an answer with calls as one: the user would speak twice.
#[test]
fn a_call_that_was_cut_is_text_where_the_template_has_no_place_for_it() {
    let call = json!({"id": "call00001", "type": "function",
                      "function": {"name": "light", "arguments": "{\"room\": \"ki"}});
    let messages = json!([
        {"role": "user", "content": "Light on"},
        {"role": "assistant", "content": null, "tool_calls": [call]},
        {"role": "user", "content": "Well?"},
    ]);
    let prompt = prompt_of(&template_of("mistral"), &messages);
    let prompt = prompt.as_str().unwrap();
    assert!(prompt.contains("[INST] Light on[/INST] light {\"room\": \"ki"), "{prompt}");
    assert!(prompt.contains("[INST] Well?[/INST]"), "{prompt}");
}

/// Llama 3 writes several calls in a row, and its template takes one a message.
#[test]
fn calls_stand_in_messages_of_their_own_where_the_template_wants_that() {
    let call = |id: &str, room: &str| {
        json!({"id": id, "type": "function", "function":
            {"name": "light", "arguments": format!("{{\"room\": \"{room}\"}}")}})
    };
    let result =
        |id: &str, text: &str| json!({"role": "tool", "tool_call_id": id, "content": text});
    let messages = json!([
        {"role": "user", "content": "It is dark."},
        {"role": "user", "content": "Lights on"},
        {"role": "assistant", "content": null, "tool_calls": [call("a", "hall"), call("b", "attic")]},
        result("a", "on"),
        result("b", "broken"),
    ]);
    let prompt = prompt_of(&template_of("llama3"), &messages);
    let prompt = prompt.as_str().unwrap();
    let turn = |role: &str, text: &str| {
        format!("<|start_header_id|>{role}<|end_header_id|>\n\n{text}<|eot_id|>")
    };
    let called = |room: &str| {
        let text = format!("{{\"name\": \"light\", \"parameters\": {{\"room\": \"{room}\"}}}}");
        turn("assistant", &text)
    };
    let expected = [
        turn("user", "It is dark."),
        turn("user", "Lights on"), // The template takes these as they are.
        called("hall"),
        turn("ipython", "\"on\""),
        called("attic"),
        turn("ipython", "\"broken\""),
    ];
    assert!(prompt.contains(&expected.concat()), "{prompt}");
}

#[test]
fn a_template_that_cannot_be_used_is_named_at_the_start() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("own.jinja");
    let refusal = || {
        let output =
            launch(directory.path(), "fake", &path).command().args(ANY_PORT).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        String::from_utf8(output.stderr).unwrap()
    };
    let missing = refusal();
    assert!(missing.contains("own.jinja as chat_template: correct"), "{missing}");
    fs::write(&path, "a\n{% if %}").unwrap();
    let wrong = refusal();
    assert!(wrong.contains("own.jinja") && wrong.contains("line 2"), "{wrong}");
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    let directory = refusal();
    assert!(directory.contains("it is not a file"), "{directory}");
}
