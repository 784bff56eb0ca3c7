//! LoRA adapters of the configuration, through the built hobd on llama.cpp.
#![cfg(feature = "llama")]

use std::fs;
use std::path::{Path, PathBuf};

use hob_testkit::{Gguf, Hobd, Launch, wait};
use serde_json::{Value, json};

/// Of the bundled model: columns and rows of its `attn_q` weights.
const WIDTH: usize = 192;
const RANK: usize = 4;

const QUESTION: &str = "What is your name?";

fn adapter(directory: &Path, architecture: &str) -> PathBuf {
    let path = directory.join(format!("{architecture}.gguf"));
    let wave = |count: usize, step: f32| -> Vec<f32> {
        (0..count).map(|at| (at as f32 * step).sin() * 0.5).collect()
    };
    let file = Gguf::empty()
        .text("general.type", "adapter")
        .text("general.architecture", architecture)
        .text("adapter.type", "lora")
        .float("adapter.lora.alpha", RANK as f32);
    let file =
        (0..2).fold(file, |file, layer| {
            let weight = format!("blk.{layer}.attn_q.weight");
            file.tensor(&format!("{weight}.lora_a"), [WIDTH, RANK], &wave(WIDTH * RANK, 0.7))
                .tensor(&format!("{weight}.lora_b"), [RANK, WIDTH], &wave(WIDTH * RANK, 1.3))
        });
    file.write(&path);
    path
}

fn launch(directory: &Path, adapters: &[String]) -> Launch {
    let launch = Launch::new(env!("CARGO_BIN_EXE_hobd"), directory);
    let launch = launch.args(["--threads", "1", "--ctx", "512", "--model", "bundled"]);
    adapters.iter().fold(launch, |launch, adapter| launch.args(["--lora", adapter]))
}

/// The log-probabilities of the first token of an answer.
fn ask(hobd: &Hobd, conversation: &str) -> Value {
    let body = json!({"conversation": conversation, "max_tokens": 1, "temperature": 0,
        "logprobs": true, "top_logprobs": 5, "messages": [{"role": "user", "content": QUESTION}]});
    let answer = hobd.client.call("POST", "/v1/chat/completions").json(&body).send();
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()["choices"][0]["logprobs"]["content"][0]["top_logprobs"].clone()
}

/// Whether two models give the same, but for rounding: other micro-batches add in another order.
fn are_equal(one: &Value, other: &Value) -> bool {
    let tokens = |answer: &Value| {
        let tokens = answer.as_array().unwrap().iter();
        let of = |token: &Value| (token["token"].clone(), token["logprob"].as_f64().unwrap());
        tokens.map(of).collect::<Vec<_>>()
    };
    let pairs = tokens(one).into_iter().zip(tokens(other));
    pairs
        .into_iter()
        .all(|((token, logprob), (same, near))| token == same && (logprob - near).abs() < 0.01)
}

fn fingerprint(hobd: &Hobd) -> Value {
    hobd.client.get("/v1/status")["fingerprint"].clone()
}

#[test]
fn an_adapter_changes_the_model_and_its_fingerprint_by_its_factor() {
    let directory = tempfile::tempdir().unwrap();
    let file = adapter(directory.path(), "llama").display().to_string();
    let with = |adapters: &[String]| {
        let hobd = launch(directory.path(), adapters).start();
        (ask(&hobd, "room"), fingerprint(&hobd))
    };
    let (plain, plain_name) = with(&[]);
    let (adapted, adapted_name) = with(std::slice::from_ref(&file));
    let (without_effect, other_name) = with(&[format!("{file}=0")]);
    assert!(!are_equal(&adapted, &plain), "{adapted} {plain}");
    assert!(are_equal(&without_effect, &plain), "{without_effect} {plain}");
    assert!(plain_name != adapted_name && other_name != adapted_name && other_name != plain_name);
    let (again, same_name) = with(&[file]);
    assert!(are_equal(&again, &adapted), "{again} {adapted}");
    assert_eq!(same_name, adapted_name);
}

#[test]
fn an_adapter_that_does_not_fit_is_refused_by_name() {
    let directory = tempfile::tempdir().unwrap();
    let other = adapter(directory.path(), "gemma3").display().to_string();
    let damaged = directory.path().join("damaged.gguf");
    fs::write(&damaged, b"GGUF, or not").unwrap();
    let missing = directory.path().join("missing.gguf");
    for file in [&other, &damaged.display().to_string(), &missing.display().to_string()] {
        let adapters = [file.clone()];
        let output = launch(directory.path(), &adapters)
            .command()
            .args(["--listen", "127.0.0.1:0"])
            .output()
            .unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{error}");
        assert!(error.contains(file.as_str()) && error.contains("setting lora"), "{error}");
    }
}

#[test]
fn an_adapter_that_was_replaced_is_not_taken_for_the_one_before() {
    let directory = tempfile::tempdir().unwrap();
    let file = adapter(directory.path(), "llama");
    let launch = launch(directory.path(), &[file.display().to_string()]);
    let hobd = launch.args(["--unload-after", "1s"]).start();
    ask(&hobd, "room");
    wait::until("the weights are unloaded", || {
        (hobd.client.get("/v1/status")["residency"] == "unloaded").then_some(())
    });
    let mut bytes = fs::read(&file).unwrap();
    bytes.extend([0; 32]);
    fs::write(&file, bytes).unwrap();
    let body = json!({"messages": [{"role": "user", "content": QUESTION}], "max_tokens": 1});
    let refused = hobd.client.call("POST", "/v1/chat/completions").json(&body).send();
    assert!(refused.status >= 500, "{}", refused.text());
    assert!(refused.text().contains("has changed since it was loaded first"), "{}", refused.text());
}
