//! Guessed tokens of answers, through the built hobd: on by default, reported everywhere, and without
//! a trace in the answer.

#![cfg(feature = "llama")]

use hob_testkit::{Hobd, Launch, asset};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::common::merged;

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
fn endless(hobd: &Hobd, hob: &Value) -> Value {
    hobd.client.chat(&json!({
        "messages": [{"role": "user", "content": "Say it again and again: the lamp is on."}],
        "temperature": 0, "max_tokens": 400, "ignore_eos": true, "hob": hob,
    }))
}

fn text(answer: &Value) -> &Value {
    &answer["choices"][0]["message"]["content"]
}

/// What an answer without a guessed token reports.
fn no_drafts() -> Value {
    json!({
        "drafted": 0, "accepted": 0, "model_drafted": 0, "model_accepted": 0,
        "mtp_drafted": 0, "mtp_accepted": 0,
    })
}

#[test]
fn an_answer_that_repeats_itself_is_guessed_ahead_and_is_the_same() {
    let (on, _on) = start(&[]);
    let (off, _off) = start(&["--draft", "off"]);
    let [answer, expected] = [&on, &off].map(|hobd| endless(hobd, &json!({})));
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
    assert_eq!(expected["hob"]["drafts"], no_drafts());
}

#[test]
fn a_request_or_its_profile_goes_without_guesses_and_has_the_same_answer() {
    let profiles = tempfile::tempdir().unwrap();
    let plain = "draft = false\n[[segment]]\nlayer = 'rules'\ntext = 'Be kind.'";
    std::fs::write(profiles.path().join("plain.toml"), plain).unwrap();
    let (hobd, _directory) = start(&["--profiles-dir", profiles.path().to_str().unwrap()]);
    let expected = endless(&hobd, &json!({}));
    assert_ne!(expected["hob"]["drafts"]["drafted"], 0, "{expected}");
    // Its prompt is computed as the other's was.
    let answer = endless(&hobd, &json!({"draft": false, "cold": true}));
    assert_eq!(answer["hob"]["drafts"], no_drafts(), "{answer}");
    assert_eq!(text(&answer), text(&expected));

    // One word is likelier than all others, so each guess is right.
    let repeats = |path: &str, prompt: Value, hob: &Value| {
        let body = json!({
            "logit_bias": {"300": 100}, "temperature": 0, "max_tokens": 600, "ignore_eos": true,
            "hob": hob,
        });
        hobd.client.call("POST", path).json(&merged(body, &prompt)).send()
    };
    let chat = json!({"messages": [{"role": "user", "content": "Say it again and again."}]});
    let chat = |hob: &Value| repeats("/v1/chat/completions", chat.clone(), hob);
    let complete = |hob: &Value| repeats("/v1/completions", json!({"prompt": "Again and"}), hob);
    let drafted = |answer: hob_testkit::Answer| {
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()["hob"]["drafts"]["drafted"].as_u64().unwrap()
    };
    assert_eq!(drafted(chat(&json!({"profile": "plain"}))), 0);
    assert!(drafted(chat(&json!({"profile": "plain", "draft": true}))) > 0);
    assert_eq!(drafted(complete(&json!({"draft": false}))), 0);
    assert!(drafted(complete(&json!({}))) > 0);
    for answer in [chat(&json!({"draft": "off"})), complete(&json!({"draft": 0}))] {
        assert_eq!((answer.status, &answer.error()["param"]), (400, &json!("hob.draft")));
    }
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

/// The fixtures are so small that no guess pays for its time: hobd ignores it, so that the head guesses always.
#[test]
fn the_mtp_head_of_a_file_guesses_by_default_and_its_answer_is_the_same() {
    for fixture in ["mtp-plain", "mtp-hybrid"] {
        let model = asset(&format!("fixtures/{fixture}.gguf")).display().to_string();
        let started = |flags: &[&str]| {
            let directory = tempfile::tempdir().unwrap();
            let launch = Launch::new(env!("CARGO_BIN_EXE_hobd"), directory.path()).ignoring_time();
            let launch = launch.args(["--model", &model, "--ctx", "2048", "--threads", "1"]);
            (launch.args(flags.iter().copied()).start(), directory)
        };
        let (on, _on) = started(&[]);
        let (off, _off) = started(&["--draft-mtp", "false"]);
        let [answer, expected] = [&on, &off].map(|hobd| {
            hobd.client.chat(&json!({
                "messages": [{"role": "user", "content": "What is the capital of Peru?"}],
                "temperature": 0, "max_tokens": 160, "ignore_eos": true,
            }))
        });
        assert_eq!(text(&answer), text(&expected), "{fixture}");
        assert_eq!(expected["hob"]["drafts"]["mtp_drafted"], 0, "{fixture}");
        assert_eq!(off.client.get("/v1/status")["mtp"], Value::Null, "{fixture}");

        let drafts = &answer["hob"]["drafts"];
        let [drafted, accepted] =
            ["mtp_drafted", "mtp_accepted"].map(|it| drafts[it].as_u64().unwrap());
        assert!(accepted > 40 && drafted > accepted, "{fixture}: {drafts}");
        let heads = &on.client.get("/v1/status")["mtp"];
        assert_eq!(heads["refused"], Value::Null, "{fixture}: {heads}");
        assert_eq!(heads["drafted_tokens"], drafted, "{fixture}: {heads}");
        assert_eq!(heads["accepted_tokens"], accepted, "{fixture}: {heads}");
        let metrics = on.client.get_text("/metrics");
        for line in [
            format!("hob_mtp_drafted_tokens_total {drafted}"),
            format!("hob_mtp_accepted_tokens_total {accepted}"),
        ] {
            assert!(metrics.lines().any(|found| found == line), "{line} in\n{metrics}");
        }
    }
}
