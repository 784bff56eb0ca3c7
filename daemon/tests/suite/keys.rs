//! Cache keys: the slot that each kind prefers, hints that run side by side, reserved names.

use std::path::Path;
use std::time::Duration;

use hob_slots::derive_slot_id;
use hob_testkit::{Hobd, Launch, wait};
use serde_json::{Value, json};

use crate::common::{Plan, chat_body, user};

/// A stable beginning of more than one block.
const BEGINNING: &str = "You are Ember, a calm home assistant. Use plain words, and no more of \
    them than you need. Do not make up facts, and say so when you do not know something. ";

fn hobd(directory: &Path, arguments: &[&str]) -> Hobd {
    let launch = Launch::new(env!("CARGO_BIN_EXE_hobd"), directory);
    launch.args(["--model", "fake"]).args(arguments).start()
}

fn ask(hobd: &Hobd, question: &str, extra: Value) -> Value {
    let messages = json!([{"role": "system", "content": BEGINNING}, user(question)]);
    hobd.client.chat(&chat_body(messages, extra))["hob"].clone()
}

#[test]
fn each_kind_of_key_gets_the_slot_that_its_table_derives() {
    let stable = json!([{"content": "x", "stable": true}, {"content": "now", "stable": false}]);
    let long = "x".repeat(1024);
    let keys = [
        (json!({"conversation": "room-1"}), "conv:room-1"),
        (json!({"conversation": {"id": "room-1"}}), "conv:room-1"),
        (json!({"eliza": {"conversationId": "room-1"}}), "conv:room-1"),
        (json!({"providerOptions": {"eliza": {"conversationId": "room-1"}}}), "conv:room-1"),
        (json!({"promptCacheKey": "conv:room-1"}), "conv:room-1"),
        (json!({"conversation": "__system_prefix__"}), "conv:__system_prefix__"),
        (json!({"prompt_cache_key": "room-1"}), "conv:room-1"),
        (json!({"eliza": {"promptSegments": stable}}), "seg:f5e2794887fba944"),
        (json!({"eliza": {"prefixHash": "0123"}}), "pfx:0123"),
        (json!({"promptCacheKey": "v5:abc"}), "v5:abc"),
        (json!({"eliza": {"promptCacheKey": "v5:abc"}}), "v5:abc"),
        (json!({"conversation": long}), &format!("conv:{long}")),
        (json!({"prompt_cache_key": long}), &format!("conv:{long}")),
        (json!({"promptCacheKey": long}), &long),
    ];
    // The table's own values for 16 slots.
    for (key, slot) in [("conv:room-1", 10), ("conv:__system_prefix__", 2), ("v5:abc", 4)] {
        assert_eq!(derive_slot_id(Some(key), 16), slot, "{key}");
    }
    for (fields, key) in keys {
        let directory = tempfile::tempdir().unwrap();
        let hobd = hobd(directory.path(), &["--slots", "16"]);
        let answer = ask(&hobd, "Is it dark?", fields.clone());
        assert_eq!(answer["slot"], derive_slot_id(Some(key), 16), "{fields}");
        let status = hobd.client.get("/v1/status");
        let used = status["slots"].as_array().unwrap().iter().filter(|slot| slot["tokens"] != 0);
        let used: Vec<_> = used.map(|slot| slot["slot"].clone()).collect();
        assert_eq!(json!(used), json!([answer["slot"]]), "{fields}");
    }
}

#[test]
fn six_fields_name_a_stored_conversation_and_the_others_are_hints() {
    let directory = tempfile::tempdir().unwrap();
    let hobd = hobd(directory.path(), &[]);
    let listed = || hobd.client.get("/v1/conversations")["data"].as_array().unwrap().clone();
    let named = [
        json!({"conversation": "room-1"}),
        json!({"conversation": {"id": "room-2"}}),
        json!({"eliza": {"conversationId": "room-3"}}),
        json!({"providerOptions": {"eliza": {"conversationId": "room-4"}}}),
        json!({"promptCacheKey": "conv:room-5"}),
    ];
    for (number, fields) in (1..).zip(named) {
        let answer = ask(&hobd, "Is it dark?", fields);
        assert_eq!(answer["conversation"], format!("room-{number}"));
        assert_eq!((listed().len(), &listed()[0]["id"]), (number, &answer["conversation"]));
    }
    let body = chat_body(json!([user("Is it dark?")]), json!({}));
    let call = hobd.client.call("POST", "/v1/chat/completions").header("X-Session-Id", "room-6");
    assert_eq!(call.json(&body).send().json()["hob"]["conversation"], "room-6");
    assert_eq!(listed().len(), 6);
    for hint in [
        json!({"prompt_cache_key": "room-7"}),
        json!({"eliza": {"prefixHash": "0123"}}),
        json!({"eliza": {"promptSegments": [{"content": "x", "stable": true}]}}),
        json!({"promptCacheKey": "v5:abc"}),
    ] {
        let answer = ask(&hobd, "Is it dark?", hint);
        assert_eq!(
            (&answer["conversation"], answer["cache_key"].is_string()),
            (&json!(null), true)
        );
    }
    assert_eq!(listed().len(), 6, "a hint stores no text");
}

