//! The weights of the built hobd: loaded behind a socket that serves, unloaded when idle, loaded
//! again, replaced with their file. The clock is moved by the tests.

#[cfg(feature = "llama")]
use std::fs;

use hob_testkit::{Client, Launch, free_port, wait};
#[cfg(feature = "llama")]
use hob_testkit::{Gguf, asset};
#[cfg(feature = "llama")]
use serde_json::Value;
use serde_json::json;

use crate::common::home::{Home, MINUTE, say};

fn until_residency(client: &Client, residency: &str) {
    wait::until(residency, || (client.get("/v1/status")["residency"] == residency).then_some(()));
}

fn until_unloaded(home: &Home, client: &Client) {
    wait::until("the weights are unloaded", || {
        home.pass(11 * MINUTE);
        (client.get("/v1/status")["residency"] == "unloaded").then_some(())
    });
}

#[test]
fn idle_weights_are_unloaded_and_come_back() {
    let home = Home::on_fake().with(&["--unload-after", "10m"]);
    let hobd = home.start();
    say(&hobd.client, "room", "My locker code is 48213.");
    until_residency(&hobd.client, "resident");
    until_unloaded(&home, &hobd.client);
    say(&hobd.client, "room", "My locker code is 48213.");
    until_residency(&hobd.client, "resident");

    // Typing and speech load them, before there is a question.
    until_unloaded(&home, &hobd.client);
    hobd.client.post("/v1/conversations/new/typing", &json!({"text": "Is it "}));
    until_residency(&hobd.client, "resident");
    until_unloaded(&home, &hobd.client);
    hobd.client.post("/v1/conversations/room/speech-start", &json!({}));
    until_residency(&hobd.client, "resident");
}

#[test]
fn turns_without_a_conversation_keep_the_weights_loaded() {
    let home = Home::on_fake().with(&["--unload-after", "10m", "--idle-park-secs", "600"]);
    let hobd = home.start();
    let keyless = || {
        let messages = json!([{"role": "user", "content": "Hello"}]);
        hobd.client.chat(&json!({"messages": messages, "max_tokens": 1}));
    };
    say(&hobd.client, "room", "My locker code is 48213.");
    home.pass(6 * MINUTE);
    keyless();
    home.pass(6 * MINUTE);
    wait::until("the conversation is parked", || {
        let status = hobd.client.get("/v1/status");
        (status["parked"][0]["conversation"] == "room").then_some(())
    });
    // The loop that parks unloads as well, in the same round.
    assert_eq!(hobd.client.get("/v1/status")["residency"], "resident");
    for _ in 0..2 {
        until_unloaded(&home, &hobd.client);
        keyless();
        until_residency(&hobd.client, "resident");
    }
}

#[cfg(feature = "llama")]
#[test]
fn embeddings_keep_the_weights_loaded() {
    let directory = tempfile::tempdir().unwrap();
    let model = directory.path().join("embeds.gguf");
    // It pools the last token.
    Gguf::open(&asset("fixtures/qwen2.gguf")).number("qwen2.pooling_type", 3).write(&model);
    let launch = Launch::new(env!("CARGO_BIN_EXE_hobd"), directory.path()).with_clock();
    let launch = launch.args(["--threads", "1", "--ctx", "512", "--unload-after", "10m"]);
    let launch = launch.args(["--model".into(), model.into_os_string()]);
    let hobd = launch.start();
    for _ in 0..2 {
        let answer = hobd.client.post("/v1/embeddings", &json!({"input": "Hello"}));
        assert!(!answer["data"][0]["embedding"].as_array().unwrap().is_empty());
        assert_eq!(hobd.client.get("/v1/status")["residency"], "resident");
        // The end of its use may be noted after its answer.
        wait::until("the weights are unloaded", || {
            launch.pass(11 * MINUTE);
            (hobd.client.get("/v1/status")["residency"] == "unloaded").then_some(())
        });
    }
}

#[cfg(feature = "llama")]
#[test]
fn a_model_without_weights_in_memory_frees_none_for_another() {
    const FREE_BYTES: u64 = 1 << 30;
    let home = Home::new().with(&["--unload-after", "10m"]);
    let launch = home.launch.clone().env("HOB_TEST_MEMORY_BYTES", FREE_BYTES.to_string());
    let hobd = launch.start();
    say(&hobd.client, "room", "My locker code is 48213.");
    let memory = || {
        let list = hobd.client.get("/v1/models/local");
        ["free_bytes", "current_weights_bytes"].map(|name| list[name].as_u64().unwrap())
    };
    let [free_bytes, weights_bytes] = memory();
    assert!(free_bytes > FREE_BYTES && weights_bytes > 0, "{free_bytes}, {weights_bytes}");
    until_unloaded(&home, &hobd.client);
    assert_eq!(memory(), [FREE_BYTES, 0]);
}

#[test]
fn while_the_model_loads_texts_and_health_are_served_and_requests_wait() {
    let directory = tempfile::tempdir().unwrap();
    let launch = Launch::new(env!("CARGO_BIN_EXE_hobd"), directory.path()).with_faults();
    let launch = launch.args(["--model", "fake"]).listen(([127, 0, 0, 1], free_port()).into());
    let client = {
        let hobd = launch.start();
        hobd.client.say("room", "Say this: kettle");
        hobd.client.clone()
    };
    let loads = launch.inject("start", "wait");
    let starting = launch.spawn();

    let health = || client.call("GET", "/health").try_send().ok();
    let loading = wait::until("the socket is served", health);
    assert_eq!(loading.status, 503, "{}", loading.text());
    assert_eq!(loading.json(), json!({"status": "loading", "loaded_percent": 0}));
    let room = client.get("/v1/conversations/room");
    assert_eq!(room["messages"][1]["content"], "kettle");
    let asks = client.clone();
    let answer = std::thread::spawn(move || asks.say("room", "Say this: pot"));
    let _waits = client.call("GET", "/v1/status").open();
    assert!(!directory.path().join("ready.json").exists());

    loads.end();
    let hobd = starting.ready().expect("the daemon starts");
    assert_eq!(answer.join().unwrap()["choices"][0]["message"]["content"], "pot");
    assert_eq!(hobd.client.get("/health"), json!({"status": "ok"}));
    assert_eq!(hobd.client.get("/v1/conversations/room")["messages"][3]["content"], "pot");
}

#[cfg(feature = "llama")]
#[test]
fn a_replaced_model_file_restarts_hobd_with_it() {
    let directory = tempfile::tempdir().unwrap();
    let model = directory.path().join("model.gguf");
    fs::copy(asset("fixtures/qwen2.gguf"), &model).unwrap();
    let launch = Launch::new(env!("CARGO_BIN_EXE_hobd"), directory.path());
    let launch = launch.args(["--threads", "1", "--ctx", "512"]);
    let launch = launch.args(["--model".into(), model.clone().into_os_string()]);
    let _hobd = launch.start();
    // hobd announces itself again after a restart.
    let fingerprint = || {
        let announced = fs::read_to_string(directory.path().join("data/hobd.json")).ok()?;
        let announced: Value = serde_json::from_str(&announced).ok()?;
        announced["fingerprint"].as_str().map(str::to_owned)
    };
    let before = fingerprint().unwrap();
    let new = directory.path().join("new.gguf");
    fs::copy(asset("fixtures/qwen3.gguf"), &new).unwrap();
    fs::rename(&new, &model).unwrap();
    wait::until("hobd serves the new model", || fingerprint().filter(|now| *now != before));
}
