//! `slots_lossy`: KV of aged conversations is rounded, through the built hobd with a clock that the test moves.
//!
//! Runs on the bundled model; without llama.cpp on the fake one.

use std::fs;
use std::path::Path;

use hob_testkit::{Client, files, wait};
use serde_json::{Value, json};

use crate::common::home::{HOUR, Home, MINUTE, saved, say, say_with, until_parked};

/// `lossy`: the setting, which a flag overrides.
fn room(lossy: Option<&str>) -> Home {
    let home = Home::new().with(&["--slots", "3"]);
    home.profile("kind", &"Be kind to everyone who asks. ".repeat(4));
    match lossy {
        Some(lossy) => Home { launch: home.launch.env("HOB_SLOTS_LOSSY", lossy), ..home },
        None => home,
    }
}

fn story() -> String {
    "The locker code of Ann is 48213, and her door code is 7. ".repeat(40)
}

fn object_bytes(slots: &Path) -> u64 {
    let files = files::with_extension(slots, "kv");
    files.iter().filter_map(|path| fs::metadata(path).ok()).map(|facts| facts.len()).sum()
}

fn tokens(hob: &Value, name: &str) -> u64 {
    hob["tokens"][name].as_u64().unwrap_or_else(|| panic!("{name} of {hob}"))
}

/// Hours and sweeps pass.
fn age(home: &Home, client: &Client) {
    home.pass(HOUR + MINUTE);
    until_parked(client);
    home.pass(HOUR + 10 * MINUTE);
}

/// Expires in the first sweep after an hour.
fn say_witness(client: &Client) {
    say_with(client, "witness", "My badge number is 1.", json!({"ttl": "short"}));
}

fn until_swept(client: &Client) {
    wait::until("a sweep has removed the witness", || {
        saved(client, "witness").is_none().then_some(())
    });
}

#[test]
fn an_aged_conversation_has_half_the_bytes_and_goes_on_and_no_other_one_finds_them() {
    let home = room(Some("q8"));
    let hobd = home.start();
    let kind = json!({"profile": "kind"});
    let first = say_with(&hobd.client, "room", &story(), kind.clone());
    assert_eq!(tokens(&first, "lossy"), 0);
    say_witness(&hobd.client);
    let before = saved(&hobd.client, "room").unwrap();
    let bytes = object_bytes(&home.slots());
    age(&home, &hobd.client);
    let rounded = wait::until("the KV is rounded", || {
        let row = saved(&hobd.client, "room")?;
        (row["object_bytes"].as_u64() < before["object_bytes"].as_u64()).then_some(row)
    });
    assert_eq!((&rounded["tokens"], &rounded["class"]), (&before["tokens"], &before["class"]));
    let part = rounded["object_bytes"].as_u64().unwrap() as f64
        / before["object_bytes"].as_u64().unwrap() as f64;
    // The profile's rules stay exact. Of the fake's objects, a third is headers and tokens.
    assert!(part < if cfg!(feature = "llama") { 0.62 } else { 0.8 }, "{part}");
    wait::until("the exact objects are gone", || {
        (object_bytes(&home.slots()) < bytes * 17 / 20).then_some(())
    });

    let status = hobd.client.get("/v1/status");
    assert_eq!(status["slots_lossy"], json!({"tier": "q8", "refused": null}), "{status}");
    let next = say_with(&hobd.client, "room", "What is the locker code?", kind.clone());
    let new = next["prompt_tokens"].as_u64().unwrap() - before["tokens"].as_u64().unwrap();
    assert_eq!(tokens(&next, "computed"), new, "{next} after {before}");
    let lossy = tokens(&next, "lossy");
    let restored = tokens(&next, "memory") + tokens(&next, "disk");
    assert!(2 * lossy > restored && lossy <= restored, "{next}");
    let hot = say_with(&hobd.client, "room", "And the door code?", kind.clone());
    assert_eq!(tokens(&hot, "lossy"), lossy, "they are in its cells now: {hot}");

    // The profile's prefix is shared, which ends where the message begins. Nothing is restored.
    let other = say_with(&hobd.client, "other", &story(), kind);
    let protected = before["tokens"].as_u64().unwrap() - lossy;
    assert_eq!(tokens(&other, "lossy"), 0, "{other}");
    assert_eq!(tokens(&other, "memory") + tokens(&other, "disk"), 0, "{other}");
    assert!(tokens(&other, "shared") < protected + 64, "{protected} of {other}");

    let stats = hobd.client.get("/v1/stats");
    assert_eq!(stats["prompt_tokens"]["lossy"], 2 * lossy, "{stats}");
    assert_eq!(hobd.client.get("/v1/status")["counters"]["lossy_tokens"], lossy);
    let metrics = hobd.client.call("GET", "/metrics").send().text();
    assert!(metrics.contains(&format!("hob_lossy_tokens_total {}\n", 2 * lossy)), "{metrics}");
}

