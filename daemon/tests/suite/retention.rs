//! How long KV stays, by default and through the built hobd, with a clock that the tests move: a
//! week of absence, an idle hour, days of uptime, a full quota.
//!
//! Runs on the bundled model; without llama.cpp on the fake one.

use hob_testkit::{Client, wait};
use serde_json::{Value, json};

use crate::common::home::{HOUR, Home, MINUTE, saved, say, say_with, until_parked, until_warm};

/// Expires in any sweep five minutes after its last use: once it is gone, a sweep has been there.
const WITNESS: &str = "witness";

fn room() -> Home {
    Home::new().with(&["--slots", "3"])
}

fn saved_names(client: &Client) -> Vec<String> {
    let list = client.get("/v1/slots");
    let rows = list["data"].as_array().unwrap().iter();
    let mut names: Vec<_> =
        rows.map(|row| row["conversation"].as_str().unwrap().to_owned()).collect();
    names.sort();
    names
}

fn say_witness(client: &Client) {
    say_with(client, WITNESS, "My badge number is 1.", json!({"ttl": "short"}));
}

fn until_swept(client: &Client) {
    wait::until("a sweep has removed the witness", || {
        saved(client, WITNESS).is_none().then_some(())
    });
}

/// Asserts that a turn computed exactly what is new after the `saved` tokens, and read the rest
/// from disk.
fn assert_only_new_was_computed(hob: &Value, saved: &Value) {
    let count = |value: &Value| value.as_u64().unwrap();
    let tokens = &hob["tokens"];
    assert!(count(&tokens["disk"]) > 0, "{hob}");
    let new = count(&hob["prompt_tokens"]) - count(&saved["tokens"]);
    assert_eq!(count(&tokens["computed"]), new, "{hob} after {saved}");
}

#[test]
fn a_chat_opened_a_week_later_computes_only_what_is_new() {
    let home = room();
    let hobd = home.start();
    say(&hobd.client, "room", &"My locker code is 48213. ".repeat(8));
    say(&hobd.client, "room", "My door code is 7.");
    say_witness(&hobd.client);
    let before = saved(&hobd.client, "room").unwrap();
    assert_eq!(before["class"], "permanent");
    home.stop(hobd);

    home.pass(7 * 24 * HOUR);
    let hobd = home.start();
    until_swept(&hobd.client);
    let hob = say(&hobd.client, "room", "What is my locker code?");
    assert_only_new_was_computed(&hob, &before);
    assert!(saved(&hobd.client, "room").is_some());
}

#[test]
fn a_week_of_uptime_without_a_word_parks_a_chat_and_expires_nothing() {
    // Without memory for parked KV, what comes back comes from disk.
    let home = room().with(&["--memory-budget-bytes", "1"]);
    let hobd = home.start();
    say(&hobd.client, "room", &"My locker code is 48213. ".repeat(8));
    say_witness(&hobd.client);
    let before = saved(&hobd.client, "room").unwrap();

    home.pass(HOUR + MINUTE);
    until_parked(&hobd.client);
    home.pass(10 * MINUTE);
    until_swept(&hobd.client);
    home.pass(7 * 24 * HOUR);
    let hob = say(&hobd.client, "room", "What is my locker code?");
    assert_only_new_was_computed(&hob, &before);
}

#[test]
fn a_park_does_not_make_a_chat_expire_whose_class_lasts_as_long_as_it_was_idle() {
    let home = room().with(&["--memory-budget-bytes", "1"]);
    let hobd = home.start();
    say_with(&hobd.client, "room", "My locker code is 48213.", json!({"ttl": "long"}));
    let before = saved(&hobd.client, "room").unwrap();
    say_witness(&hobd.client);
    home.pass(HOUR + MINUTE);
    until_parked(&hobd.client);
    home.pass(10 * MINUTE);
    until_swept(&hobd.client);
    let hob = say(&hobd.client, "room", "What is my locker code?");
    assert_only_new_was_computed(&hob, &before);

    // Its class stays, and an hour after the next park it is over.
    home.pass(HOUR + MINUTE);
    until_parked(&hobd.client);
    assert_eq!(saved(&hobd.client, "room").unwrap()["class"], "long");
    home.pass(HOUR + 10 * MINUTE);
    wait::until("it has expired", || saved(&hobd.client, "room").is_none().then_some(()));
}

