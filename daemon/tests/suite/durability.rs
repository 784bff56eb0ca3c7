//! hobd loses no text: not when a client disconnects, a process ends, or all KV is gone.

use std::time::Duration;

use rusqlite::Connection;
use serde_json::json;

use crate::common::{Plan, computed, roles_and_texts, user};

#[test]
fn text_is_on_the_disk_before_the_first_word_is_shown() {
    let world = Plan::new().pace(Duration::from_millis(2)).start();
    for round in 0..5 {
        let said = format!("Message {round}");
        let extra = json!({"conversation": "a", "hob": {"append": true}});
        let mut stream = world.stream(json!([user(&said)]), extra);
        stream.next().unwrap();
        let database = Connection::open(world.directory.join("transcripts.sqlite")).unwrap();
        let stored: i64 = database
            .query_row(
                "SELECT count(*) FROM messages WHERE content LIKE ?1",
                [format!("%{said}%")],
                |row| row.get(0),
            )
            .unwrap();
        assert_eq!(stored, 1);
        stream.collect();
    }
}

#[test]
fn an_answer_whose_client_disconnected_is_saved_as_far_as_it_came() {
    let world = Plan::new().pace(Duration::from_millis(5)).start();
    let extra = json!({"conversation": "a", "max_tokens": 2000, "ignore_eos": true});
    let mut stream = world.stream(json!([user("Hello")]), extra);
    let mut received = String::new();
    while received.chars().count() < 5 {
        let chunk = stream.next().unwrap();
        received.push_str(chunk["choices"][0]["delta"]["content"].as_str().unwrap_or_default());
    }
    drop(stream);
    world.until("the answer is interrupted", |world| {
        world.conversation("a")["messages"][1]["status"] == "interrupted"
    });
    let conversation = world.conversation("a");
    let stored = conversation["messages"][1]["content"].as_str().unwrap().to_owned();
    assert!(stored.starts_with(&received), "{stored:?} must start with {received:?}");

    // The conversation continues after the partial answer, whose tokens are still recorded.
    let next =
        world.chat(json!([user("Go on")]), json!({"conversation": "a", "hob": {"append": true}}));
    assert!(
        next["usage"]["prompt_tokens_details"]["cached_tokens"].as_u64().unwrap() as usize
            > stored.len()
    );
}

#[test]
fn the_same_question_after_a_lost_answer_is_no_second_message() {
    let directory = tempfile::tempdir().unwrap();
    let mut world = Plan::new().directory(directory.path()).start();
    world.chat(json!([user("Hello")]), json!({"conversation": "a"}));
    world.stop();
    drop(world);
    let database = Connection::open(directory.path().join("transcripts.sqlite")).unwrap();
    let lost = json!({"role": "assistant", "content": ""}).to_string();
    database
        .execute("UPDATE messages SET status = 'streaming', content = ?1 WHERE id = 2", [lost])
        .unwrap();
    drop(database);

    let world = Plan::new().directory(directory.path()).start();
    let append = || json!({"conversation": "a", "hob": {"append": true}});
    world.chat(json!([user("Hello")]), append());
    let stored = world.conversation("a");
    assert_eq!(stored["messages"][1]["status"], "interrupted");
    let users = roles_and_texts(&stored).into_iter().filter(|(role, _)| role == "user").count();
    assert_eq!(users, 1);
    assert_eq!(stored["messages"][2]["parent"], 1);
}

#[test]
fn the_next_turn_after_a_restart_computes_only_new_tokens() {
    let directory = tempfile::tempdir().unwrap();
    let start = || Plan::new().directory(directory.path()).start();
    let append = || json!({"conversation": "a", "hob": {"append": true}});
    let mut world = start();
    let first = world.chat(json!([user(&"Remember this. ".repeat(20))]), append());
    world.stop();
    drop(world);

    let world = start();
    let listed = world.get("/v1/conversations").json();
    assert_eq!(listed["data"][0]["place"], "disk", "{listed}");
    let second = world.chat(json!([user("Go on")]), append());
    let tokens = &second["hob"]["tokens"];
    assert!(tokens["disk"].as_u64() > first["usage"]["prompt_tokens"].as_u64(), "{second}");
    assert!(computed(&second) < 60, "{second}");
    assert_eq!(roles_and_texts(&world.conversation("a")).len(), 4);
    assert!(world.get("/metrics").text().contains("hob_restore_full_prefill_total 0"));
}

#[test]
fn losing_every_kv_file_loses_no_text() {
    let directory = tempfile::tempdir().unwrap();
    let mut world = Plan::new().directory(directory.path()).start();
    let append = || json!({"conversation": "a", "hob": {"append": true}});
    world.chat(json!([user("Hello")]), append());
    world.stop();
    drop(world);
    std::fs::remove_dir_all(directory.path().join("slots")).unwrap();

    let world = Plan::new().directory(directory.path()).start();
    let second = world.chat(json!([user("Go on")]), append());
    assert_eq!(second["usage"]["prompt_tokens_details"]["cached_tokens"], 0);
    assert_eq!(roles_and_texts(&world.conversation("a")).len(), 4);
}
