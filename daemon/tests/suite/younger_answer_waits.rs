//! Two answers that do not fit the cache together: the younger one waits, and no part of either leaves.

use hob_testkit::{Launch, Stream};
use serde_json::{Value, json};

use crate::common::user;

/// Each answer fits these alone; both prompts and half of both answers do not.
const CELLS: &str = "768";

#[test]
fn the_younger_of_two_answers_waits_before_parts_of_either_leave() {
    let directory = tempfile::tempdir().unwrap();
    let launch = Launch::new(env!("CARGO_BIN_EXE_hobd"), directory.path());
    let launch = launch.args(["--model", "fake", "--ctx", CELLS, "--slots", "2"]).with_faults();
    let hobd = launch.start();
    // The answer repeats it.
    let story = |name: &str| {
        let words: String = (0..60).map(|n| format!("{name}{n:02} ")).collect();
        words.trim_end().to_owned()
    };
    // Both are queued before the engine computes a token of either: a stream begins when it is queued.
    let paused = launch.inject("engine", "wait");
    let asked = ["ab", "cd"].map(|name| {
        let question = user(&format!("Say this: {}", story(name)));
        let body = json!({
            "conversation": name, "messages": [question], "temperature": 0, "stream": true,
        });
        hobd.client.call("POST", "/v1/chat/completions").json(&body).stream()
    });
    paused.end();
    for (chunks, name) in asked.map(Stream::collect).iter().zip(["ab", "cd"]) {
        let said =
            |chunk: &Value| chunk["choices"][0]["delta"]["content"].as_str().map(str::to_owned);
        assert_eq!(chunks.iter().filter_map(said).collect::<String>(), story(name));
        let answer = chunks.last().unwrap();
        assert_eq!(answer["hob"]["tokens"]["away"], 0, "{answer}");
        assert_eq!(answer["hob"]["cells"]["away"], json!([]), "{answer}");
        assert_eq!(answer["hob"]["moved"], json!([]), "{answer}");
    }
    let status = hobd.client.get("/v1/status");
    let counters = &status["counters"];
    assert!(counters["preempted"].as_u64().unwrap() > 0, "{counters}");
    assert_eq!(counters["blocks_out"], 0, "{counters}");
}
