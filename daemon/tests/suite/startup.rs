//! Everything that runs beside requests, through the built hobd and its own start: each test fails
//! when the start does not begin that part. The clock is moved by the tests.

use std::fs;

use hob_testkit::{Client, wait};
use serde_json::{Value, json};

use crate::common::home::{
    HOUR, Home, MINUTE, prefix, saved, say, say_with, until_parked, until_warm,
};

const PROFILE: &str = "Be brief, and kind.";

fn locker(client: &Client) -> Value {
    say(client, "room", &"My locker code is 48213. ".repeat(8))
}

fn is_hot(client: &Client, conversation: &str) -> bool {
    let status = client.get("/v1/status");
    let slots = status["slots"].as_array().unwrap();
    slots.iter().any(|slot| slot["conversation"] == conversation)
}

#[test]
fn idle_conversations_are_parked() {
    let home = Home::on_fake().with(&["--idle-park-secs", "600"]);
    let hobd = home.start();
    locker(&hobd.client);
    assert!(is_hot(&hobd.client, "room"));
    home.pass(11 * MINUTE);
    until_parked(&hobd.client);
}

#[test]
fn expired_kv_is_swept() {
    let home = Home::on_fake();
    let hobd = home.start();
    say_with(&hobd.client, "brief", "My badge number is 1.", json!({"ttl": "short"}));
    locker(&hobd.client);
    home.stop(hobd);
    let hobd = home.start();
    assert!(saved(&hobd.client, "brief").is_some(), "five minutes have not passed");
    // The sweep of the start may run now; the next one is due an interval later.
    wait::until("a sweep has removed it", || {
        home.pass(6 * MINUTE);
        saved(&hobd.client, "brief").is_none().then_some(())
    });
    assert!(saved(&hobd.client, "room").is_some());
}

#[test]
fn the_clocks_are_written_down_for_the_next_start() {
    let home = Home::on_fake();
    let hobd = home.start();
    let clocks = home.slots().join("clock.toml");
    let first = wait::until("they are written", || fs::read_to_string(&clocks).ok());
    wait::until("they are written again", || {
        home.pass(6 * MINUTE);
        fs::read_to_string(&clocks).ok().filter(|now| *now != first)
    });
    home.stop(hobd);
}

#[test]
fn the_trash_is_emptied_after_an_hour() {
    let home = Home::on_fake();
    let hobd = home.start();
    locker(&hobd.client);
    let path = "/v1/conversations/room";
    hobd.client.patch(path, &json!({"trashed": true}));
    home.pass(HOUR + MINUTE);
    wait::until("the trash is empty", || {
        let status = hobd.client.call("GET", path).send().status;
        (status == 404).then_some(())
    });
}

#[test]
fn the_time_that_the_machine_sleeps_empties_no_trash() {
    let home = Home::on_fake();
    let hobd = home.start();
    let client = &hobd.client;
    let path = |room: &str| format!("/v1/conversations/{room}");
    let trash = |room: &str| {
        say(client, room, "My badge number is 1.");
        client.patch(&path(room), &json!({"trashed": true}));
    };
    let status = |path: &str| client.call("GET", path).send().status;
    let until_deleted = |path: &str| {
        wait::until("it is deleted", || (status(path) == 404).then_some(()));
    };
    trash("first");
    home.pass(HOUR + MINUTE);
    until_deleted(&path("first")); // From here on the loop of the trash has read the clocks.

    trash("second");
    let unsent = client.call("POST", "/v1/documents?keep=chat").body("The mill is old.").send();
    home.pass(59 * MINUTE);
    trash("third");
    home.pass_with_sleep(2 * MINUTE, 8 * HOUR);
    // The loop deletes a document that was not sent behind all conversations whose hour is over.
    until_deleted(&format!("/v1/documents/{}", unsent.json()["id"].as_str().unwrap()));
    assert_eq!(status(&path("second")), 404);
    assert_eq!(status(&path("third")), 200, "it was in the trash for two minutes");
}

#[test]
fn profiles_are_prewarmed_at_the_start_and_kept_alive() {
    let home = Home::on_fake().with(&["--ttl-short", "5m"]);
    home.profile("default", PROFILE);
    let hobd = home.start();
    let first = until_warm(&hobd.client, "default");
    assert!(first["computed_tokens"].as_u64() > Some(0), "{first}");
    assert_eq!(first["place"], "hot");
    home.pass(10 * MINUTE);
    until_touched(&hobd.client, touched(&first) + 9 * 60);
}

