//! `/v1/memory`: usage, the KV map, and verification of the files on disk.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};

use crate::common::{Plan, World, user};

const LONG: &str = "Please remember that the code of my locker is 48213, and say it when I ask. ";

#[test]
fn used_memory_is_reported_and_unknown_figures_are_null() {
    let world = World::new();
    let before = world.get("/v1/memory").json();
    assert_eq!(before["cells"]["used_tokens"], 0);
    world.chat(json!([user(LONG)]), json!({"conversation": "locker"}));
    world.until("the KV is on disk", |world| world.get("/v1/memory").json()["disk"]["bytes"] != 0);
    let memory = world.get("/v1/memory").json();
    assert!(memory["cells"]["used_tokens"].as_u64().unwrap() > LONG.len() as u64);
    assert_eq!(memory["cells"]["tokens"], 8192);
    assert!(memory["warm"]["bytes"].as_u64().unwrap() > 0, "{memory}");
    assert!(memory["disk"]["quota_bytes"].as_u64() > memory["disk"]["bytes"].as_u64());
    assert!(
        memory["machine"]["total_bytes"].as_u64() > memory["machine"]["available_bytes"].as_u64()
    );
    assert_eq!(memory["model"]["residency"], "resident");
    assert_eq!((&memory["devices"], &memory["offload"]), (&json!([]), &Value::Null));
    let unknown = [&memory["cells"]["bytes_per_token"], &memory["cells"]["used_bytes"]];
    assert_eq!(unknown, [&Value::Null, &Value::Null], "the fake model has no file to measure");
}

#[test]
fn the_map_shows_each_block_with_its_layer_its_origin_and_its_sharers() {
    let world = World::new();
    let system = json!({"role": "system", "content": LONG.repeat(2)});
    for (id, word) in [("one", "first "), ("two", "second ")] {
        // Less than what is parked beside the other one.
        let messages = json!([system, user(&word.repeat(6))]);
        world.chat(messages, json!({"conversation": id, "ignore_eos": true, "max_tokens": 40}));
    }
    world.until("the answer is computed", |world| {
        hot(&world.get("/v1/memory/map").json(), "two")["state"] == "idle"
    });
    let map = world.get("/v1/memory/map").json();
    let two = hot(&map, "two");
    assert_eq!((&two["kind"], &two["prompt_tokens"]), (&json!("conversation"), &Value::Null));
    assert!(two["title"].as_str().unwrap().starts_with("second"));
    let blocks = two["blocks"].as_array().unwrap();
    let distinct = |name: &str| {
        let mut values: Vec<_> = blocks.iter().map(|b| b[name].as_str().unwrap()).collect();
        values.dedup();
        values.join(" ")
    };
    assert_eq!(distinct("layer"), "identity user assistant");
    assert_eq!(distinct("origin"), "shared computed generated");
    assert_eq!((&blocks[0]["sharers"], blocks[0]["id"].as_str().unwrap().len()), (&json!(1), 12));
    assert_eq!(blocks.last().unwrap()["end"], two["tokens"]);
    let prefix = &map["slots"].as_array().unwrap().last().unwrap()["kind"];
    assert_eq!(prefix, "prefix");
}

#[test]
fn a_long_prompt_parks_an_idle_conversation_which_comes_back_from_memory() {
    let world = World::new();
    let ask = |id: &str, text: &str| {
        world.chat(json!([user(text)]), json!({"conversation": id}));
        world.settle();
    };
    ask("one", &LONG.repeat(4));
    ask("two", &"Something else. ".repeat(40));
    let map = world.get("/v1/memory/map").json();
    let left = &map["events"][0];
    assert_eq!((&left["conversation"], &left["why"]), (&json!("one"), &json!("beside")));
    ask("one", &LONG.repeat(4));
    let map = world.get("/v1/memory/map").json();
    assert_eq!(hot(&map, "one")["blocks"][0]["origin"], "memory");
}

