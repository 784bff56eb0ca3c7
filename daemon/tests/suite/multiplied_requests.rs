//! Requests whose parts multiply each other, given to the built hobd: each is refused before all of them together take
//! memory.

use hob_testkit::{Client, Launch, Memory};
use serde_json::{Value, json};

/// For one request, beyond what the daemon has had before.
const MEMORY_BYTES: u64 = 256 << 20;

/// Asserts that hobd refuses the request, and does not take much memory for it.
pub fn expect_refusal(client: &Client, path: &str, body: &Value, code: &str) {
    let pid = client.get("/v1/status")["pid"].clone();
    let before = Memory::of(&pid).peak_bytes;
    let answer = client.call("POST", path).json(body).send();
    assert_eq!((answer.status, &answer.error()["code"]), (400, &json!(code)), "{path}");
    let taken = Memory::of(&pid).peak_bytes.saturating_sub(before); // The kernel counts roughly.
    assert!(taken < MEMORY_BYTES, "{path}: {} MiB", taken >> 20);
}

/// A query of 128 KiB for 2,048 texts: before each of them, it would be 512 MiB of tokens at least.
pub fn long_query() -> Value {
    json!({"query": "a ".repeat(64 << 10), "documents": vec!["b"; 2048]})
}

#[test]
fn a_long_query_is_not_tokenized_for_each_of_many_texts() {
    let directory = tempfile::tempdir().unwrap();
    let launch = Launch::new(env!("CARGO_BIN_EXE_hobd"), directory.path());
    let hobd = launch.args(["--model", "fake"]).start();
    expect_refusal(&hobd.client, "/v1/rerank", &long_query(), "unsupported_model");
}