#[test]
fn a_keepalive_interval_is_obeyed() {
    let home = Home::on_fake().with(&["--keepalive-interval", "3h", "--ttl-short", "10m"]);
    home.profile("default", PROFILE);
    let hobd = home.start();
    let first = touched(&until_warm(&hobd.client, "default"));
    home.pass(10 * MINUTE);
    until_touched(&hobd.client, first + 10 * 60);
    let second = touched(&prefix(&hobd.client, "default").unwrap());

    // The conversation is parked in the same round of the loop that would touch the prefix.
    locker(&hobd.client);
    home.pass(HOUR + MINUTE);
    until_parked(&hobd.client);
    let now = touched(&prefix(&hobd.client, "default").unwrap());
    assert!(now < second + 3600, "three hours have not passed since the first round");
    home.pass(3 * HOUR);
    until_touched(&hobd.client, second + 3 * 3600);
}

fn touched(prefix: &Value) -> u64 {
    prefix["touched_at"].as_u64().unwrap()
}

fn until_touched(client: &Client, at: u64) {
    wait::until("the prefix is kept alive", || {
        (touched(&prefix(client, "default")?) >= at).then_some(())
    });
}

#[test]
fn a_profile_that_is_written_while_hobd_runs_is_prewarmed() {
    let home = Home::on_fake();
    let hobd = home.start();
    assert_eq!(prefix(&hobd.client, "late"), None);
    home.profile("late", PROFILE);
    until_warm(&hobd.client, "late");
}

#[test]
fn the_default_profile_is_in_front_of_requests_that_name_none() {
    let home = Home::on_fake();
    home.profile("default", PROFILE);
    let hobd = home.start();
    until_warm(&hobd.client, "default");
    let ask = |hob: Value| {
        let body = json!({"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 1,
            "hob": hob});
        hobd.client.chat(&body)["usage"]["prompt_tokens"].as_u64().unwrap()
    };
    let without = ask(json!({"profile": "none"}));
    assert!(ask(json!({})) >= without + PROFILE.len() as u64);
    assert_eq!(ask(json!({})), ask(json!({"profile": "default"})));
}

#[test]
fn what_the_memory_policy_has_learned_is_read_at_the_start_and_saved_as_it_grows() {
    let home = Home::on_fake();
    let file = home.slots().join("eviction.toml");
    let hobd = home.start();
    for turn in 0..40 {
        hobd.client.say("room", &format!("Turn {turn}"));
    }
    wait::until("it is saved while hobd runs", || file.exists().then_some(()));
    home.stop(hobd);

    // A class of which the shipped prior knows nothing.
    let weights = vec!["3.0"; 36].join(", ");
    let class = format!("[[class]]\nid = 101\nused = [{weights}]\nsurvived = [{weights}]\n");
    fs::write(&file, format!("version = 1\n\n{class}")).unwrap();
    let hobd = home.start();
    for turn in 0..4 {
        hobd.client.say("room", &format!("Turn {turn} again"));
    }
    home.stop(hobd);
    let learned = fs::read_to_string(&file).unwrap();
    assert!(learned.contains("id = 101\n"), "{learned}");
    assert!(learned.matches("[[class]]").count() > 1, "it has learned more: {learned}");
}

/// The first request with a grammar does not wait for it.
#[test]
fn grammars_are_prepared_while_hobd_is_idle() {
    let home = Home::on_fake().with(&["--log", "info,hob_daemon=debug"]);
    let _hobd = home.start();
    wait::until("grammars are prepared", || {
        home.launch.log().contains("grammars prepared").then_some(())
    });
}

#[test]
fn the_start_prints_the_address_and_the_token_file() {
    let home = Home::on_fake();
    let hobd = home.start();
    wait::until("it has printed them", || {
        let log = home.launch.log();
        let address = format!("hobd serves fake at http://{}\n", hobd.client.address);
        (log.contains(&address) && log.contains("data/token\n")).then_some(())
    });
}

#[test]
fn a_setting_that_is_not_obeyed_is_logged() {
    let home = Home::on_fake().with(&["--sweep-interval", "1s"]);
    let _hobd = home.start();
    let log = home.launch.log();
    assert!(log.contains("--sweep-interval) is shorter than 60 seconds; hobd uses 60"), "{log}");
}

#[test]
fn the_kv_that_waits_for_the_disk_takes_a_sixteenth_of_the_memory() {
    let home = Home::on_fake();
    let hobd = home.start();
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let total =
        memory.lines().find_map(|line| line.strip_prefix("MemTotal:")?.trim().split(' ').next());
    let Some(total) = total.map(|kib| kib.parse::<u64>().unwrap() << 10) else { return };
    let budget = hobd.client.get("/v1/status")["unsaved_budget_bytes"].clone();
    assert_eq!(budget, (total / 16).max(256 << 20));
}

/// Of the 256 sequences that llama.cpp has, prefixes and the engine itself take some.
#[cfg(feature = "llama")]
#[test]
fn as_many_slots_as_can_be_set_are_served() {
    let home = Home::new().with(&["--slots", "247"]);
    let hobd = home.start();
    say(&hobd.client, "room", "Hello!");
    home.stop(hobd);
}
