//! A conversation that goes on as a new timeline: the engine moves its own KV to it, also impure KV, again and
//! again. It moves KV of no other conversation, and no other conversation finds the moved KV.

use std::sync::Arc;

use hob_runtime::backend::MemoryKind;
use hob_runtime::{Model, Retention, Reuse, TurnRequest};
use hob_slots::Token;
use hob_slots::content::Repair;
use hob_slots::content::repair::HEAD;

use crate::support::*;

/// Of a message.
const TOKENS: usize = 280;

/// Text in which each window occurs once.
fn message(number: usize) -> String {
    let words = (0..TOKENS).map(|n| format!("{number}.{n} "));
    words.collect::<String>().chars().take(TOKENS).collect()
}

/// A timeline of these messages, behind instructions.
fn timeline(model: &Arc<dyn Model>, messages: &[usize]) -> Vec<Token> {
    let texts = messages.iter().map(|&number| user(&message(number)));
    let front = std::iter::once(user("Be kind."));
    tokens(model, &front.chain(texts).collect::<String>())
}

fn reanchored(conversation: &str, prompt: &[Token]) -> TurnRequest {
    TurnRequest { reanchored: true, ..request(conversation, prompt, 8) }
}

/// The newest two of `messages`, and the next.
fn newest(messages: &[usize]) -> Vec<usize> {
    let last = messages[messages.len() - 1];
    vec![last - 1, last, last + 1]
}

#[test]
fn each_new_timeline_is_made_of_moved_kv_also_of_what_was_moved_before_and_after_restarts() {
    let model = fake();
    let mut tiers = OnDisk::new(&model);
    let mut messages = vec![1, 2, 3];
    ask(&tiers.engine, request("chat", &timeline(&model, &messages), 8));
    for round in 0..6 {
        settle(&tiers.engine);
        if round % 2 == 1 {
            tiers.restart();
        }
        messages = newest(&messages);
        let prompt = timeline(&model, &messages);
        let answer = ask(&tiers.engine, reanchored("chat", &prompt));
        check_sum(&answer, &prompt);
        let counts = answer.report.tokens;
        assert!(counts.moved > 2 * (TOKENS - HEAD), "round {round}: {counts:?}");
        assert_eq!(counts.repaired, HEAD, "round {round}: {counts:?}");
        assert!(counts.computed < TOKENS + 2 * HEAD, "round {round}: {counts:?}");
        // It goes on with that.
        let next = then(&model, &answer.timeline, "And then?");
        let hot = ask(&tiers.engine, reanchored("chat", &next));
        // The last token of the answer was not computed.
        assert!(hot.report.tokens.shared + 1 >= answer.timeline.len(), "round {round}");
    }
}

#[test]
fn what_left_comes_back_moved_behind_the_newest_part() {
    let model = fake();
    let tiers = OnDisk::new(&model);
    ask(&tiers.engine, request("chat", &timeline(&model, &[1, 2, 3, 4]), 8));
    settle(&tiers.engine);
    let answer = ask(&tiers.engine, reanchored("chat", &timeline(&model, &[3, 4, 5])));
    settle(&tiers.engine);
    let mut with_first = answer.timeline.clone();
    with_first.extend(tokens(&model, &user(&message(1))));
    let recalled = then(&model, &with_first, "What was that?");
    let answer = ask(&tiers.engine, reanchored("chat", &recalled));
    check_sum(&answer, &recalled);
    let counts = answer.report.tokens;
    assert!(counts.shared > 3 * TOKENS && counts.moved > TOKENS - 2 * HEAD, "{counts:?}");
}

#[test]
fn kv_of_another_conversation_is_not_moved_unless_the_request_takes_it() {
    let model = fake();
    let tiers = OnDisk::new(&model);
    ask(&tiers.engine, request("other", &timeline(&model, &[1, 2, 3]), 8));
    settle(&tiers.engine);
    let prompt = timeline(&model, &[3, 2]);
    let own = ask(&tiers.engine, reanchored("own", &prompt));
    assert_eq!(own.report.tokens.moved, 0, "{:?}", own.report.tokens);
    assert_eq!(own.tokens, alone(&model, &prompt, 8));
    let asked = TurnRequest {
        reuse: Reuse::Repaired(Repair::default()),
        ..reanchored("asking", &timeline(&model, &[2, 1]))
    };
    let moved = ask(&tiers.engine, asked).report.tokens.moved;
    assert!(moved > TOKENS, "{moved}");
}

