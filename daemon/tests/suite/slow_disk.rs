//! A disk that is too slow for what must leave the cells of a conversation: its turn waits, others are answered, and
//! nothing is lost.

use std::thread;

use hob_testkit::{Launch, wait};
use serde_json::json;

use crate::common::home::saved;
use crate::common::{chat_body, text};

/// Cells of the conversation.
const BUDGET: u64 = 400;

/// The KV of three blocks: a token of the fake model has 16 bytes.
const UNSAVED_BYTES: u64 = 3_000;

#[test]
fn a_turn_whose_blocks_must_leave_waits_for_the_disk_and_others_do_not() {
    let directory = tempfile::tempdir().unwrap();
    let launch = Launch::new(env!("CARGO_BIN_EXE_hobd"), directory.path());
    let launch = launch.args(["--model", "fake", "--ctx", "4096", "--slots", "2"]);
    let launch = launch.with_faults().with_unsaved_bytes(UNSAVED_BYTES);
    let hobd = launch.start();
    let slow = launch.inject("writer", "wait");

    let words: String = (0..300).map(|n| format!("word{n} ")).collect();
    let messages = json!([{"role": "user", "content": words}]);
    let body = chat_body(messages, json!({"conversation": "long", "hob": {"budget": BUDGET}}));
    let client = hobd.client.clone();
    let asked =
        thread::spawn(move || client.call("POST", "/v1/chat/completions").json(&body).send());
    wait::until("as much KV waits for the disk as may", || {
        let status = hobd.client.get("/v1/status");
        let bytes = |name: &str| status[name].as_u64().unwrap();
        (bytes("unsaved_bytes") >= bytes("unsaved_budget_bytes")).then_some(())
    });
    for n in 0..3 {
        let answer = hobd.client.say("short", &format!("Say this: number {n}"));
        assert_eq!(text(&answer), format!("number {n}"));
    }
    assert!(hobd.client.is_busy("long") && !asked.is_finished(), "it waits for the disk");

    slow.end();
    let answer = asked.join().unwrap();
    assert_eq!(answer.status, 200, "{}", answer.text());
    let answer = answer.json();
    let count = |name: &str| answer["usage"][name].as_u64().unwrap();
    assert!(count("prompt_tokens") > 4 * BUDGET, "{answer}");
    assert!(answer["hob"]["cells"]["peak"].as_u64().unwrap() <= BUDGET, "{answer}");
    assert_eq!(hobd.client.get("/v1/status")["counters"]["dropped_tokens"], 0);
    let tokens = count("prompt_tokens") + count("completion_tokens");
    wait::until("all of it is on disk", || {
        let row = saved(&hobd.client, "long")?;
        // The last token of an answer that was cut by its length is not computed.
        (row["tokens"].as_u64().unwrap() + 1 >= tokens).then_some(())
    });
}