#[test]
fn the_map_reports_restored_and_evicted_kv() {
    let mut world = Plan::new().slots(1).start();
    let directory = world.directory.clone();
    let chat = |world: &World, id: &str| {
        world.chat(json!([user(&LONG.repeat(2))]), json!({"conversation": id}))
    };
    chat(&world, "one");
    world.chat(json!([user("Something else")]), json!({"conversation": "two"}));
    let map = world.get("/v1/memory/map").json();
    let left = &map["events"][0];
    assert_eq!(
        (&left["conversation"], &left["to"], &left["why"]),
        (&json!("one"), &json!("memory"), &json!("slot"))
    );
    assert!(left["title"].as_str().unwrap().starts_with("Please"));
    chat(&world, "one");
    assert_eq!(hot(&world.get("/v1/memory/map").json(), "one")["blocks"][0]["origin"], "memory");
    world.stop();
    let target = tempfile::tempdir().unwrap();
    let moved = target.path().join("moved");
    std::fs::rename(&directory, &moved).unwrap();
    let world = Plan::new().directory(&moved).start();
    chat(&world, "one");
    assert_eq!(hot(&world.get("/v1/memory/map").json(), "one")["blocks"][0]["origin"], "disk");
    world.call("DELETE", "/v1/conversations/one").send();
    let map = world.get("/v1/memory/map").json();
    assert_eq!(map["events"][0]["why"], "deleted");
    assert!(
        map["events"].as_array().unwrap().iter().all(|left| left["conversation"] == Value::Null)
    );
}

#[test]
fn a_watch_gets_the_map_after_a_change_and_not_otherwise() {
    let world = Plan::new().pace(Duration::from_millis(2)).start();
    let mut events = world.call("GET", "/v1/memory/events").stream();
    let first = events.next().unwrap();
    assert!(first["slots"].as_array().unwrap().iter().all(|slot| slot["tokens"] == 0));
    let (began, mut updates) = (std::time::Instant::now(), 0);
    let mut until_it_is = |state: &str| {
        loop {
            let map = events.next().unwrap();
            updates += 1;
            let talks = hot(&map, "talks");
            if talks["state"] == state && talks["tokens"].as_u64().unwrap() > LONG.len() as u64 {
                break;
            }
        }
    };
    let endless = json!({"conversation": "talks", "ignore_eos": true, "max_tokens": 5000});
    let answer = world.stream(json!([user(LONG)]), endless);
    until_it_is("decoding");
    drop(answer);
    until_it_is("idle");
    let tenths = began.elapsed().as_millis() / 100;
    assert!(updates <= tenths + 2, "{updates} updates in {tenths} tenths of a second");

    world.settle();
    let quiet = *world.engine.changes().borrow();
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(
        *world.engine.changes().borrow(),
        quiet,
        "the state must not change without a request"
    );
}

#[test]
fn a_watch_ends_with_the_daemon() {
    let world = World::new();
    let mut events = world.call("GET", "/v1/memory/events").stream();
    events.next().unwrap();
    world.parts.storage.end_watches();
    assert!(events.next().is_none());
}

#[test]
fn every_byte_is_verified_and_damaged_files_go_into_quarantine() {
    let world = World::new();
    world.chat(json!([user(&LONG.repeat(3))]), json!({"conversation": "locker"}));
    world.until("the KV is on disk", |world| !slots(world).is_empty());
    let whole = world.call("POST", "/v1/slots/verify").json(&json!({})).stream().collect();
    assert_eq!(whole[0]["done_bytes"], 0);
    let result = &whole.last().unwrap()["result"];
    assert_eq!((&result["whole"], &result["quarantined"]), (&json!(true), &json!(0)));
    assert_eq!(result["bytes"], whole[0]["total_bytes"]);

    let damaged = object(&world);
    std::fs::write(&damaged, "not an object").unwrap();
    let body = json!({"conversation": "locker"});
    let events = world.call("POST", "/v1/slots/verify").json(&body).stream().collect();
    let result = &events.last().unwrap()["result"];
    assert_eq!((&result["whole"], &result["quarantined"]), (&json!(false), &json!(1)));
    assert_eq!(result["faults"][0]["path"], damaged.to_string_lossy().as_ref());
    assert_eq!(result["costs"][0]["conversation"], "locker");
    assert!(!damaged.exists());

    let list = world.get("/v1/slots/quarantine").json();
    assert_eq!((&list["data"][0]["bytes"], &list["bytes"]), (&json!(13), &json!(13)));
    assert!(list["data"][0]["reason"].as_str().unwrap().contains("not a Hob object"));
    assert!(list["data"][0]["since"].is_u64());
    let plan = world.post("/v1/slots/quarantine/empty", json!({})).json();
    assert_eq!(plan, json!({"dry_run": true, "files": 1, "freed_bytes": 13}));
    assert_eq!(world.get("/v1/slots/quarantine").json()["data"].as_array().unwrap().len(), 1);
    let done = world.post("/v1/slots/quarantine/empty", json!({"dry_run": false})).json();
    assert_eq!((&done["files"], &done["freed_bytes"]), (&json!(1), &json!(13)));
    assert_eq!(world.get("/v1/slots/quarantine").json()["data"], json!([]));
}

