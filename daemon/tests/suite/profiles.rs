//! Profiles over HTTP: the prefix of a chat, and its KV that conversations share.

use std::fs;

use hob_daemon::profiles::ChangeKind;
use hob_prewarm::ProfileName;
use hob_slots::Token;
use hob_testkit::{Answer, Hobd, Launch, asset};
use serde_json::{Value, json};

use crate::common::{Plan, World, merged, user};

#[test]
fn the_first_request_of_each_profile_begins_with_its_prefix() {
    let world = world(&[("short", SHORT), ("lights", LIGHTS)]);
    let examples = asset("profiles");
    for name in ["voice.toml", "voice.tools.json"] {
        fs::copy(examples.join(name), world.directory.join("profiles").join(name)).unwrap();
    }
    world.reload();
    for name in ["short", "lights", "voice"] {
        let prefix = world.parts.profiles.prefix_tokens(&named(name)).unwrap();
        let id = format!("first-{name}");
        let body = json!({"conversation": id, "hob": {"profile": name}, "max_tokens": 1});
        world.chat(json!([user("Is it dark?")]), body);
        let real = world.timeline(&id);
        assert!(prefix.len() > 60 && real.starts_with(&prefix), "{name}");
        let rest = spelled(&real[prefix.len()..]);
        assert!(
            rest.starts_with("Is it dark?"),
            "{name}: only the question may follow the prefix: {rest}"
        );
    }
}

#[test]
fn two_rooms_share_the_prefix_of_their_profile() {
    let world = world(&[("lights", LIGHTS)]);
    let prefix = world.parts.profiles.prefix_tokens(&named("lights")).unwrap().len() as u64;
    let ask = |room: &str, question: &str| {
        let body = json!({"conversation": room, "hob": {"profile": "lights"}});
        world.chat(json!([user(question)]), body)["hob"]["tokens"].clone()
    };
    assert_eq!(ask("kitchen", "Light on")["shared"], 0);
    let second = ask("hall", "Is it dark?");
    assert_eq!(second["shared"].as_u64(), Some(prefix), "{second}");
}

#[test]
fn a_broken_profile_names_each_of_its_files_once_however_often_it_is_read() {
    let world = world(&[]);
    let segment = |file: &str| format!("[[segment]]\nlayer = 'rules'\nfile = '{file}'\n\n");
    world.profile("broken", &(segment("missing.md") + &segment("absent.md")));
    for _ in 0..3 {
        world.reload();
    }
    let files = world.parts.profiles.files();
    assert_eq!(files.len(), 3, "its own and two others: {files:?}");
}

#[test]
fn a_profile_is_named_with_each_request_and_is_no_part_of_the_transcript() {
    let world = world(&[("lights", LIGHTS)]);
    let with = |extra: Value| json!({"conversation": "a", "hob": merged(json!({"profile": "lights"}), &extra)});
    let first = world.chat(json!([user("Light on")]), with(json!({})));
    let second = world.chat(json!([user("And off")]), with(json!({"append": true})));
    let messages = world.conversation("a")["messages"].as_array().unwrap().len();
    assert_eq!(messages, 4, "two questions and their answers");
    let known = first["usage"]["total_tokens"].as_u64().unwrap();
    assert!(second["hob"]["tokens"]["shared"].as_u64().unwrap() + 1 >= known, "{second}");
}

#[test]
fn a_clients_own_system_message_and_tools_stand_behind_the_profiles() {
    let world = world(&[("lights", LIGHTS)]);
    let prefix = world.parts.profiles.prefix_tokens(&named("lights")).unwrap();
    let own_tool = json!({"type": "function", "function": {"name": "own_tool"}});
    let body = json!({"conversation": "a", "hob": {"profile": "lights"},
        "tools": [set_light(), own_tool], "max_tokens": 1});
    let system = json!({"role": "system", "content": "Speak French."});
    world.chat(json!([system, user("Hi")]), body);
    let text = spelled(&world.timeline("a"));
    assert_eq!(text.matches("set_light").count(), 1, "{text}");
    assert!(text.find("set_light") < text.find("own_tool"), "{text}");
    assert!(text.contains("You are Ember.\n\nSpeak French."), "{text}");
    assert!(spelled(&prefix).contains("set_light"));
}

