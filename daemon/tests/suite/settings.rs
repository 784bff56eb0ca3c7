//! What a setting says reaches the part that it is about, through the built hobd. The clock is moved
//! by the tests.

use std::fs;
use std::path::Path;
use std::sync::mpsc;
use std::thread;

use hob_testkit::{Client, files, wait};
use serde_json::{Value, json};

use crate::common::home::{Home, MINUTE, saved, say, say_with, until_warm};

/// More than one block of the fake model, whose tokens are bytes.
fn long(what: &str) -> String {
    format!("{what} is the code of my locker. ").repeat(12)
}

/// Lets sweeps run until `done`, each an interval later than the last.
fn sweep_until<T>(home: &Home, what: &str, mut done: impl FnMut() -> Option<T>) -> T {
    wait::until(what, || {
        home.pass(6 * MINUTE);
        done()
    })
}

#[test]
fn a_conversation_of_a_class_expires_after_the_time_that_is_set() {
    let home = Home::on_fake().with(&["--ttl-long", "10m", "--ttl-short", "20h"]);
    let hobd = home.start();
    say_with(&hobd.client, "long", &long("1"), json!({"ttl": "long"}));
    say_with(&hobd.client, "short", &long("2"), json!({"ttl": "short"}));
    home.stop(hobd);
    let hobd = home.start();
    home.pass(11 * MINUTE);
    let mut states = Vec::new();
    sweep_until(&home, "it has expired", || match saved(&hobd.client, "long") {
        Some(row) => {
            states.push(row["expired"].clone());
            None
        }
        None => Some(()),
    });
    assert!(states.iter().all(|expired| *expired == true), "a row says so too: {states:?}");
    assert!(saved(&hobd.client, "short").is_some());
}

#[test]
fn a_sweep_removes_at_most_as_many_files_as_are_set() {
    let home = Home::on_fake().with(&["--sweep-removals", "1"]);
    let hobd = home.start();
    for name in ["a", "b", "c"] {
        say_with(&hobd.client, name, &long(name), json!({"ttl": "short"}));
    }
    home.stop(hobd);
    let hobd = home.start();
    sweep_until(&home, "all are gone", || {
        let list = hobd.client.get("/v1/slots");
        list["data"].as_array().unwrap().is_empty().then_some(())
    });
    let lines = |log: &str| log.lines().filter(|line| line.contains(" expired=")).count();
    let log = wait::until("each sweep has removed one", || {
        Some(home.launch.log()).filter(|log| lines(log) == 3)
    });
    assert_eq!(log.matches(" expired=1 ").count(), 3, "{log}");
}

#[test]
fn idle_kv_is_compressed_after_the_time_that_is_set() {
    let home = Home::on_fake().with(&["--compress-after", "10m"]);
    let hobd = home.start();
    say(&hobd.client, "room", &long("48213"));
    home.stop(hobd);
    let hobd = home.start();
    let bytes = || -> u64 {
        let files = files::with_extension(&home.slots(), "kv");
        files.iter().filter_map(|path| fs::metadata(path).ok()).map(|facts| facts.len()).sum()
    };
    let before = bytes();
    sweep_until(&home, "it is compressed", || (bytes() < before).then_some(()));
    let tokens = say(&hobd.client, "room", "What is it?")["tokens"].clone();
    assert!(tokens["disk"].as_u64() > Some(100), "{tokens}");
}

#[test]
fn encrypted_kv_shows_neither_tokens_nor_names() {
    let found = |arguments: &[&str]| {
        let home = Home::on_fake().with(arguments);
        let hobd = home.start();
        say(&hobd.client, "secret-room", &long("48213"));
        let tokens = hobd.client.post("/tokenize", &json!({"content": "48213 is the code"}));
        home.stop(hobd);
        let tokens = tokens["tokens"].as_array().unwrap().iter();
        let tokens: Vec<u8> =
            tokens.flat_map(|token| (token.as_i64().unwrap() as i32).to_le_bytes()).collect();
        let has_tokens = |path: &Path| {
            fs::read(path).unwrap().windows(tokens.len()).any(|window| window == tokens)
        };
        let files = files::below(&home.slots());
        let names = files.iter().any(|path| path.display().to_string().contains("secret-room"));
        (files.iter().any(|path| has_tokens(path)), names)
    };
    assert_eq!(found(&[]), (true, true), "the search finds what is there");
    assert_eq!(found(&["--slots-encrypt", "true"]), (false, false));
}

