//! What the next question may need is read from disk to memory while an answer is written.

use hob_testkit::wait;
use serde_json::json;

use crate::budget::{BUDGET, outgrow, start};
use crate::common::{chat_body, user};

#[test]
fn what_is_next_to_the_blocks_in_use_is_read_while_an_answer_is_written() {
    let directory = tempfile::tempdir().unwrap();
    let mut hobd = start(directory.path());
    let before = outgrow(&hobd, &json!({"key": "the first"}));
    let away = &before.last().unwrap()["hob"]["cells"]["away"];
    assert!(!away.as_array().unwrap().is_empty(), "{before:?}");
    hobd.process.terminate(wait::PATIENCE);

    let hobd = start(directory.path()); // All blocks are on disk alone.
    let bytes_read = || {
        let page = hobd.client.get_text("/metrics");
        let mut lines = page.lines();
        let bytes = lines.find_map(|it| it.strip_prefix("hob_disk_read_ahead_bytes_total "));
        bytes.unwrap().parse::<u64>().unwrap()
    };
    assert_eq!(bytes_read(), 0);
    // Its answer takes 30 seconds: 10 ms a token.
    let question = user("Say this slowly: question 2 was about number 15838");
    let extra = json!({
        "conversation": "chat", "hob": {"append": true, "budget": BUDGET}, "stream": true,
        "max_tokens": 3000, "ignore_eos": true,
    });
    let body = chat_body(json!([question]), extra);
    let call = hobd.client.call("POST", "/v1/chat/completions");
    let mut answer = call.json(&body).stream();
    wait::until("blocks are read", || (bytes_read() > 0).then_some(()));
    let status = hobd.client.get("/v1/status");
    let mut slots = status["slots"].as_array().unwrap().iter();
    assert!(slots.any(|slot| slot["state"] == "decoding"), "{status}");
    assert!(answer.next().is_some(), "it goes on");
}
