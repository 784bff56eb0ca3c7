//! Prefixes that the daemon prewarms before the first request, over HTTP.

use std::fs;
use std::path::Path;
use std::time::Duration;

use hob_daemon::warm::battery::ReadBattery;
use hob_prewarm::{Battery, ProfileName};
use serde_json::{Value, json};

use crate::common::{Plan, World, user};

const DEFAULT: &str = "[[segment]]\nlayer = 'identity'\ntext = '''\
    You are a kettle on a shelf beside the fire. Answer in one short sentence.'''\n";
const ATTIC: &str = "[[segment]]\nlayer = 'rules'\ntext = 'Speak like a spider, softly.'\n";

#[test]
fn the_first_question_of_each_profile_after_boot_computes_only_the_question() {
    let directory = tempfile::tempdir().unwrap();
    let world = booted(directory.path());
    for profile in ["default", "attic"] {
        let prefix = tokens(&row(&world, profile));
        let body = json!({"conversation": profile, "hob": {"profile": profile}});
        let answer = world.chat(json!([user("Is it dark?")]), body);
        let tokens = &answer["hob"]["tokens"];
        assert!(
            tokens["shared"].as_u64().unwrap() >= prefix,
            "{tokens} for a prefix of {prefix} tokens"
        );
        assert!(
            tokens["computed"].as_u64().unwrap() < 60,
            "{tokens} for a prefix of {prefix} tokens"
        );
    }
}

#[test]
fn the_second_boot_reads_every_prefix_and_computes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let shown = |world: &World| ["default", "attic"].map(|profile| row(world, profile));
    let mut first = booted(directory.path());
    for row in shown(&first) {
        assert_eq!((&row["place"], &row["how"]), (&json!("hot"), &json!("computed")), "{row}");
    }
    first.stop();
    drop(first);

    let second = booted(directory.path());
    for row in shown(&second) {
        assert_eq!((&row["place"], &row["how"]), (&json!("hot"), &json!("disk")), "{row}");
        assert_eq!(row["computed_tokens"], 0, "{row}");
        assert!(row["warmed_at"].as_u64() > Some(1_600_000_000), "{row}");
        assert_eq!(row["error"], Value::Null);
    }
    assert_eq!(second.status().counters.computed_tokens, 0);
}

#[test]
fn metrics_count_prewarms_by_outcome() {
    let directory = tempfile::tempdir().unwrap();
    let world = booted(directory.path());
    let prefix = tokens(&row(&world, "attic"));
    let page = world.get("/metrics").text();
    for line in [
        format!("hob_prefix_tokens{{profile=\"attic\"}} {prefix}"),
        "hob_prewarms_total{result=\"computed\"} 2".to_owned(),
    ] {
        assert!(page.lines().any(|found| found == line), "{line} in\n{page}");
    }
}

#[test]
fn an_evicted_prefix_shows_its_current_place() {
    let directory = tempfile::tempdir().unwrap();
    let world = booted(directory.path());
    let id = ProfileName::default().prefix_id();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(world.engine.park(id.clone()));
    assert_eq!(row(&world, "default")["place"], "warm");
    runtime.block_on(world.engine.forget(id)).unwrap();
    world.until("the prefix is evicted", |world| row(world, "default")["place"] == "none");
    assert_eq!(row(&world, "attic")["place"], "hot");
}

#[test]
fn a_prefix_that_does_not_fit_says_so_and_the_others_are_warm() {
    let directory = tempfile::tempdir().unwrap();
    let long = format!("[[segment]]\nlayer = 'context'\ntext = '{}'\n", "x".repeat(9_000));
    profile(directory.path(), "long", &long);
    let world = booted(directory.path());
    world.until("the prewarm failed", |world| row(world, "long")["error"].is_string());
    let row = row(&world, "long");
    assert_eq!((&row["place"], &row["state"]), (&json!("none"), &json!("waiting")));
    assert!(row["error"].as_str().unwrap().contains("a conversation holds 8192"), "{row}");
}

#[test]
fn a_question_joins_a_prewarm_that_is_under_way_and_nothing_is_computed_twice() {
    const ROWS: u64 = 32;
    let directory = tempfile::tempdir().unwrap();
    let long = format!("[[segment]]\nlayer = 'context'\ntext = '{}'\n", "One fire. ".repeat(60));
    profile(directory.path(), "default", &long);
    let plan = Plan::new().pace(Duration::from_millis(1)).micro_batch(ROWS as usize);
    let world = plan.directory(directory.path()).start();
    let computed = |world: &World| world.status().counters.computed_tokens;
    world.until("a part of the prefix is computed", |world| computed(world) > 3 * ROWS);
    let body = json!({"conversation": "early", "hob": {"profile": "default"}});
    let answer = world.chat(json!([user("Is it dark?")]), body);
    let tokens = &answer["hob"]["tokens"];
    assert!(tokens["shared"].as_u64().unwrap() > 2 * ROWS, "{tokens}");
    world.until("the prefix is warm", |world| row(world, "default")["state"] == "warm");
    let prompt = answer["usage"]["prompt_tokens"].as_u64().unwrap();
    // The micro-batch that ran when the question arrived may have served both.
    let (all, limit) = (computed(&world), prompt + 2 * ROWS);
    assert!(all <= limit, "{all} tokens computed for a prompt of {prompt}");
}

/// A daemon with two warm profiles.
#[test]
fn on_a_low_battery_no_prefix_is_kept_alive() {
    let charged = || Some(Battery { percent: 90, charging: false });
    let low = || Some(Battery { percent: 9, charging: false });
    let touched = |world: &World| row(world, "default")["touched_at"].as_u64().unwrap();
    for (battery, is_low) in [(charged as ReadBattery, false), (low, true)] {
        let directory = tempfile::tempdir().unwrap();
        profile(directory.path(), "default", DEFAULT);
        let plan = Plan::new().directory(directory.path());
        let world = plan.with_clock().battery(battery).start();
        world.until("the prefix is warm", |world| row(world, "default")["state"] == "warm");
        world.chat(json!([user("Hi")]), json!({"conversation": "a", "hob": {"profile": "none"}}));
        world.settle();
        let first = touched(&world);
        // It is parked in the same round of the loop that touches prefixes.
        world.until("the conversation is parked", |world| {
            world.pass(Duration::from_secs(2 * 3600));
            world.status().slots.iter().all(|slot| slot.conversation.is_none())
        });
        if is_low {
            assert!(touched(&world) < first + 3600);
        } else {
            world.until("it is kept alive", |world| touched(world) >= first + 2 * 3600);
        }
    }
}

fn booted(directory: &Path) -> World {
    profile(directory, "default", DEFAULT);
    profile(directory, "attic", ATTIC);
    let world = Plan::new().directory(directory).start();
    let warm = |world: &World, profile: &str| row(world, profile)["state"] == "warm";
    world.until("both are warm", |world| warm(world, "default") && warm(world, "attic"));
    world
}

fn profile(directory: &Path, name: &str, text: &str) {
    fs::create_dir_all(directory.join("profiles")).unwrap();
    fs::write(directory.join("profiles").join(format!("{name}.toml")), text).unwrap();
}

/// The status of a profile's prefix; null before the daemon knows it.
fn row(world: &World, profile: &str) -> Value {
    let status = world.get("/v1/status").json();
    let rows = status["prefixes"].as_array().unwrap();
    rows.iter().find(|row| row["profile"] == profile).cloned().unwrap_or_default()
}

fn tokens(row: &Value) -> u64 {
    row["tokens"].as_u64().unwrap()
}
