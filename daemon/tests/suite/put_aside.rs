//! Two answers that do not fit the cache together: the younger one waits, and no part of either leaves.

use std::thread;

use hob_testkit::Launch;
use serde_json::{Value, json};

use crate::common::{text, user};

/// Each answer fits these alone; both prompts and half of both answers do not.
const CELLS: &str = "768";

#[test]
fn the_younger_of_two_answers_waits_before_parts_of_either_leave() {
    let directory = tempfile::tempdir().unwrap();
    let launch = Launch::new(env!("CARGO_BIN_EXE_hobd"), directory.path());
    let hobd = launch.args(["--model", "fake", "--ctx", CELLS, "--slots", "2"]).start();
    // The answer repeats it, and takes 10 ms a token: three seconds, in which the other one begins.
    let story = |name: &str| {
        let words: String = (0..60).map(|n| format!("{name}{n:02} ")).collect();
        words.trim_end().to_owned()
    };
    let answers: Vec<Value> = thread::scope(|scope| {
        let ask = |name: &'static str| {
            let (client, story) = (&hobd.client, story(name));
            scope.spawn(move || {
                let question = user(&format!("Say this slowly: {story}"));
                client
                    .chat(&json!({"conversation": name, "messages": [question], "temperature": 0}))
            })
        };
        let asked = ["ab", "cd"].map(ask);
        asked.map(|asked| asked.join().unwrap()).into()
    });
    for (answer, name) in answers.iter().zip(["ab", "cd"]) {
        assert_eq!(text(answer), story(name), "{answer}");
        assert_eq!(answer["hob"]["tokens"]["away"], 0, "{answer}");
        assert_eq!(answer["hob"]["cells"]["away"], json!([]), "{answer}");
        assert_eq!(answer["hob"]["moved"], json!([]), "{answer}");
    }
    let status = hobd.client.get("/v1/status");
    let counters = &status["counters"];
    assert!(counters["preempted"].as_u64().unwrap() > 0, "{counters}");
    assert_eq!(counters["blocks_out"], 0, "{counters}");
}