#[test]
fn an_invalid_profile_field_is_named() {
    let world = world(&[("lights", LIGHTS), ("broken", "[[segment]]\nlayer = 'axioms'\n")]);
    let other = json!({"type": "function", "function": {"name": "set_light"}});
    for (extra, param, code, expected) in [
        (
            json!({"hob": {"profile": "nobody"}}),
            "hob.profile",
            "profile_not_found",
            "broken, lights",
        ),
        (json!({"hob": {"profile": "broken"}}), "hob.profile", "profile_broken", "segment 1"),
        (json!({"hob": {"profile": "a/b"}}), "hob.profile", "invalid_value", "letters"),
        (json!({"hob": {"profile": 7}}), "hob.profile", "invalid_type", "string"),
        (
            json!({"hob": {"profile": "lights"}, "tools": [other]}),
            "tools[0].function.name",
            "invalid_value",
            "another tool",
        ),
    ] {
        let answer = world
            .post("/v1/chat/completions", crate::common::chat_body(json!([user("Hi")]), extra));
        let error = answer.error();
        assert_eq!(
            (answer.status, &error["param"], &error["code"]),
            (400, &json!(param), &json!(code))
        );
        assert!(error["message"].as_str().unwrap().contains(expected), "{error}");
    }
}

#[test]
fn the_default_profile_applies_to_requests_that_name_none() {
    let directory = tempfile::tempdir().unwrap();
    let profiles = directory.path().join(".config/hob/profiles");
    let file = profiles.join("default.toml");
    fs::create_dir_all(&profiles).unwrap();
    fs::write(&file, "[[segment]]\nlayer = 'identity'\ntext = 'You are Ember.'\n").unwrap();
    let launch = Launch::new(env!("CARGO_BIN_EXE_hobd"), directory.path());
    let launch = launch.args(["--model", "fake"]);
    let ask = |hobd: &Hobd, extra: Value| {
        let body = crate::common::chat_body(json!([user("Hi")]), extra);
        hobd.client.call("POST", "/v1/chat/completions").json(&body).send()
    };
    let tokens = |answer: Answer| {
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()["usage"]["prompt_tokens"].as_u64().unwrap()
    };
    let none = || json!({"hob": {"profile": "none"}});
    {
        let hobd = launch.start();
        let with = tokens(ask(&hobd, json!({})));
        assert_eq!(with, tokens(ask(&hobd, json!({"hob": {"profile": "default"}}))));
        assert!(with >= tokens(ask(&hobd, none())) + "You are Ember.".len() as u64);
    }
    fs::write(&file, "[[segment").unwrap();
    let hobd = launch.start();
    let refused = ask(&hobd, json!({}));
    assert_eq!((refused.status, &refused.error()["code"]), (400, &json!("profile_broken")));
    let message = refused.error()["message"].as_str().unwrap().to_owned();
    for words in [file.to_str().unwrap(), "line 1", "name no profile", "\"none\""] {
        assert!(message.contains(words), "{words}: {message}");
    }
    tokens(ask(&hobd, none()));
    let row = hobd.client.get("/v1/status")["profiles"][0].clone();
    assert_eq!(row["name"], "default");
    assert!(row["error"].as_str().unwrap().contains("line 1"), "{row}");
}

#[test]
fn a_forced_call_may_name_a_tool_of_the_profile() {
    let world = world(&[("lights", LIGHTS)]);
    let choice = json!({"type": "function", "function": {"name": "set_light"}});
    let body = json!({"hob": {"profile": "lights"}, "tool_choice": choice, "max_tokens": 60});
    world.chat(json!([user("Light on")]), body);
}