#[test]
fn turns_of_one_hint_run_side_by_side_and_share_their_beginning() {
    let world = Plan::new().slots(4).pace(Duration::from_millis(5)).start();
    let extra = json!({"prompt_cache_key": "app", "max_tokens": 4000, "ignore_eos": true});
    let long = [json!({"role": "system", "content": BEGINNING}), user("Tell me a story")];
    let mut first = world.stream(json!(long), extra);
    first.next_data().expect("it has begun to answer");

    let short = json!([{"role": "system", "content": BEGINNING}, user("Is it dark?")]);
    let answer = world.chat(short, json!({"prompt_cache_key": "app"}));
    let runs = |slot: &hob_runtime::SlotStatus| slot.state == hob_runtime::SlotState::Decoding;
    assert!(world.status().slots.iter().any(runs), "the first still runs: {answer}");
    let shared = answer["hob"]["tokens"]["shared"].as_u64().unwrap();
    assert!(shared > BEGINNING.len() as u64, "{answer}");
    assert_eq!(world.get("/v1/conversations").json()["data"], json!([]));
}

#[test]
fn turns_of_one_conversation_still_run_one_after_the_other() {
    let world = Plan::new().slots(4).start();
    let asked = std::thread::scope(|scope| {
        let ask = || {
            let extra = json!({"conversation": "a", "hob": {"append": true}});
            world.chat(json!([user("Hello")]), extra)["hob"]["slot"].clone()
        };
        let both = [scope.spawn(ask), scope.spawn(ask)];
        both.map(|asked| asked.join().unwrap())
    });
    assert_eq!(asked[0], asked[1]);
}

#[test]
fn a_later_process_finds_the_beginning_of_a_hint() {
    let directory = tempfile::tempdir().unwrap();
    let key = json!({"prompt_cache_key": "x".repeat(1024)});
    {
        let mut hobd = hobd(directory.path(), &[]);
        ask(&hobd, "Is it dark?", key.clone());
        hobd.process.terminate(wait::PATIENCE);
    }
    let hobd = hobd(directory.path(), &[]);
    let found = ask(&hobd, "And the kitchen?", key)["tokens"].clone();
    assert!(found["disk"].as_u64().unwrap() > 64, "{found}");
    assert_eq!(hobd.client.get("/v1/conversations")["data"], json!([]));
}

/// The same with llama.cpp and the bundled model.
#[cfg(feature = "llama")]
#[test]
fn a_later_process_finds_the_beginning_of_a_hint_on_llama_cpp() {
    let directory = tempfile::tempdir().unwrap();
    let launch = Launch::new(env!("CARGO_BIN_EXE_hobd"), directory.path());
    let launch = launch.args(["--model", "bundled", "--voice-command", "off"]);
    let ask = |question: &str| {
        let mut hobd = launch.start();
        let system = json!({"role": "system", "content": BEGINNING.repeat(4)});
        let extra = json!({"prompt_cache_key": "app"});
        let answer = hobd.client.chat(&chat_body(json!([system, user(question)]), extra));
        hobd.process.terminate(wait::PATIENCE);
        answer["hob"]["tokens"].clone()
    };
    let first = ask("Is it dark?");
    let second = ask("And the kitchen?");
    assert!(second["disk"].as_u64() > Some(100), "{second}");
    assert!(second["computed"].as_u64() < first["computed"].as_u64(), "{first} {second}");
}