#[test]
fn a_request_for_exact_kv_is_answered_with_that_and_a_daemon_without_the_setting_too() {
    let home = room(Some("q4"));
    let hobd = home.start();
    for conversation in ["exact", "later"] {
        say(&hobd.client, conversation, &format!("{conversation}: {}", story()));
    }
    let before = ["exact", "later"].map(|it| saved(&hobd.client, it).unwrap());
    age(&home, &hobd.client);
    wait::until("both are rounded", || {
        let rows = ["exact", "later"].map(|it| saved(&hobd.client, it).unwrap());
        let mut pairs = rows.iter().zip(&before);
        pairs
            .all(|(row, old)| row["object_bytes"].as_u64() < old["object_bytes"].as_u64())
            .then_some(())
    });
    let exact =
        say_with(&hobd.client, "exact", "What is the door code?", json!({"reuse": "exact"}));
    assert_eq!(tokens(&exact, "lossy"), 0, "{exact}");
    let half = |row: &Value| row["tokens"].as_u64().unwrap() / 2;
    assert!(tokens(&exact, "computed") > half(&before[0]), "{exact}");
    home.stop(hobd);

    let without = home.with(&["--slots-lossy", "off"]);
    let hobd = without.start();
    let later = say(&hobd.client, "later", "What is the door code?");
    assert_eq!(tokens(&later, "lossy"), 0, "{later}");
    assert!(tokens(&later, "computed") > half(&before[1]), "{later}");
    assert_eq!(hobd.client.get("/v1/status")["slots_lossy"], Value::Null);
}

#[test]
fn a_completion_that_wants_exact_kv_is_answered_with_that() {
    let home = room(Some("q8"));
    let hobd = home.start();
    let complete = |prompt: &str, hob: Value| {
        let body = json!({"prompt": prompt, "conversation": "room", "hob": hob, "temperature": 0,
            "max_tokens": 8});
        hobd.client.post("/v1/completions", &body)
    };
    let first = complete(&story(), json!({}));
    let all = first["usage"]["total_tokens"].as_u64().unwrap();
    let before = wait::until("it is saved", || {
        // The end of a text that was cut by its length is not sampled.
        saved(&hobd.client, "room").filter(|row| row["tokens"].as_u64().unwrap() + 1 >= all)
    });
    age(&home, &hobd.client);
    wait::until("the KV is rounded", || {
        let row = saved(&hobd.client, "room")?;
        (row["object_bytes"].as_u64() < before["object_bytes"].as_u64()).then_some(())
    });
    let question = format!("{}What is the door code?", story());
    let rounded = complete(&question, json!({}));
    assert!(tokens(&rounded["hob"], "lossy") > 0, "{rounded}");
    let exact = complete(&question, json!({"reuse": "exact"}));
    assert_eq!(tokens(&exact["hob"], "lossy"), 0, "{exact}");
}

#[test]
fn it_is_off_by_default() {
    let home = room(None);
    let hobd = home.start();
    say(&hobd.client, "room", &story());
    say_witness(&hobd.client);
    let before = saved(&hobd.client, "room").unwrap();
    age(&home, &hobd.client);
    until_swept(&hobd.client);
    let after = saved(&hobd.client, "room").unwrap();
    assert_eq!(after["object_bytes"], before["object_bytes"]);
    let next = say(&hobd.client, "room", "What is the locker code?");
    assert_eq!(tokens(&next, "lossy"), 0, "{next}");
    let new = next["prompt_tokens"].as_u64().unwrap() - before["tokens"].as_u64().unwrap();
    assert_eq!(tokens(&next, "computed"), new, "{next}");
}

#[cfg(feature = "llama")]
#[test]
fn a_model_whose_kv_cannot_be_rounded_stays_exact_and_is_named() {
    let model = hob_testkit::asset("fixtures/gemma3.gguf");
    let home = Home::empty().with(&["--model", model.to_str().unwrap(), "--slots-lossy", "q8"]);
    let hobd = home.start();
    say(&hobd.client, "room", "My locker code is 48213.");
    say_witness(&hobd.client);
    let before = saved(&hobd.client, "room").unwrap();
    age(&home, &hobd.client);
    until_swept(&hobd.client);
    // It writes one more snapshot when it leaves its slot.
    let after = saved(&hobd.client, "room").unwrap();
    assert!(after["object_bytes"].as_u64() >= before["object_bytes"].as_u64(), "{after}");
    let next = say(&hobd.client, "room", "What is the locker code?");
    assert_eq!(tokens(&next, "lossy"), 0, "{next}");
    assert!(tokens(&next, "memory") + tokens(&next, "disk") > 0, "{next}");
    let status = hobd.client.get("/v1/status");
    let why = status["slots_lossy"]["refused"].as_str().unwrap();
    assert!(why.contains("sliding-window"), "{why}");
}
