//! Prompts in flight: their order.

mod support;

use std::sync::Arc;
use std::time::Duration;

use hob_runtime::backend::fake::{BatchLog, FakeModel};
use hob_runtime::backend::{MemoryKind, Row};
use hob_runtime::{Engine, EngineOptions, Model, Turn};
use hob_slots::Token;
use support::*;

const ROWS: usize = 32;

/// A model whose micro-batches take some 6 ms, and the log of them.
fn slow(memory: MemoryKind) -> (Arc<dyn Model>, BatchLog) {
    let log = BatchLog::default();
    let model = FakeModel::new().with_memory(memory).with_pace(Duration::from_micros(200));
    (Arc::new(model.with_batch_log(log.clone())), log)
}

fn start(model: &Arc<dyn Model>) -> Engine {
    engine(model, None, EngineOptions { slots: 4, micro_batch: ROWS, ..options() })
}

/// A text of `count` tokens.
fn text(model: &Arc<dyn Model>, word: &str, count: usize) -> Vec<Token> {
    tokens(model, &word.repeat(count))[..count].to_vec()
}

/// Waits until `count` more micro-batches have begun.
fn wait_for_batches(log: &BatchLog, count: usize) {
    let until = log.lock().len() + count;
    while log.lock().len() < until {
        std::thread::sleep(Duration::from_micros(100));
    }
}

/// Rows of the micro-batch that compute tokens of `prompt` and of no other.
fn rows_of(batch: &[Row], prompt: &[Token]) -> usize {
    batch.iter().filter(|row| prompt.get(row.position) == Some(&row.token)).count()
}

fn finish_all<const N: usize>(turns: [Turn; N]) -> [Answer; N] {
    turns.map(|turn| finish(turn).expect("the turn succeeds"))
}

#[test]
fn a_short_prompt_passes_a_long_one_within_a_micro_batch() {
    let (model, log) = slow(MemoryKind::Plain);
    let engine = start(&model);
    let (long, short) = (text(&model, "a", 1500), text(&model, "b", 20));
    let long = engine.submit(request("long", &long, 1)).unwrap();
    wait_for_batches(&log, 3);
    let short_turn = engine.submit(request("short", &short, 1)).unwrap();
    let begun = log.lock().len();
    finish(short_turn).unwrap();
    let first = log.lock().iter().position(|batch| rows_of(batch, &short) > 0).unwrap();
    // The one that had begun, and one that was planned before the short prompt arrived.
    assert!(first <= begun + 1, "{first} after {begun}");
    assert_eq!(rows_of(&log.lock()[first], &short), short.len(), "all of it");
    finish(long).unwrap();
    engine.shutdown();
}

#[test]
fn shorter_prompts_do_not_starve_a_long_one() {
    let (model, log) = slow(MemoryKind::Plain);
    let engine = start(&model);
    let prompts =
        [("a", 640), ("b", 500), ("c", 500)].map(|(word, count)| text(&model, word, count));
    let turns =
        [0, 1, 2].map(|n| engine.submit(request(&format!("chat {n}"), &prompts[n], 1)).unwrap());
    finish_all(turns);
    engine.shutdown();

    let log = log.lock();
    let last = |n: usize| log.iter().rposition(|batch| rows_of(batch, &prompts[n]) > 0).unwrap();
    assert!(last(1) < last(2) && last(2) < last(0), "the shortest first");
    for (n, prompt) in prompts.iter().enumerate() {
        let served: Vec<usize> =
            (0..=last(n)).filter(|&at| rows_of(&log[at], prompt) >= ROWS / 2).collect();
        let longest = served.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap();
        assert!(longest <= 10, "prompt {n} waited for {longest} micro-batches");
    }
}