#[test]
fn as_many_prefixes_are_hot_as_there_are_profiles() {
    let home = Home::on_fake();
    let names: Vec<String> = (0..20).map(|number| format!("profile-{number}")).collect();
    for name in &names {
        home.profile(name, &format!("Your name is {name}."));
    }
    let hobd = home.start();
    for name in &names {
        until_warm(&hobd.client, name);
    }
    let prefixes = hobd.client.get("/v1/status")["prefixes"].clone();
    let places = prefixes.as_array().unwrap().iter().map(|prefix| &prefix["place"]);
    assert_eq!(places.filter(|place| **place == "hot").count(), names.len(), "{prefixes}");
}

/// The code of the error that one of two requests gets at once, while the engine hangs.
fn refused_of_two(body: &Value) -> Value {
    let home = Home::on_fake().with(&["--queue", "1"]);
    let home = Home { launch: home.launch.clone().with_faults(), ..home };
    let hobd = home.start();
    let words = format!("Say this slowly: {}", "kettle ".repeat(300)); // 21 s.
    let running = hobd.client.call("POST", "/v1/chat/completions").json(&json!({
        "conversation": "room", "messages": [{"role": "user", "content": words}], "stream": true,
    }));
    let mut running = running.stream();
    running.next_data().expect("it has begun to answer");
    home.launch.inject("engine", "hang").done();
    let (send, codes) = mpsc::channel();
    for _ in 0..2 {
        let (call, send) =
            (hobd.client.call("POST", "/v1/chat/completions").json(body), send.clone());
        thread::spawn(move || {
            // An error: the test is over, and hobd has ended.
            call.try_send().map(|answer| send.send(answer.error()["code"].clone())).ok();
        });
    }
    codes.recv().unwrap()
}

#[test]
fn a_full_queue_refuses_the_next_request_at_once() {
    let body = json!({"messages": [{"role": "user", "content": "Hi"}]});
    assert_eq!(refused_of_two(&body), "queue_full");
}

#[test]
fn as_many_requests_as_are_set_wait_for_the_answer_before_them() {
    let body = json!({"conversation": "room", "hob": {"append": true},
        "messages": [{"role": "user", "content": "Hi"}]});
    assert_eq!(refused_of_two(&body), "queue_full");
}

/// Tokens of what is learned of four conversations that begin with the same 504 tokens.
fn learned_tokens(arguments: &[&str]) -> u64 {
    let home = Home::on_fake().with(arguments);
    let hobd = home.start();
    let rules = "Answer briefly, and kindly. ".repeat(18); // 504 tokens.
    for question in ["Is there tea?", "How late is it?", "Where is it?", "May I?"] {
        let system = json!({"role": "system", "content": rules});
        let question = json!({"role": "user", "content": question});
        hobd.client.chat(&json!({"messages": [system, question], "max_tokens": 1}));
    }
    let learned = wait::until("a prefix is learned", || {
        hobd.client.get("/v1/learned")["data"].as_array().unwrap().first().cloned()
    });
    learned["tokens"].as_u64().unwrap()
}

#[test]
fn a_learned_prefix_leaves_a_quarter_of_a_small_context_free() {
    let tokens = learned_tokens(&["--ctx", "640"]);
    assert!(tokens <= 480, "{tokens}");
}

#[test]
fn a_learned_prefix_has_at_most_the_tokens_that_are_set() {
    let tokens = learned_tokens(&["--learned-prefix-tokens", "256"]);
    assert!(tokens <= 256, "{tokens}");
}

#[test]
fn a_body_that_does_not_arrive_in_the_time_that_is_set_is_refused() {
    let home = Home::on_fake().with(&["--request-timeout-secs", "1"]);
    let hobd = home.start();
    let answer = hobd.client.call("POST", "/tokenize").header("content-length", "20").send();
    assert_eq!((answer.status, answer.error()["code"].as_str()), (408, Some("timeout")));
}