#[test]
fn kv_without_stored_text_expires_a_day_after_its_last_use() {
    let home = room();
    let hobd = home.start();
    hobd.client.chat(&json!({
        "prompt_cache_key": "agent", "temperature": 0, "max_tokens": 4,
        "messages": [{"role": "user", "content": "My locker code is 48213. ".repeat(8)}],
    }));
    home.stop(hobd);
    let is_saved = |client: &Client| saved(client, "__key__:conv:agent").is_some();

    home.pass(23 * HOUR);
    let hobd = home.start();
    say_witness(&hobd.client);
    home.stop(hobd);
    home.pass(10 * MINUTE);
    let hobd = home.start();
    until_swept(&hobd.client);
    assert!(is_saved(&hobd.client), "a day has not passed");

    home.pass(HOUR);
    wait::until("it has expired", || (!is_saved(&hobd.client)).then_some(()));
}

#[test]
fn a_prefix_in_daily_use_is_not_computed_again_at_the_next_start() {
    let home = room();
    home.profile("lights", &"Your name is Ember. The day is Monday. The city is Oslo. ".repeat(6));
    let hobd = home.start();
    assert!(until_warm(&hobd.client, "lights")["computed_tokens"].as_u64().unwrap() > 0);
    let used_at = || saved(&hobd.client, "__prefix__:lights").unwrap()["used_at"].as_u64().unwrap();
    let first = wait::until("its record is written", || {
        saved(&hobd.client, "__prefix__:lights").map(|_| used_at())
    });
    for day in ["one", "two", "three"] {
        home.pass(9 * HOUR);
        let hob = json!({"profile": "lights", "ttl": "short"});
        say_with(&hobd.client, day, "What is your name?", hob);
    }
    wait::until("each turn has renewed its record", || {
        (used_at() >= first + 27 * 3600).then_some(())
    });
    home.pass(3 * HOUR);
    home.stop(hobd);

    let hobd = home.start();
    let prefix = until_warm(&hobd.client, "lights");
    assert_eq!((&prefix["computed_tokens"], &prefix["how"]), (&json!(0), &json!("disk")));
}

#[test]
fn a_learned_prefix_in_daily_use_renews_its_record() {
    let home = Home::new();
    let hobd = home.start();
    let system = "Your name is Ember. The day is Monday. The city is Oslo. ".repeat(12);
    let ask = |question: &str| {
        let messages =
            json!([{"role": "system", "content": system}, {"role": "user", "content": question}]);
        hobd.client.chat(&json!({"messages": messages, "max_tokens": 4, "temperature": 0}))
    };
    for question in ["Is there breakfast?", "How late is it?", "Where is the beach?"] {
        ask(question);
    }
    let record = || {
        let slots = hobd.client.get("/v1/slots")["data"].as_array().unwrap().clone();
        let learned = |slot: &&Value| {
            slot["conversation"].as_str().is_some_and(|id| id.starts_with("__learned__"))
        };
        slots.iter().find(learned).map(|slot| slot["used_at"].as_u64().unwrap())
    };
    let first = wait::until("its record is written", record);
    for question in ["May I bring a dog?", "Is there a lift?"] {
        home.pass(9 * HOUR);
        ask(question);
    }
    wait::until("each turn has renewed its record", || {
        record().filter(|used_at| *used_at >= first + 18 * 3600)
    });
}

