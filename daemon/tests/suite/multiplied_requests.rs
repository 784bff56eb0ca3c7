//! Requests whose parts multiply each other, or whose answers are many times as long, given to the built hobd: none
//! takes much memory.

use std::path::Path;

use hob_testkit::{Answer, Client, Hobd, Launch, Memory};
use serde_json::{Value, json};

/// For one request, beyond what the daemon has had before.
const MEMORY_BYTES: u64 = 256 << 20;

/// Asserts that hobd refuses the request, and does not take much memory for it.
pub fn expect_refusal(client: &Client, path: &str, body: &Value, code: &str) {
    let answer = measured(client, path, body);
    assert_eq!((answer.status, &answer.error()["code"]), (400, &json!(code)), "{path}");
}

/// The answer, for which hobd has not taken much memory.
fn measured(client: &Client, path: &str, body: &Value) -> Answer {
    let pid = client.get("/v1/status")["pid"].clone();
    let before = Memory::of(&pid).peak_bytes;
    let answer = client.call("POST", path).json(body).send();
    let taken = Memory::of(&pid).peak_bytes.saturating_sub(before); // The kernel counts roughly.
    assert!(taken < MEMORY_BYTES, "{path}: {} MiB", taken >> 20);
    answer
}

/// A query of 128 KiB for 2,048 texts: before each of them, it would be 512 MiB of tokens at least.
pub fn long_query() -> Value {
    json!({"query": "a ".repeat(64 << 10), "documents": vec!["b"; 2048]})
}

/// Its conversations have as many tokens as its cells.
fn start(directory: &Path) -> Hobd {
    let launch = Launch::new(env!("CARGO_BIN_EXE_hobd"), directory);
    launch.args(["--model", "fake", "--ctx", "4096", "--eviction", "off"]).start()
}

#[test]
fn a_long_query_is_not_tokenized_for_each_of_many_texts() {
    let directory = tempfile::tempdir().unwrap();
    let hobd = start(directory.path());
    expect_refusal(&hobd.client, "/v1/rerank", &long_query(), "unsupported_model");
}

#[test]
fn the_tokens_of_many_prompts_are_not_copied_for_each_answer_before_it_begins() {
    let directory = tempfile::tempdir().unwrap();
    let hobd = start(directory.path());
    // 25 MB of tokens.
    let body = json!({"prompt": vec!["a".repeat(96 << 10); 64], "n": 16});
    expect_refusal(&hobd.client, "/v1/completions", &body, "context_length_exceeded");
}

#[test]
fn a_long_suffix_is_not_written_behind_each_of_many_prompts() {
    let directory = tempfile::tempdir().unwrap();
    let hobd = start(directory.path());
    let behind =
        |prompts: usize| json!({"prompt": vec!["a"; prompts], "suffix": "b".repeat(1 << 20)});
    expect_refusal(&hobd.client, "/v1/completions", &behind(17), "invalid_value");
    // This model has no marks for it.
    expect_refusal(&hobd.client, "/v1/completions", &behind(16), "unsupported_model");
}

#[test]
fn the_tokens_of_a_long_text_are_written_one_by_one() {
    let directory = tempfile::tempdir().unwrap();
    let hobd = start(directory.path());
    let body = json!({"content": "1".repeat(2 << 20), "with_pieces": true});
    let answer = measured(&hobd.client, "/tokenize", &body);
    let entry = r#"{"id":49,"piece":"1"}"#;
    assert_eq!(answer.text().matches(entry).count(), 2 << 20);
}
