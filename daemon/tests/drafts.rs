//! Guessed tokens of answers, through the built hobd: on by default, reported everywhere, and without
//! a trace in the answer.

#![cfg(feature = "llama")]

use hob_testkit::{Hobd, Launch};
use serde_json::{Value, json};
use tempfile::TempDir;

fn start(flags: &[&str]) -> (Hobd, TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let launch = Launch::new(env!("CARGO_BIN_EXE_hobd"), directory.path());
    let launch = launch.args(["--model", "bundled", "--ctx", "2048"]).args(flags.iter().copied());
    (launch.start(), directory)
}

/// Far beyond its end, the small model repeats itself.
fn endless(hobd: &Hobd) -> Value {
    hobd.client.chat(&json!({
        "messages": [{"role": "user", "content": "Say it again and again: the lamp is on."}],
        "temperature": 0, "max_tokens": 400, "ignore_eos": true,
    }))
}

#[test]
fn an_answer_that_repeats_itself_is_guessed_ahead_and_is_the_same() {
    let (on, _on) = start(&[]);
    let (off, _off) = start(&["--draft", "off"]);
    let [answer, expected] = [&on, &off].map(endless);
    let text = |answer: &Value| answer["choices"][0]["message"]["content"].clone();
    assert_eq!(text(&answer), text(&expected));

    let drafts = &answer["hob"]["drafts"];
    let [drafted, accepted] = ["drafted", "accepted"].map(|name| drafts[name].as_u64().unwrap());
    assert!(accepted > 0 && drafted >= accepted, "{drafts}");
    let details = &answer["usage"]["completion_tokens_details"];
    assert_eq!(details["accepted_prediction_tokens"], accepted, "{details}");
    assert_eq!(details["rejected_prediction_tokens"], drafted - accepted, "{details}");
    let counters = &on.client.get("/v1/status")["counters"];
    assert_eq!(counters["drafted_tokens"], drafted, "{counters}");
    assert_eq!(counters["accepted_tokens"], accepted, "{counters}");
    let metrics = on.client.get_text("/metrics");
    for line in [
        format!("hob_drafted_tokens_total {drafted}"),
        format!("hob_accepted_tokens_total {accepted}"),
    ] {
        assert!(metrics.lines().any(|found| found == line), "{line} in\n{metrics}");
    }
    let none = json!({"drafted": 0, "accepted": 0, "model_drafted": 0, "model_accepted": 0});
    assert_eq!(expected["hob"]["drafts"], none);
}