#[test]
fn a_conversation_and_a_hint_of_the_same_text_have_nothing_in_common() {
    let directory = tempfile::tempdir().unwrap();
    let hobd = hobd(directory.path(), &[]);
    let hint = ask(&hobd, "Hello", json!({"promptCacheKey": "seg:0123456789abcdef"}));
    let named = ask(&hobd, "Hello", json!({"conversation": "seg:0123456789abcdef"}));
    assert_eq!(
        (&hint["conversation"], &hint["cache_key"]),
        (&Value::Null, &json!("seg:0123456789abcdef"))
    );
    assert_eq!(named["conversation"], "seg:0123456789abcdef");
    assert_ne!(hint["slot"], named["slot"]);
    let list = hobd.client.get("/v1/conversations");
    assert_eq!(list["data"].as_array().unwrap().len(), 1);
}

#[test]
fn the_number_of_a_slot_names_a_hint_in_every_protocol() {
    let directory = tempfile::tempdir().unwrap();
    let hobd = hobd(directory.path(), &[]);
    let messages = json!([user("Say this: Hi")]);
    for (path, body) in [
        ("/v1/chat/completions", json!({"messages": messages, "max_tokens": 2, "id_slot": 7})),
        ("/v1/messages", json!({"messages": messages, "max_tokens": 2, "id_slot": 7})),
        ("/api/chat", json!({"messages": messages, "stream": false, "id_slot": 7})),
        ("/v1/responses", json!({"input": "Say this: Hi", "store": false, "id_slot": 7})),
        ("/completion", json!({"prompt": "Hi", "n_predict": 2, "id_slot": 7})),
    ] {
        let answer = hobd.client.post(path, &body);
        assert_eq!(answer["hob"]["cache_key"], "slot:7", "{path}: {answer}");
    }
}

#[test]
fn no_client_takes_or_deletes_a_reserved_name() {
    let directory = tempfile::tempdir().unwrap();
    let profiles = directory.path().join(".config/hob/profiles");
    std::fs::create_dir_all(&profiles).unwrap();
    for name in ["default", "home"] {
        let text = format!("[[segment]]\nlayer = 'rules'\ntext = 'I am {name}. {BEGINNING}'\n");
        std::fs::write(profiles.join(format!("{name}.toml")), text).unwrap();
    }
    let hobd = hobd(directory.path(), &[]);
    let prefix = |profile: &str| {
        let status = hobd.client.get("/v1/status");
        let rows = status["prefixes"].as_array().unwrap().clone();
        rows.into_iter().find(|row| row["profile"] == profile).unwrap_or_default()
    };
    for profile in ["default", "home"] {
        wait::until("it is warm", || (prefix(profile)["place"] == "hot").then_some(()));
    }
    let refused = |method: &str, path: &str, body: Option<Value>| {
        let call = hobd.client.call(method, path);
        let answer = body.map_or_else(|| hobd.client.call(method, path), |body| call.json(&body));
        answer.send().error()["code"].clone()
    };
    let chat = |extra: Value| Some(chat_body(json!([user("Hello")]), extra));
    for name in ["__prefix__:home", "__key__:v5:abc", "__key_2__:v5:abc"] {
        let body = chat(json!({"conversation": name}));
        assert_eq!(refused("POST", "/v1/chat/completions", body), "reserved_name");
        let path = format!("/v1/conversations/{name}");
        assert_eq!(refused("DELETE", &path, None), "reserved_name");
        assert_eq!(
            refused("POST", &format!("{path}/speech-start"), Some(json!({}))),
            "reserved_name"
        );
    }
    assert_eq!(refused("DELETE", "/v1/conversations/__system_prefix__", None), "reserved_name");

    // elizaOS computes its system prompt under this name: it shares the default profile's prefix.
    let extra = json!({"conversation": "__system_prefix__"});
    let eliza = hobd.client.chat(&chat_body(json!([user("Hello")]), extra))["hob"].clone();
    let tokens = prefix("default")["tokens"].as_u64().unwrap();
    assert!(eliza["tokens"]["shared"].as_u64().unwrap() >= tokens, "{eliza}");
    assert_eq!(eliza["conversation"], Value::Null);
    assert_eq!(hobd.client.get("/v1/conversations")["data"], json!([]));
    assert_eq!(
        (&prefix("default")["place"], &prefix("home")["place"]),
        (&json!("hot"), &json!("hot"))
    );
}