#[test]
fn kv_that_was_damaged_on_disk_and_is_still_hot_is_saved_again() {
    let world = Plan::new().memory_budget(0).start();
    world.chat(json!([user(&LONG.repeat(3))]), json!({"conversation": "locker"}));
    world.until("the KV is on disk", |world| !slots(world).is_empty());
    let damaged = object(&world);
    std::fs::write(&damaged, "not an object").unwrap();
    assert_eq!(verified(&world)["quarantined"], 1);
    let more = json!({"conversation": "locker", "hob": {"append": true}});
    world.chat(json!([user("And again")]), more);
    world.until("all files are whole again", |world| verified(world)["whole"] == true);
    assert!(damaged.exists());
}

#[test]
fn kv_that_was_damaged_on_disk_and_is_parked_is_restored_from_memory() {
    let world = Plan::new().slots(1).start();
    world.chat(json!([user(&LONG.repeat(3))]), json!({"conversation": "locker"}));
    world.until("the KV is on disk", |world| !slots(world).is_empty());
    world.chat(json!([user("Something else")]), json!({"conversation": "other"}));
    std::fs::write(object(&world), "not an object").unwrap();
    assert_eq!(verified(&world)["quarantined"], 1);
    let more = json!({"conversation": "locker", "hob": {"append": true}});
    let answer = world.chat(json!([user("And again")]), more);
    assert_eq!(answer["hob"]["miss"], Value::Null);
    assert!(answer["hob"]["tokens"]["memory"].as_u64().unwrap() > 3 * LONG.len() as u64);
}

#[test]
fn requests_that_mean_nothing_are_refused() {
    let world = World::new();
    let unknown = world.post("/v1/slots/verify", json!({"conversation": "nobody"}));
    assert_eq!((unknown.status, &unknown.error()["code"]), (404, &json!("conversation_not_found")));
    assert_eq!(world.post("/v1/slots/verify", json!({"all": true})).status, 400);
    assert_eq!(world.post("/v1/slots/quarantine/empty", json!({"dryrun": false})).status, 400);
    assert_eq!(world.get("/v1/slots/quarantine?fingerprint=zz").status, 400);
}

fn hot<'m>(map: &'m Value, conversation: &str) -> &'m Value {
    let slots = map["slots"].as_array().unwrap();
    let found = slots.iter().find(|slot| slot["conversation"] == conversation);
    found.unwrap_or(&Value::Null)
}

/// The result of a verification of every byte.
fn verified(world: &World) -> Value {
    let events = world.call("POST", "/v1/slots/verify").json(&json!({})).stream().collect();
    events.last().unwrap()["result"].clone()
}

fn slots(world: &World) -> Vec<Value> {
    world.get("/v1/slots").json()["data"].as_array().unwrap().clone()
}

/// The path of one object on disk.
fn object(world: &World) -> PathBuf {
    let model = world.directory.join("slots").join(crate::common::model().to_string());
    let shard = std::fs::read_dir(model.join("objects")).unwrap().next().unwrap().unwrap().path();
    std::fs::read_dir(shard).unwrap().next().unwrap().unwrap().path()
}
