//! The setting `chat_template`, through the built hobd, and templates that take all that they can get:
//! that is an error of the one request.

use std::fs;
use std::path::{Path, PathBuf};

use hob_testkit::Launch;
#[cfg(target_os = "linux")]
use hob_testkit::{Hobd, Process, Signal, wait};
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

/// Templates that render a greeting, and take all memory for another word.
fn hostile() -> [(&'static str, String); 3] {
    let on =
        |word: &str| format!("{{% if messages[-1].content == 'Attack' %}}{word}{{% endif %}}fine");
    let doubled = "{% set ns = namespace(x='x' * 1000) %}{% for i in range(60) %}{% set ns.x = ns.x ~ \
                   ns.x %}{% endfor %}";
    let lists = "{% set ns = namespace(x=[1, 2]) %}{% for i in range(60) %}{% set ns.x = ns.x + ns.x \
                 %}{% endfor %}{{ ns.x | length }}";
    let replaced = "{% set ns = namespace(x='x' * 1000) %}{% for i in range(9) %}{% set ns.x = \
                    ns.x.replace('x', 'x' * 1000) %}{% endfor %}";
    [("doubled", doubled), ("lists", lists), ("replaced", replaced)]
        .map(|(name, text)| (name, on(text)))
}

#[test]
fn a_template_that_takes_all_memory_is_an_error_of_the_one_request() {
    for (name, source) in hostile() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("own.jinja");
        fs::write(&path, source).unwrap();
        let hobd = launch(directory.path(), "fake", &path).start();
        let say = |text: &str| {
            let body = json!({"messages": [{"role": "user", "content": text}], "max_tokens": 4});
            hobd.client.call("POST", "/v1/chat/completions").json(&body).send()
        };
        for _ in 0..2 {
            assert_eq!(say("Hello").status, 200, "{name}");
            let refused = say("Attack");
            let text = refused.text();
            assert_eq!(refused.status, 400, "{name}: {text}");
            assert!(text.contains("1024 MiB of memory"), "{name}: {text}");
        }
        assert_eq!(say("Hello").status, 200, "{name}");
    }
}

/// Each of the 90,000 rounds reads 8 MB, so no processor is done after 10 s; it has far fewer steps than it may.
const SLOW: &str = "{% set ns = namespace(x='x' * 1000) %}{% for i in range(13) %}{% set ns.x = ns.x ~ ns.x %}\
                    {% endfor %}{% for i in range(90000) %}{% set y = ns.x.replace('y', 'z') %}{% endfor %}";

#[test]
fn a_template_that_takes_too_long_is_ended_and_not_tried_with_another_form() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("own.jinja");
    let source = format!(
        "{{% if messages | length > 1 and messages[0].content == 'Attack' %}}{SLOW}{{% endif %}}fine"
    );
    fs::write(&path, source).unwrap();
    let hobd = launch(directory.path(), "fake", &path).start();
    let say = |texts: &[&str]| {
        let said = |text: &&str| json!({"role": "user", "content": text});
        let messages: Vec<Value> = texts.iter().map(said).collect();
        let body = json!({"messages": messages, "max_tokens": 4});
        hobd.client.call("POST", "/v1/chat/completions").json(&body).send()
    };
    // In the form in which the user speaks once, these words take no time.
    assert_eq!(say(&["Attack\n\nAttack"]).status, 200);
    let refused = say(&["Attack", "Attack"]);
    let text = refused.text();
    assert_eq!(refused.status, 400, "{text}");
    assert!(text.contains("not rendered after 10 s"), "{text}");
    assert_eq!(say(&["Hello", "Hello"]).status, 200);
}

/// The states and ids of hobd's children whose command line contains `word`. That of a zombie is empty.
#[cfg(target_os = "linux")]
fn children(hobd: &Hobd, word: &str) -> Vec<(char, u32)> {
    let parent = hobd.process.id().to_string();
    let child = |pid: u32| {
        let read = |file: &str| fs::read_to_string(format!("/proc/{pid}/{file}")).ok();
        let stat = read("stat")?;
        let mut behind_name = stat.rsplit(')').next()?.split_whitespace();
        let state = behind_name.next()?.chars().next()?;
        let is_child = behind_name.next()? == parent && read("cmdline")?.contains(word);
        is_child.then_some((state, pid))
    };
    let entries = fs::read_dir("/proc").unwrap();
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    pids.filter_map(child).collect()
}

#[cfg(target_os = "linux")]
#[test]
fn no_dead_process_of_a_template_stays() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("own.jinja");
    fs::write(&path, TEMPLATE).unwrap();
    // One process has tried the template, and one renders.
    let hobd = launch(directory.path(), "fake", &path).start();
    wait::until("no child of hobd is dead", || {
        children(&hobd, "").iter().all(|(state, _)| *state != 'Z').then_some(())
    });
}

#[cfg(target_os = "linux")]
#[test]
fn the_process_that_renders_outlives_the_thread_that_started_it() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("own.jinja");
    fs::write(&path, TEMPLATE).unwrap();
    let hobd = launch(directory.path(), "fake", &path).start();
    let render = || {
        let body = json!({"messages": [{"role": "user", "content": "Hi"}]});
        assert_eq!(hobd.client.call("POST", "/apply-template").json(&body).send().status, 200);
        children(&hobd, "--render-templates")[0].1
    };
    let first = render();
    Process::signal(first, Signal::KILL);
    let second = render();
    assert_ne!(first, second, "a thread of a pool has started another");
    wait::until("the threads of the pool have ended, 10 s later", || {
        let threads = fs::read_dir(format!("/proc/{}/task", hobd.process.id())).unwrap();
        let names = threads.map(|it| fs::read_to_string(it.unwrap().path().join("comm")));
        names.flatten().all(|name| name.trim() != "hob-compute").then_some(())
    });
    assert_eq!(render(), second);
}

#[cfg(target_os = "linux")]
#[test]
fn a_prompt_whose_process_the_system_ends_twice_may_be_sent_again() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("own.jinja");
    let source = format!("{{% if messages[0].content == 'Attack' %}}{SLOW}{{% endif %}}fine");
    fs::write(&path, source).unwrap();
    let hobd = launch(directory.path(), "fake", &path).start();
    let say = |text: &str| {
        let body = json!({"messages": [{"role": "user", "content": text}], "max_tokens": 4});
        hobd.client.call("POST", "/v1/chat/completions").json(&body).send()
    };
    assert_eq!(say("Hello").status, 200);
    let first = children(&hobd, "--render-templates")[0].1;
    let refused = std::thread::scope(|scope| {
        let asked = scope.spawn(|| say("Attack"));
        Process::signal(first, Signal::KILL);
        let second = wait::until("another process renders", || {
            let mut renders = children(&hobd, "--render-templates").into_iter().map(|(_, pid)| pid);
            renders.find(|pid| *pid != first)
        });
        Process::signal(second, Signal::KILL);
        asked.join().unwrap()
    });
    assert_eq!(refused.status, 503, "{}", refused.text());
    assert_eq!(refused.error()["code"], "template_process");
    assert_eq!(refused.header("retry-after"), Some("1"));
    assert_eq!(say("Hello").status, 200);
}

#[test]
fn a_template_that_is_nested_too_deep_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("own.jinja");
    fs::write(&path, format!("{{{{ {}1 }}}}", "not ".repeat(200_000))).unwrap();
    let output = launch(directory.path(), "fake", &path).command().args(ANY_PORT).output().unwrap();
    let refused = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{refused}");
    assert!(refused.contains("64 MiB of stack"), "{refused}");
}
