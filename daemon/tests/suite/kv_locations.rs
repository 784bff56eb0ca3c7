//! Where a conversation's KV is once it has left its slot, and what says so.

use std::time::Duration;

use serde_json::json;

use crate::common::{Plan, World, computed, user};

#[test]
fn more_conversations_than_slots_come_back_from_memory() {
    let world = Plan::new().slots(1).start();
    let say = |id: &str, message: &str| {
        world.chat(json!([user(message)]), json!({"conversation": id, "hob": {"append": true}}))
    };
    say("a", &"Long enough to matter. ".repeat(10));
    say("b", "Other");
    let back = say("a", "Go on");
    assert!(back["hob"]["tokens"]["memory"].as_u64().unwrap() > 200, "{back}");
    assert!(computed(&back) < 60);
}

#[test]
fn a_silent_conversation_is_parked() {
    let world = Plan::new().parks_after(Duration::from_millis(50)).start();
    world.chat(json!([user("Hello")]), json!({"conversation": "a"}));
    world.until("the conversation is parked", |world| {
        world.status().slots.iter().all(|slot| slot.conversation.is_none())
    });
    assert_eq!(world.get("/v1/conversations/a").json()["place"], "memory");
}

#[test]
fn lists_and_status_tell_the_tier_that_a_restore_reads() {
    let directory = tempfile::tempdir().unwrap();
    let start = || Plan::new().slots(1).directory(directory.path());
    let say = |world: &World, id: &str| {
        let long = user(&format!("I am {id}. {}", "Long enough to matter. ".repeat(20)));
        world.chat(json!([long]), json!({"conversation": id, "hob": {"append": true}}));
        world.settle();
    };
    let tier = |world: &World| {
        let listed = world.get("/v1/conversations/a").json();
        let status = world.get("/v1/status").json();
        let parked = status["parked"].as_array().unwrap().iter();
        let parked = parked.clone().find(|parked| parked["conversation"] == "a").cloned();
        let slots = world.get("/v1/slots").json();
        let saved = slots["data"].as_array().unwrap().iter();
        let saved = saved.clone().find(|saved| saved["conversation"] == "a").cloned().unwrap();
        (listed, parked, saved["state"].as_str().unwrap().to_owned())
    };

    let mut world = start().start();
    say(&world, "a");
    let (listed, parked, state) = tier(&world);
    assert_eq!((&listed["place"], &listed["tier"]), (&json!("slot"), &json!("hot")), "{listed}");
    assert_eq!((parked, state.as_str()), (None, "hot"));
    say(&world, "b");
    let (listed, parked, state) = tier(&world);
    assert_eq!((&listed["place"], &listed["tier"]), (&json!("memory"), &json!("warm")), "{listed}");
    assert_eq!((&parked.unwrap()["tier"], state.as_str()), (&json!("warm"), "warm"));
    world.stop();
    drop(world);

    // Restored from disk and parked: only the newest turn is in memory.
    let mut world = start().start();
    say(&world, "a");
    say(&world, "b");
    let (listed, parked, state) = tier(&world);
    assert_eq!((&listed["place"], &listed["tier"]), (&json!("disk"), &json!("cold")), "{listed}");
    assert!(listed["memory_tokens"].as_u64() > Some(0), "{listed}");
    assert!(listed["disk_tokens"].as_u64() > Some(300), "{listed}");
    assert_eq!((&parked.unwrap()["tier"], state.as_str()), (&json!("cold"), "cold"));
    world.stop();
    drop(world);

    // Without memory for KV all of it is on disk.
    let world = start().memory_budget(0).start();
    say(&world, "a");
    say(&world, "b");
    let (listed, parked, state) = tier(&world);
    assert_eq!((&listed["place"], &listed["memory_tokens"]), (&json!("disk"), &json!(0)));
    assert_eq!((&parked.unwrap()["tier"], state.as_str()), (&json!("cold"), "cold"));
}
