//! A draft model, through the built hobd on llama.cpp: the same answers, reported everywhere, resumed
//! after a restart, and a reason where it does not draft.
//!
//! No model here is so much smaller than another that its guesses pay: hobd ignores the time, so that it
//! guesses always.

#![cfg(feature = "llama")]

use std::fs;
use std::path::{Path, PathBuf};

use hob_testkit::{Hobd, Launch, asset, files, wait};
use serde_json::{Value, json};

use crate::common::merged;

const CHAT: &str = "chat";

fn launch(directory: &Path, flags: &[&str]) -> Launch {
    let launch = Launch::new(env!("CARGO_BIN_EXE_hobd"), directory).ignoring_time();
    let launch = launch.separate_slots();
    launch.args(["--threads", "1", "--ctx", "2048"]).args(flags.iter().copied())
}

fn with_drafter(directory: &Path, drafter: &Path) -> Hobd {
    launch(directory, &["--draft-model", &drafter.display().to_string()]).start()
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is a number"))
}

/// What the model is asked, one after the other, in one conversation: greedily, drawn, by a grammar and
/// with tools; then the second message is edited, and the answer to it made once more.
fn talk(hobd: &Hobd) -> Vec<Value> {
    let asked = |request: Value| {
        let answer = hobd.client.chat(&request);
        let message = answer["choices"][0]["message"].clone();
        (answer, message)
    };
    let say = |text: &str, more: Value| {
        let request = json!({
            "conversation": CHAT, "hob": {"append": true}, "temperature": 0, "max_tokens": 60,
            "messages": [{"role": "user", "content": text}],
        });
        asked(merged(request, &more))
    };
    let (first, one) = say("My locker code is 48213. What is the capital of Peru?", json!({}));
    let (second, two) = say("What is my locker code?", json!({"temperature": 0.9, "seed": 7}));
    let schema = json!({"type": "object", "properties": {"code": {"type": "integer"}},
        "required": ["code"], "additionalProperties": false});
    let format = json!({"type": "json_schema", "json_schema": {"name": "code", "schema": schema}});
    let (_, three) = say("What is my locker code?", json!({"response_format": format}));
    let light = json!({"type": "function", "function": {"name": "set_light", "parameters": {
        "type": "object", "properties": {"room": {"type": "string"}, "state": {"enum": ["on", "off"]}},
        "required": ["room", "state"]}}});
    let (_, four) = say("Turn on the light.", json!({"tools": [light], "tool_choice": "required"}));
    let after = first["hob"]["message"].as_u64().unwrap();
    let edited = json!({"hob": {"append": true, "after": after}});
    let (_, five) = say("What is the opposite of hot?", edited.clone());
    let (_, six) = say("What is the opposite of hot?", edited);
    assert!(second["hob"]["drafts"]["model_drafted"].is_u64(), "{second}");
    vec![one, two, three, four, five, six]
}

fn without_ids(mut messages: Vec<Value>) -> Vec<Value> {
    for message in &mut messages {
        for call in message["tool_calls"].as_array_mut().into_iter().flatten() {
            call["id"] = Value::Null;
        }
    }
    messages
}

#[test]
fn answers_are_those_without_a_draft_model_and_its_guesses_are_counted() {
    let expected = {
        let directory = tempfile::tempdir().unwrap();
        without_ids(talk(&launch(directory.path(), &["--draft", "off"]).start()))
    };
    for (drafter, is_right) in [("hob-tiny-f16.gguf", true), ("fixtures/qwen3.gguf", false)] {
        let directory = tempfile::tempdir().unwrap();
        let hobd = with_drafter(directory.path(), &asset(drafter));
        assert_eq!(without_ids(talk(&hobd)), expected, "{drafter}");

        let status = hobd.client.get("/v1/status");
        let its = &status["draft_model"];
        assert!(its["refused"].is_null(), "{its}");
        assert_ne!(its["fingerprint"], status["fingerprint"]);
        let [drafted, accepted] = ["drafted_tokens", "accepted_tokens"].map(|it| number(&its[it]));
        assert!(drafted > 0 && accepted <= drafted, "{its}");
        assert!(2 * accepted > drafted || !is_right, "{drafter}: {its}");
        let metrics = hobd.client.get_text("/metrics");
        for line in [
            format!("hob_draft_model_drafted_tokens_total {drafted}"),
            format!("hob_draft_model_accepted_tokens_total {accepted}"),
        ] {
            assert!(metrics.lines().any(|found| found == line), "{line} in\n{metrics}");
        }
    }
}

#[test]
fn a_class_is_set_of_the_kv_of_both_models() {
    let directory = tempfile::tempdir().unwrap();
    let hobd = with_drafter(directory.path(), &asset("hob-tiny-f16.gguf"));
    hobd.client.chat(&json!({
        "conversation": CHAT, "temperature": 0, "max_tokens": 60,
        "messages": [{"role": "user", "content": "My locker code is 48213. What is the capital of Peru?"}],
    }));
    let saved = || hobd.client.get("/v1/slots")["data"].as_array().unwrap().clone();
    wait::until("both are saved", || (saved().len() == 2).then_some(()));
    let asked = json!({"conversation": CHAT, "class": "short"});
    let done = hobd.client.post("/v1/slots/class", &asked);
    let changed = done["changed"].as_array().unwrap().len();
    assert_eq!((&done["skipped"], changed), (&json!([]), 2), "{done}");
    wait::until("both have the class", || {
        saved().iter().all(|slot| slot["class"] == "short").then_some(())
    });
}