#[test]
fn another_conversation_never_finds_the_kv_of_a_new_timeline() {
    let model = fake();
    let mut tiers = OnDisk::new(&model);
    ask(&tiers.engine, request("chat", &timeline(&model, &[1, 2, 3]), 8));
    settle(&tiers.engine);
    let prompt = timeline(&model, &[2, 3, 4]);
    let moved = ask(&tiers.engine, reanchored("chat", &prompt));
    settle(&tiers.engine);
    let expected = alone(&model, &prompt, 8);
    assert_ne!(moved.tokens, expected, "the fake sees where KV was computed");
    let impure = tiers.block_names("chat");
    for conversation in ["hot", "again", "restarted"] {
        tiers.assert_exact(conversation, &prompt, &expected, &impure);
        block_on(tiers.engine.forget(name(conversation))).unwrap();
        tiers.restart();
    }
    // Message 4 exists behind moved KV alone: it is no source for others, whatever they take.
    let repaired = TurnRequest {
        reuse: Reuse::Repaired(Repair::default()),
        ..reanchored("third", &timeline(&model, &[5, 4]))
    };
    assert_eq!(ask(&tiers.engine, repaired).report.tokens.moved, 0);
    let own = ask(&tiers.engine, reanchored("chat", &timeline(&model, &[6, 4])));
    assert!(own.report.tokens.moved > TOKENS - 2 * HEAD, "{:?}", own.report.tokens);
}

#[test]
fn a_turn_in_memory_moves_the_impure_kv_of_the_conversation_that_it_names_and_gives_it_to_none() {
    let model = fake();
    let tiers = OnDisk::new(&model);
    let mut messages = vec![1, 2, 3];
    let mut prompt = timeline(&model, &messages);
    ask(&tiers.engine, request("chat", &prompt, 8));
    for _ in 0..3 {
        settle(&tiers.engine);
        messages = newest(&messages);
        prompt = timeline(&model, &messages);
        ask(&tiers.engine, reanchored("chat", &prompt));
    }
    settle(&tiers.engine);
    let written = status(&tiers.engine).counters.written_bytes;
    let beside = |conversation: &str, source: Option<&str>| {
        let keep = Retention { in_memory: Some(true), ..Retention::default() };
        let sources_of = source.map(name);
        let asked = TurnRequest { sources_of, keep, ..reanchored(conversation, &prompt) };
        let answer = ask(&tiers.engine, asked);
        settle(&tiers.engine);
        check_sum(&answer, &prompt);
        answer
    };
    let expected = alone(&model, &prompt, 8);
    let named = beside("named", Some("chat"));
    assert!(named.report.tokens.moved > 2 * (TOKENS - HEAD), "{:?}", named.report.tokens);
    assert_ne!(named.tokens, expected, "the fake sees where KV was computed");
    assert_eq!(status(&tiers.engine).counters.written_bytes, written);
    // It is there yet, and none of it is found by its text.
    let unnamed = beside("unnamed", None);
    assert_eq!((unnamed.report.tokens.moved, &unnamed.tokens), (0, &expected));
    assert_eq!(ask(&tiers.engine, request("other", &prompt, 8)).tokens, expected);
}

#[test]
fn a_budget_is_never_exceeded_while_timelines_change() {
    const BUDGET: usize = 560;
    let model = fake();
    let tiers = OnDisk::new(&model);
    let budget = |asked| TurnRequest { budget: Some(BUDGET), ..asked };
    let mut messages = vec![1, 2, 3];
    ask(&tiers.engine, budget(request("chat", &timeline(&model, &messages), 8)));
    for _ in 0..4 {
        messages = newest(&messages);
        let prompt = timeline(&model, &messages);
        let answer = ask(&tiers.engine, budget(reanchored("chat", &prompt)));
        check_sum(&answer, &prompt);
        assert!(answer.cells.peak <= BUDGET, "{:?}", answer.cells);
        assert!(answer.report.tokens.moved > 0, "{:?}", answer.report.tokens);
    }
}

#[test]
fn a_model_whose_kv_cannot_be_moved_computes_its_new_timeline_and_says_why() {
    for memory in [MemoryKind::Windowed, MemoryKind::Hybrid, MemoryKind::Recurrent] {
        let model = of_memory(memory);
        let tiers = OnDisk::new(&model);
        ask(&tiers.engine, request("chat", &timeline(&model, &[1, 2, 3]), 8));
        settle(&tiers.engine);
        let prompt = timeline(&model, &[2, 3, 4]);
        let answer = ask(&tiers.engine, reanchored("chat", &prompt));
        assert_eq!(answer.tokens, alone(&model, &prompt, 8), "{memory}");
        let why = answer.report.immovable.expect("it says why").to_string();
        assert!(why.contains(&memory.to_string()), "{why}");
    }
}
