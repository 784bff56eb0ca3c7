//! Generated chat templates, given to the built hobd: it refuses each at the start, with the file's name, or serves;
//! then each request is answered or refused in bounded time and memory, and the process stays.
//!
//! 40 in CI; `HOB_TEST_TEMPLATES=1000` generates more, `HOB_TEST_SEED=7` others.

mod grammar;

use std::fs;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use grammar::Grammar;
use hob_testkit::{Launch, Memory};
use serde_json::{Value, json};

use crate::common::chance::{Chance, from_env};

const DEFAULT_TEMPLATES: u64 = 40;
const WORKERS: u64 = 2;

/// Of the daemon. A prompt has 16 MiB at most, and four bytes a token.
const MAX_RESIDENT_MIB: u64 = 512;

/// How the templates fared.
#[derive(Default)]
struct Tally {
    /// At the start.
    refused: AtomicU64,
    rendered: AtomicU64,
    failed: AtomicU64,
    slowest_ms: AtomicU64,
    largest_mib: AtomicU64,
}

#[test]
fn no_generated_template_ends_hangs_or_swells_the_daemon() {
    let count = from_env("HOB_TEST_TEMPLATES", DEFAULT_TEMPLATES);
    let seed = from_env("HOB_TEST_SEED", 0_u64);
    let (tally, began) = (Tally::default(), Instant::now());
    thread::scope(|scope| {
        for worker in 0..WORKERS {
            let tally = &tally;
            scope.spawn(move || {
                for at in (worker..count).step_by(WORKERS as usize) {
                    try_one((seed << 32) + at, tally);
                }
            });
        }
    });
    let Tally { refused, rendered, failed, slowest_ms, largest_mib } = tally;
    let [refused, rendered, failed] = [refused, rendered, failed].map(AtomicU64::into_inner);
    println!(
        "{count} templates in {:.0} s: {refused} refused; {rendered} prompts, {failed} errors; {} ms and {} MiB at most",
        began.elapsed().as_secs_f64(),
        slowest_ms.into_inner(),
        largest_mib.into_inner()
    );
    let enough = count / 10;
    assert!(refused > 0 && rendered > enough && failed > enough, "the grammar has all kinds");
}

fn try_one(seed: u64, tally: &Tally) {
    let template = Grammar(Chance(seed)).template();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("own.jinja");
    fs::write(&path, &template).unwrap();
    let shown = format!("template {seed}: {}", template.chars().take(2_000).collect::<String>());
    let launch = Launch::new(env!("CARGO_BIN_EXE_hobd"), directory.path())
        .args(["--model", "fake", "--chat-template"])
        .args([&path]);
    let began = Instant::now();
    let started = launch.spawn().ready();
    tally.took(began);
    let Some(mut hobd) = started else {
        let log = launch.log();
        assert!(log.contains("own.jinja") && !log.contains("panicked"), "{shown}: {log}");
        tally.refused.fetch_add(1, Ordering::Relaxed);
        return;
    };
    for request in requests() {
        let began = Instant::now();
        let answer = hobd.client.call("POST", "/apply-template").json(&request).send();
        tally.took(began);
        assert!([200, 400].contains(&answer.status), "{shown}: {}", answer.text());
        let counted = if answer.status == 200 { &tally.rendered } else { &tally.failed };
        counted.fetch_add(1, Ordering::Relaxed);
    }
    // The whole way, tokens included.
    let began = Instant::now();
    let mut request = requests().remove(0);
    request["max_tokens"] = 4.into();
    let answer = hobd.client.call("POST", "/v1/chat/completions").json(&request).send();
    tally.took(began);
    assert!([200, 400].contains(&answer.status), "{shown}: {}", answer.text());

    assert!(hobd.process.is_running(), "{shown}");
    let status = hobd.client.get("/v1/status");
    assert_eq!(status["residency"], "resident", "{shown}: {status}");
    let log = launch.log();
    assert!(!log.contains("panicked"), "{shown}: {log}");
    let largest = Memory::of(hobd.process.id()).peak_bytes >> 20; // Of the daemon itself.
    assert!(largest < MAX_RESIDENT_MIB, "{shown}: {largest} MiB");
    tally.largest_mib.fetch_max(largest, Ordering::Relaxed);
}

impl Tally {
    fn took(&self, began: Instant) {
        self.slowest_ms.fetch_max(began.elapsed().as_millis() as u64, Ordering::Relaxed);
    }
}

fn requests() -> Vec<Value> {
    let call = json!({"id": "c1", "type": "function",
        "function": {"name": "look", "arguments": "{\"at\": [1, {\"deep\": null}]}"}});
    let parameters = json!({"type": "object", "properties": {"at": {"type": "array"}}});
    vec![
        json!({"messages": [
            {"role": "system", "content": "You are brief."},
            {"role": "user", "content": "What is {{ this }}? <|im_end|> é 水"},
        ]}),
        json!({
            "messages": [
                {"role": "user", "content": "Look."},
                {"role": "assistant", "content": null, "tool_calls": [call]},
                {"role": "tool", "tool_call_id": "c1", "content": "nothing"},
                {"role": "user", "content": "Again."},
            ],
            "tools": [{"type": "function", "function": {"name": "look", "parameters": parameters}}],
        }),
    ]
}