#[test]
fn after_a_restart_the_draft_model_reads_nothing_twice_and_a_deletion_takes_its_kv() {
    let directory = tempfile::tempdir().unwrap();
    let drafter = asset("hob-tiny-f16.gguf");
    let mut hobd = with_drafter(directory.path(), &drafter);
    let text = "My locker code is 48213. The weather is fine today. ".repeat(8);
    let long = |question: &str| {
        json!({
            "conversation": CHAT, "hob": {"append": true}, "temperature": 0, "max_tokens": 200,
            "ignore_eos": true, "messages": [{"role": "user", "content": question}],
        })
    };
    // A short answer may end before the draft model has heard that nothing is saved.
    let first = hobd.client.chat(&long(&format!("{text}What is my locker code?")));
    let held = number(&first["usage"]["total_tokens"]);
    let its = hobd.client.get("/v1/status")["draft_model"].clone();
    assert!(number(&its["computed_tokens"]) > 90 && its["restored_tokens"] == 0, "{its}");
    hobd.process.terminate(wait::PATIENCE);

    let hobd = with_drafter(directory.path(), &drafter);
    let next = hobd.client.chat(&long("What is the capital of Peru?"));
    let its = hobd.client.get("/v1/status")["draft_model"].clone();
    let [restored, computed] = ["restored_tokens", "computed_tokens"].map(|it| number(&its[it]));
    assert!(restored + 20 > held, "{its}: {held} tokens were held");
    assert!(computed <= number(&next["usage"]["total_tokens"]) - restored, "{its}: {next}");

    let kept = directory.path().join("slots").join(its["fingerprint"].as_str().unwrap());
    assert!(!files::with_extension(&kept, "kv").is_empty());
    let gone = hobd.client.call("DELETE", &format!("/v1/conversations/{CHAT}")).send();
    assert!(gone.status < 300, "{}", gone.text());
    for kind in ["kv", "bin"] {
        assert!(files::with_extension(&kept, kind).is_empty(), "{kind}");
    }
}

#[test]
fn a_model_with_a_running_state_is_served_without_a_draft_model_and_says_why() {
    for (model, memory) in [("lfm2", "hybrid"), ("mamba", "recurrent")] {
        let directory = tempfile::tempdir().unwrap();
        let model = asset(&format!("fixtures/{model}.gguf")).display().to_string();
        let drafter = asset("fixtures/qwen3.gguf").display().to_string();
        let flags = ["--model", &model, "--draft-model", &drafter];
        let hobd = launch(directory.path(), &flags).start();
        let its = hobd.client.get("/v1/status")["draft_model"].clone();
        let refused = its["refused"].as_str().unwrap_or_else(|| panic!("{its}"));
        assert!(refused.contains(&format!("the model's memory is {memory}")), "{refused}");
        // With random weights, an answer has no end of its own.
        let answer = hobd.client.chat(&json!({
            "messages": [{"role": "user", "content": "What is the capital of Peru?"}], "max_tokens": 8,
        }));
        assert_eq!(answer["hob"]["drafts"]["model_drafted"], 0, "{answer}");
    }
}

/// A fixture whose vocabulary has one other word.
fn with_another_word(directory: &Path) -> PathBuf {
    let mut bytes = fs::read(asset("fixtures/qwen3.gguf")).unwrap();
    let word = b"\xc4\xa0guess"; // Its length is before it, and another word follows.
    let at = bytes.windows(word.len()).position(|found| found == word).unwrap();
    bytes[at + word.len() - 1] = b'z';
    let path = directory.join("other-words.gguf");
    fs::write(&path, bytes).unwrap();
    path
}

#[test]
fn a_draft_model_that_does_not_fit_is_refused_by_name_and_the_model_serves() {
    let directory = tempfile::tempdir().unwrap();
    let other = with_another_word(directory.path());
    let missing = directory.path().join("missing.gguf");
    for (drafter, name, reason) in [
        (other, None, "Ġguesz"),
        (asset("fixtures/gemma3.gguf"), None, "its memory is sliding-window"),
        (missing.clone(), Some(missing.display().to_string()), "missing.gguf"),
    ] {
        let hobd = with_drafter(directory.path(), &drafter);
        let status = hobd.client.get("/v1/status");
        let its = &status["draft_model"];
        let refused = its["refused"].as_str().unwrap_or_else(|| panic!("{its}"));
        let reason = reason.replace('Ġ', " ");
        assert!(refused.contains(&reason), "{refused}");
        assert!(name.is_none_or(|name| its["name"] == name), "{its}");
        assert!(its["fingerprint"].is_null());
        let answer = hobd.client.say(CHAT, "What is the capital of Peru?");
        assert_eq!(answer["hob"]["drafts"]["model_drafted"], 0, "{answer}");
    }
}
