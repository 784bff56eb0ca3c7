//! The budget of a conversation beside the cells of the cache: which one counts, and which are refused.

use hob_runtime::{EngineOptions, FinishReason, Retention, TurnError, TurnRequest};
use hob_slots::Layer;
use hob_slots::format::SegmentRef;

use crate::eviction::{BUDGET, ends, question};
use crate::support::replay::Replay;
use crate::support::*;

#[test]
fn a_conversation_without_a_budget_has_the_cells_of_the_cache() {
    let model = fake();
    let cells = EngineOptions { context_tokens: 512, ..options() };
    let disk = OnDisk::with(&model, cells.clone());
    let (mut timeline, mut replay) = (Vec::new(), Replay::default());
    for n in 0..16 {
        let prompt = [timeline, tokens(&model, &question(n))].concat();
        let endless = endless("chat", &prompt, 24);
        let answer = ask(&disk.engine, endless);
        let expected = replay.answer(&*model, &prompt, &answer, &ends(&model));
        assert_eq!(answer.tokens, expected, "turn {n}: {:?}", answer.moved);
        timeline = answer.timeline;
    }
    assert!(timeline.len() > 1024);
    let off = engine(&model, None, EngineOptions { away: None, ..cells });
    let refused = off.submit(request("chat", &timeline, 1)).unwrap_err();
    assert!(matches!(refused, TurnError::TooLong { context_tokens: 512, .. }), "{refused}");
    off.shutdown();
}

#[test]
fn a_budget_that_is_too_small_is_refused_with_what_needs_how_much() {
    let model = fake();
    let engine = engine(&model, None, options());
    let prompt = tokens(&model, &question(1));
    let small = TurnRequest { budget: Some(40), ..request("chat", &prompt, 4) };
    let error = engine.submit(small).unwrap_err().to_string();
    assert!(
        error.starts_with("a budget of 40 cells is too small: 64 of attention sinks"),
        "{error}"
    );
    engine.shutdown();
}

#[test]
fn what_must_stay_and_does_not_fit_the_cache_is_refused_at_once_with_what_needs_how_much() {
    let model = fake();
    let cells = EngineOptions { context_tokens: 512, ..options() };
    let engine = engine(&model, None, cells);
    let system = tokens(&model, &"word ".repeat(120));
    let prompt = [system.clone(), tokens(&model, &question(1))].concat();
    let segments = vec![SegmentRef::new(system.len() as u32, Layer::Identity, "message 1")];
    let keep = Retention { segments, ..Retention::default() };
    // No budget lends it more cells than the cache has.
    for budget in [None, Some(BUDGET), Some(10_000)] {
        let request = TurnRequest { budget, keep: keep.clone(), ..request("chat", &prompt, 4) };
        let error = engine.submit(request).map(finish).expect_err("it is not queued");
        let message = error.to_string();
        assert!(
            message.starts_with(
                "a cache of 512 cells is too small: 64 of attention sinks, 576 of protected parts, "
            ),
            "{budget:?}: {message}"
        );
        assert!(message.contains("a micro-batch of 64 need "), "{budget:?}: {message}");
        assert!(message.contains("start with a larger --ctx"), "{budget:?}: {message}");
        assert!(!message.contains("hob.budget"), "{budget:?}: {message}");
    }
    engine.shutdown();
}

#[test]
fn a_budget_above_the_cells_of_the_cache_is_as_good_as_none() {
    let model = fake();
    let cells = EngineOptions { context_tokens: 512, ..options() };
    let engine = engine(&model, None, cells);
    // It fits the cache, but not beside a micro-batch.
    let prompt = tokens(&model, &"word ".repeat(100));
    let segments = vec![SegmentRef::new(prompt.len() as u32, Layer::Identity, "message 1")];
    let keep = Retention { segments, ..Retention::default() };
    let mut answers = Vec::new();
    for budget in [None, Some(512), Some(10_000)] {
        let request = TurnRequest { budget, keep: keep.clone(), ..request("chat", &prompt, 24) };
        let answer = ask(&engine, TurnRequest { ignore_eog: true, ..request });
        assert_eq!(answer.cells.budget, 512);
        answers.push((answer.tokens, answer.reason));
        block_on(engine.forget(name("chat"))).unwrap();
    }
    assert_eq!(answers[0].1, FinishReason::Length, "the cache is full");
    assert!(answers.iter().all(|answer| *answer == answers[0]), "{answers:?}");
    engine.shutdown();
}
