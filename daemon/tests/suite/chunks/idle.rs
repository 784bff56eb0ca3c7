//! Moved KV is compared with exact KV while hobd answers nothing else.

use std::time::Duration;

use serde_json::{Value, json};

use super::question;
use crate::common::{Plan, World, user};

/// Answers of the profile `reader` that were compared; null before one has moved KV.
fn samples(world: &World) -> Value {
    let status = world.get("/v1/status").json();
    let profiles = status["profiles"].as_array().unwrap();
    profiles.iter().find(|it| it["name"] == "reader").unwrap()["reuse"]["samples"].clone()
}

#[test]
fn an_answer_over_moved_kv_is_compared_once_no_answer_runs() {
    let plan = Plan::new().slots(3).context_tokens(8192).pace(Duration::from_millis(1));
    let world = plan.with_background().start();
    world.profile("reader", "reuse = 'repaired'\n[[segment]]\nlayer = 'rules'\ntext = 'Be kind.'");
    world.reload();
    world.chat(question(&[1, 2, 3]), json!({"conversation": "first"}));
    world.settle();
    let endless = json!({"max_tokens": 5000, "ignore_eos": true});
    let mut running = world.stream(json!([user("Hello")]), endless);
    running.next().unwrap();
    let moved = world.chat(question(&[3, 2, 1]), json!({"hob": {"profile": "reader"}}));
    assert!(moved["hob"]["tokens"]["moved"].as_u64() > Some(0), "{moved}");

    // That it waits however long the other answer runs, a test of `reuse_guard` asserts with another clock.
    drop(running);
    world.until("it is compared", |world| samples(world) == 1);
}
