//! Sessions that are longer than the cells of llama.cpp's cache.
//!
//! A bounded one runs always; `HOB_TEST_ALL=1` runs 66,000 tokens in 8,192 cells.

#![cfg(feature = "llama")]

use hob_runtime::{EngineOptions, FinishReason, TurnError, Way};
use hob_slots::Token;

use crate::support::*;

const TRAINED: usize = 131_072;

fn of_cells(context_tokens: usize) -> EngineOptions {
    EngineOptions { context_tokens, micro_batch: 512, ..options() }
}

/// Text that does not repeat itself.
fn words(from: usize, count: usize) -> Vec<Token> {
    let word = |n: usize| Token(i32::try_from(300 + n * 7919 % 997).expect("small"));
    (from..from + count).map(word).collect()
}

#[test]
fn a_session_goes_on_beyond_its_cells_and_computes_only_what_is_new() {
    let (tokens, cells) =
        if std::env::var_os("HOB_TEST_ALL").is_some() { (66_000, 8_192) } else { (12_000, 2_048) };
    let model = load("fixtures/long.gguf");
    let disk = OnDisk::with(&model, of_cells(cells));
    let (mut timeline, mut out, mut back) = (Vec::new(), 0, 0);
    while timeline.len() < tokens {
        let prompt = [&timeline[..], &words(timeline.len(), 600)].concat();
        let answer = ask(&disk.engine, endless("chat", &prompt, 32));
        assert!(answer.cells.peak <= cells, "{:?}", answer.cells);
        let counts = answer.report.tokens;
        assert_eq!(counts.prompt(), prompt.len());
        // The answer's last token is computed with the next prompt where that comes at once.
        assert!(counts.computed <= prompt.len() - timeline.len() + 1, "{counts:?}");
        let left = answer.moved.iter().filter(|moved| moved.way == Way::Out).count();
        (out, back) = (out + left, back + answer.moved.len() - left);
        timeline = answer.timeline;
    }
    assert!(out > 50, "{out} out, {back} back");
    let off = engine(&model, None, EngineOptions { away: None, ..of_cells(cells) });
    let refused = off.submit(request("chat", &timeline, 1)).unwrap_err();
    let fits =
        matches!(refused, TurnError::TooLong { context_tokens, .. } if context_tokens == cells);
    assert!(fits, "{refused}");
    off.shutdown();
}

#[test]
fn cells_that_llama_cpp_adds_to_the_cache_are_not_used() {
    let cells = 600; // llama.cpp rounds them up to 768.
    let model = load("fixtures/long.gguf");
    let engine = engine(&model, None, of_cells(cells));
    let mut timeline = Vec::new();
    for _ in 0..4 {
        let prompt = [&timeline[..], &words(timeline.len(), 300)].concat();
        let answer = ask(&engine, endless("chat", &prompt, 32));
        assert!(answer.cells.peak <= cells, "{:?}", answer.cells);
        timeline = answer.timeline;
    }
    engine.shutdown();
}

#[test]
#[ignore = "computes 131,072 tokens: 15 s"]
fn an_answer_ends_with_the_trained_context() {
    let model = load("fixtures/long.gguf");
    let engine = engine(&model, None, of_cells(8_192));
    let prompt = words(0, TRAINED - 10);
    let answer = ask(&engine, endless("chat", &prompt, 50));
    assert_eq!((answer.reason, answer.timeline.len()), (FinishReason::Length, TRAINED));
    assert!(answer.cells.peak <= 8_192, "{:?}", answer.cells);
    let refused = engine.submit(request("chat", &words(0, TRAINED + 1), 1)).unwrap_err();
    assert!(matches!(refused, TurnError::TooLong { context_tokens: TRAINED, .. }), "{refused}");
    engine.shutdown();
}