#[test]
fn over_quota_the_least_rebuild_time_per_byte_leaves_and_the_others_stay() {
    let home = room();
    let hobd = home.start();
    for (room, times) in [("long", 24), ("brief", 2), ("middle", 9)] {
        let text = format!("My locker code in room {room} is 48213. ").repeat(times);
        say(&hobd.client, room, &text);
    }
    assert_eq!(saved_names(&hobd.client), ["brief", "long", "middle"]);
    home.stop(hobd);

    // In no slot, all of them may leave.
    let hobd = home.start();
    let disk = hobd.client.get("/v1/memory")["disk"].clone();
    assert_eq!((&disk["quota_origin"], &disk["quota_fixed"]), (&json!("default"), &json!(false)));
    assert_eq!(disk["quota_set_bytes"], Value::Null);
    let full = disk["bytes"].as_u64().unwrap();
    let set = put_quota(&hobd.client, full - 1);
    assert_eq!(set["quota_bytes"], full - 1);
    wait::until("one has left", || (saved_names(&hobd.client).len() < 3).then_some(()));
    assert_eq!(saved_names(&hobd.client), ["long", "middle"]);
    home.stop(hobd);

    let hobd = home.start();
    let disk = hobd.client.get("/v1/memory")["disk"].clone();
    assert_eq!(disk["quota_set_bytes"], full - 1, "it is in force at the next start");
    assert!(disk["quota_origin"].as_str().unwrap().contains("hob.toml"), "{disk}");
    assert_eq!(saved_names(&hobd.client), ["long", "middle"]);
    put_quota(&hobd.client, 0);
    assert_eq!(hobd.client.get("/v1/memory")["disk"]["quota_set_bytes"], Value::Null);
}

#[test]
fn new_kv_over_the_quota_is_swept_long_before_the_interval_is_over() {
    let home = Home::new();
    let hobd = home.start();
    let text = "My locker code is 48213. ".repeat(24);
    for room in ["first", "second"] {
        say(&hobd.client, room, &format!("In room {room}: {text}"));
    }
    say_witness(&hobd.client);
    let full = hobd.client.get("/v1/memory")["disk"]["bytes"].as_u64().unwrap();
    home.stop(hobd);
    home.pass(10 * MINUTE);

    let home = home.with(&["--slots-quota-bytes", &full.to_string()]);
    let hobd = home.start();
    until_swept(&hobd.client); // The sweep at start is over; no later one is due for 5 minutes.
    assert_eq!(saved_names(&hobd.client), ["first", "second"]);
    for room in 0..16 {
        say(&hobd.client, &format!("new {room}"), &format!("In room {room}: {text}"));
    }
    wait::until("the oldest have left", || {
        let names = saved_names(&hobd.client);
        let is_left = |room: &str| names.iter().any(|name| name == room);
        (!is_left("first") && !is_left("second")).then_some(())
    });
}

#[test]
fn a_quota_of_a_flag_cannot_be_changed_by_a_request() {
    let home = room().with(&["--slots-quota-bytes", "1GiB"]);
    let hobd = home.start();
    let call = hobd.client.call("PUT", "/v1/slots/quota").json(&json!({"bytes": 1}));
    let answer = call.send();
    assert_eq!((answer.status, &answer.error()["code"]), (409, &json!("quota_is_fixed")));
    let disk = hobd.client.get("/v1/memory")["disk"].clone();
    assert_eq!((&disk["quota_bytes"], &disk["quota_fixed"]), (&json!(1_u64 << 30), &json!(true)));
}

#[test]
fn default_ttl_is_a_setting() {
    let home = room().with(&["--default-ttl", "extended"]);
    let hobd = home.start();
    say(&hobd.client, "room", "My locker code is 48213.");
    assert_eq!(saved(&hobd.client, "room").unwrap()["class"], "extended");
}

fn put_quota(client: &Client, bytes: u64) -> Value {
    let answer = client.call("PUT", "/v1/slots/quota").json(&json!({"bytes": bytes})).send();
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()
}