/// The cache of the fake model has no types.
#[cfg(feature = "llama")]
#[test]
fn keys_and_values_have_the_types_that_are_set() {
    let token_bytes = |types: &[&str]| {
        let home = Home::new().with(types);
        let hobd = home.start();
        say(&hobd.client, "room", "My locker code is 48213.");
        let saved = saved(&hobd.client, "room").unwrap();
        saved["object_bytes"].as_f64().unwrap() / saved["tokens"].as_f64().unwrap()
    };
    let halves = token_bytes(&[]);
    for setting in ["--cache-type-k", "--cache-type-v"] {
        let ratio = token_bytes(&[setting, "f32"]) / halves;
        assert!((1.4..1.6).contains(&ratio), "{setting}: {ratio}");
    }
}

#[test]
fn a_host_that_is_allowed_is_served_and_others_are_not() {
    let home = Home::on_fake().with(&["--allow-host", "hob.example"]);
    let hobd = home.start();
    let status =
        |host: &str| hobd.client.call("GET", "/v1/status").header("host", host).send().status;
    assert_eq!((status("hob.example"), status("other.example")), (200, 403));
}

#[test]
fn the_bytes_of_all_cells_follow_from_the_context_that_is_set() {
    let bytes = |context: &str| {
        let home = Home::on_fake().with(&["--ctx", context]);
        home.start().client.get("/v1/memory")["cells"]["bytes"].as_u64()
    };
    let half = bytes("1024").expect("the size of a cell is known");
    assert_eq!(bytes("2048"), Some(2 * half));
}

#[test]
fn a_quota_that_was_set_holds_after_a_switch_to_another_model() {
    let home = Home::empty();
    fs::write(home.path().join("hob.toml"), "model = 'fake'\n").unwrap();
    let file = home.path().join("hob.toml");
    let home = home.with(&["--config", file.to_str().unwrap()]);
    let hobd = home.start();
    hobd.client.call("PUT", "/v1/slots/quota").json(&json!({"bytes": 5_u64 << 30})).send();
    hobd.client.post("/v1/models/switch", &json!({"model": "fake:second"}));
    let set = wait::until("the other model is served", || {
        let status = hobd.client.try_status()?;
        (status["model"] == "fake:second").then(|| status["disk_quota"]["set_bytes"].clone())
    });
    assert_eq!(set, 5_u64 << 30);
}

#[test]
fn a_disk_without_room_is_named_with_the_remedy() {
    let home = Home::on_fake();
    let home = Home { launch: home.launch.clone().with_free_bytes(8 << 30), ..home };
    let hobd = home.start();
    say(&hobd.client, "room", &long("1"));
    let no_room = |client: &Client| client.get("/v1/status")["disk_quota"]["no_room"].clone();
    let said =
        wait::until("a sweep has looked", || no_room(&hobd.client).as_str().map(str::to_owned));
    for words in ["8.0 GiB of the disk are free", "slots_quota_bytes"] {
        assert!(said.contains(words), "{said}");
        wait::until("the log says it too", || home.launch.log().contains(words).then_some(()));
    }
    assert_eq!(hobd.client.get("/v1/memory")["disk"]["quota_bytes"], 0);
    home.stop(hobd);

    // In no slot, the conversation leaves; with a quota that is set, it stays.
    let hobd = home.start();
    sweep_until(&home, "nothing stays", || saved(&hobd.client, "room").is_none().then_some(()));
    let set = hobd.client.call("PUT", "/v1/slots/quota").json(&json!({"bytes": 1 << 30})).send();
    assert_eq!(set.status, 200, "{}", set.text());
    wait::until("there is room", || no_room(&hobd.client).is_null().then_some(()));
    say(&hobd.client, "room", &long("1"));
    home.stop(hobd);
    let hobd = home.start();
    home.pass(6 * MINUTE);
    let list: Value = hobd.client.get("/v1/slots");
    assert_eq!(list["data"].as_array().unwrap().len(), 1, "{list}");
}