#[test]
fn a_profile_that_breaks_keeps_its_last_good_version_and_reports_the_error() {
    let world = world(&[("lights", LIGHTS)]);
    let before = world.parts.profiles.prefix_tokens(&named("lights")).unwrap();

    world.profile("lights", "[[segment]]\nlayer = 'iden");
    assert_eq!(world.reload(), []);
    assert_eq!(world.parts.profiles.prefix_tokens(&named("lights")).unwrap(), before);
    let shown = world.profiles();
    assert!(shown[0].error.as_ref().unwrap().contains("line 2"), "{shown:?}");
    assert_eq!(shown[0].tokens, Some(before.len()));
    let status = &world.get("/v1/status").json()["profiles"][0];
    assert_eq!((&status["name"], &status["tokens"]), (&json!("lights"), &json!(before.len())));
    assert_eq!(status["prefix"], json!(["identity:ember", "capabilities:file:lights.json"]));
    assert!(status["error"].as_str().unwrap().contains("line 2"), "{status}");

    world.profile("lights", &LIGHTS.replace("Ember", "Ash"));
    let changes = world.reload();
    assert_eq!(changes[0].kind, ChangeKind::Changed { segment: "ember".to_owned() });
    assert_ne!(world.parts.profiles.prefix_tokens(&named("lights")).unwrap(), before);
    assert_eq!(world.profiles()[0].error, None);
}

#[test]
fn a_tail_that_changes_is_read_and_leaves_the_prefix_as_it_was() {
    let tail = "[[segment]]\nlayer = 'context'\nfile = 'now.txt'\nstable = false\n";
    let world = world(&[]);
    let now = world.directory.join("profiles/now.txt");
    fs::write(&now, "It is noon.").unwrap();
    world.profile("lights", &format!("{LIGHTS}{tail}"));
    world.reload();
    let before = world.parts.profiles.prefix_tokens(&named("lights")).unwrap();

    fs::write(&now, "It is night.").unwrap();
    assert_eq!(world.reload(), []);
    assert_eq!(world.parts.profiles.prefix_tokens(&named("lights")).unwrap(), before);
    let body = json!({"conversation": "a", "hob": {"profile": "lights"}, "max_tokens": 1});
    world.chat(json!([user("Hi")]), body);
    let real = world.timeline("a");
    assert!(real.starts_with(&before) && spelled(&real).contains("It is night."));
    fs::write(&now, "").unwrap();
    world.reload();
    let without = world.parts.profiles.prefix_tokens(&named("lights")).unwrap();
    assert_ne!(without, before, "the prefix of a profile with an empty tail is rebuilt");
}

#[test]
fn a_reload_returns_new_and_removed_profiles_only() {
    let world = world(&[("lights", LIGHTS), ("short", SHORT)]);
    assert_eq!(world.reload(), []);
    fs::remove_file(world.directory.join("profiles/short.toml")).unwrap();
    world.profile("new", SHORT);
    world.profile("lights", &format!("ttl = 'kept'\n{LIGHTS}"));
    let changes: Vec<_> =
        world.reload().into_iter().map(|it| (it.name.to_string(), it.kind)).collect();
    let expected = [
        ("lights".to_owned(), ChangeKind::Reclassed),
        ("new".to_owned(), ChangeKind::Added),
        ("short".to_owned(), ChangeKind::Removed),
    ];
    assert_eq!(changes, expected);
}

const SHORT: &str = "[[segment]]\nlayer = 'rules'\ntext = '''\
    Answer briefly, in the language of the question, and never guess.'''\n";
const LIGHTS: &str = "[[segment]]\nlayer = 'identity'\nkey = 'ember'\ntext = 'You are Ember.'\n\
    [[segment]]\nlayer = 'capabilities'\ntools = 'lights.json'\n";

fn set_light() -> Value {
    let room = json!({"type": "object", "properties": {"room": {"type": "string"}}});
    json!({"type": "function", "function": {"name": "set_light", "parameters": room}})
}

fn named(name: &str) -> ProfileName {
    name.parse().unwrap()
}

/// The text of the tokens. The fake model's tokens are bytes and marks; marks are left out.
fn spelled(tokens: &[Token]) -> String {
    let bytes = tokens.iter().filter_map(|token| u8::try_from(token.0).ok()).collect();
    String::from_utf8(bytes).unwrap()
}

fn world(profiles: &[(&str, &str)]) -> World {
    let world = Plan::new().start();
    fs::create_dir_all(world.directory.join("profiles")).unwrap();
    let tools = json!([set_light()]).to_string();
    fs::write(world.directory.join("profiles/lights.json"), tools).unwrap();
    for (name, text) in profiles {
        world.profile(name, text);
    }
    world.reload();
    world
}
