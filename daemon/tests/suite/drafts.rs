//! Guessed tokens of answers, through the built hobd: on by default, reported everywhere, and without
//! a trace in the answer.

#![cfg(feature = "llama")]

use hob_testkit::{Hobd, Launch};
use serde_json::{Value, json};
use tempfile::TempDir;

fn start(flags: &[&str]) -> (Hobd, TempDir) {
    start_with("bundled", flags)
}

fn start_with(model: &str, flags: &[&str]) -> (Hobd, TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let launch = Launch::new(env!("CARGO_BIN_EXE_hobd"), directory.path());
    let launch = launch.args(["--model", model, "--ctx", "2048"]).args(flags.iter().copied());
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

/// One word is likelier than all others, so each guess is right; how many are made depends on measured
/// times. Wrong ones are in runtime/tests/suite/drafts.rs.
#[test]
fn a_model_with_a_running_state_guesses_ahead_and_its_answer_is_the_same() {
    for fixture in ["lfm2", "mamba"] {
        let model = format!("{}/../assets/fixtures/{fixture}.gguf", env!("CARGO_MANIFEST_DIR"));
        let (on, _on) = start_with(&model, &[]);
        let (off, _off) = start_with(&model, &["--draft", "off"]);
        let [answer, expected] = [&on, &off].map(|hobd| {
            hobd.client.chat(&json!({
                "messages": [{"role": "user", "content": "Say it again and again."}],
                "logit_bias": {"300": 100},
                "temperature": 0, "max_tokens": 600, "ignore_eos": true, "conversation": "words",
            }))
        });
        let text = |answer: &Value| answer["choices"][0]["message"]["content"].clone();
        assert_eq!(text(&answer), text(&expected), "{fixture}");
        let drafts = &answer["hob"]["drafts"];
        let [drafted, accepted] = ["drafted", "accepted"].map(|it| drafts[it].as_u64().unwrap());
        assert!(accepted > 0 && drafted >= accepted, "{fixture}: {drafts}");
        assert_eq!(expected["hob"]["drafts"]["drafted"], 0, "{fixture}");
        // What was guessed is saved and continued like any other text.
        let goes_on = |hobd: &Hobd| {
            hobd.client.chat(&json!({
                "messages": [{"role": "user", "content": "And now?"}], "hob": {"append": true},
                "temperature": 0, "max_tokens": 16, "conversation": "words",
            }))
        };
        let [next, expected] = [&on, &off].map(goes_on);
        assert_eq!(text(&next), text(&expected), "{fixture}");
        assert!(next["hob"]["tokens"]["computed"].as_u64().unwrap() < 100, "{next}");
    }
}
