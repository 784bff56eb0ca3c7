//! Cells that conversations share, beside budgets and blocks that are away: what one conversation does not
//! see never becomes another's, and what it shares counts against its budget.

use std::sync::Arc;

use hob_runtime::{EngineOptions, Model, Purpose, TurnRequest, Way};
use hob_slots::Token;

use crate::support::replay::Replay;
use crate::support::*;

const BUDGET: usize = 400;

fn endless(conversation: &str, prompt: &[Token], budget: Option<usize>) -> TurnRequest {
    TurnRequest { budget, ignore_eog: true, ..request(conversation, prompt, 24) }
}

fn words(model: &Arc<dyn Model>, from: usize, tokens: usize) -> Vec<Token> {
    let text: String = (from..).map(|n| format!("word {n} ")).take(tokens / 5).collect();
    self::tokens(model, &text)[..tokens].to_vec()
}

#[test]
fn what_a_branch_did_not_see_is_not_restored_behind_cells_that_saw_everything() {
    let model = fake();
    let disk = OnDisk::new(&model);
    // Blocks leave at the end of the first prompt, and come back with the second: a part between is impure,
    // and all behind it.
    let first = words(&model, 0, BUDGET - 10);
    let answer = ask(&disk.engine, endless("chat", &first, Some(BUDGET)));
    assert!(answer.moved.iter().any(|moved| moved.way == Way::Out), "{:?}", answer.moved);
    let long = [answer.timeline, words(&model, 1_000, 500)].concat();
    let answer = ask(&disk.engine, endless("chat", &long, None));
    assert_eq!(answer.report.away, [], "all came back");

    settle(&disk.engine);
    // Another branch, and what begins as the first one in another conversation.
    let other = [&long[..750], &words(&model, 2_000, 20)].concat();
    ask(&disk.engine, endless("chat", &other, None));
    settle(&disk.engine);
    for end in (100..=800).step_by(100) {
        ask(&disk.engine, endless("other", &long[..end], None)); // In steps that park no other.
    }
    let back = &long[..880];
    let answer = ask(&disk.engine, endless("chat", back, None));

    let expected = answered_alone(&model, endless("alone", back, None));
    assert_eq!(answer.tokens, expected, "{:?}", answer.report.tokens);
}

#[test]
fn what_is_saved_behind_shared_cells_is_restored_where_the_slot_had_as_many_tokens_before() {
    let model = fake();
    let engine = engine(&model, None, EngineOptions { slots: 3, ..options() });
    let read = |conversation, prompt: &[Token]| ask(&engine, request(conversation, prompt, 0));
    let saved = words(&model, 0, 192);
    read("saved", &saved);
    block_on(engine.park(name("saved")));
    read("chat", &words(&model, 1_000, 64));
    read("hot", &[&saved[..64], &words(&model, 2_000, 5)].concat());
    settle(&engine);

    let prompt = [&saved[..], &words(&model, 3_000, 5)].concat();
    let report = ask(&engine, request("chat", &prompt, 1)).report;
    assert_eq!((report.tokens.shared, report.tokens.memory), (64, 128), "{report:?}");
}

#[test]
fn a_conversation_within_its_budget_begins_with_cells_of_another_that_has_more() {
    let model = fake();
    let disk = OnDisk::new(&model);
    let prompt = words(&model, 0, 1_000);
    ask(&disk.engine, endless("large", &prompt, None));
    let small = [prompt, words(&model, 1_000, 40)].concat();
    let answer = ask(&disk.engine, endless("small", &small, Some(BUDGET)));
    assert!(answer.cells.peak <= BUDGET, "{:?}", answer.cells);
    let ends = model.vocabulary().eog_tokens().to_vec();
    let mut replay = Replay::default();
    replay.saw_everything(&small[..small.len() - answer.report.tokens.computed]);
    assert_eq!(answer.tokens, replay.answer(&*model, &small, &answer, &ends));
}

#[test]
fn a_conversation_within_its_budget_begins_with_a_prefix_that_is_longer() {
    let model = fake();
    let disk = OnDisk::new(&model);
    let prefix = words(&model, 0, 900);
    let prewarm = TurnRequest::prefill(name("profile:tools"), prefix.clone(), Purpose::Prewarm);
    ask(&disk.engine, prewarm);
    for n in 0..3 {
        let prompt = [prefix.clone(), words(&model, 1_000 * n, 60)].concat();
        let answer = ask(&disk.engine, endless(&format!("chat {n}"), &prompt, Some(BUDGET)));
        assert!(answer.cells.peak <= BUDGET, "{:?}", answer.cells);
    }
}

#[test]
fn equal_prompts_at_once_stay_within_their_budgets() {
    let model = fake();
    let disk = OnDisk::new(&model);
    let prompt = words(&model, 0, 1_000);
    let ask = |n: usize| {
        disk.engine.submit(endless(&format!("chat {n}"), &prompt, Some(BUDGET))).unwrap()
    };
    for turn in [0, 1].map(ask) {
        let answer = finish(turn).unwrap();
        assert!(answer.cells.peak <= BUDGET, "{:?}", answer.cells);
    }
}

#[test]
fn a_budget_that_is_lower_than_before_holds_from_the_first_micro_batch_on() {
    let model = fake();
    let disk = OnDisk::new(&model);
    let first = ask(&disk.engine, endless("chat", &words(&model, 0, 1_000), None));
    let prompt = [first.timeline, words(&model, 1_000, 40)].concat();
    let answer = ask(&disk.engine, endless("chat", &prompt, Some(BUDGET)));
    assert!(answer.cells.peak <= BUDGET, "{:?}", answer.cells);
    assert!(answer.report.tokens.computed <= 41, "{:?}", answer.report.tokens);
}

#[test]
fn a_slot_that_cannot_go_back_to_what_is_saved_reports_what_it_computes() {
    let model = fake();
    let disk = OnDisk::new(&model);
    let text = words(&model, 0, 1_040);
    // What is saved saw everything up to a token before the budget. The slot has more, which saw everything.
    let read = |tokens, budget| TurnRequest { max_tokens: 0, ..endless("chat", tokens, budget) };
    ask(&disk.engine, read(&text[..1_000], Some(BUDGET)));
    settle(&disk.engine);
    ask(&disk.engine, TurnRequest { cold: true, ..read(&text[..600], None) });
    settle(&disk.engine);

    // Of these cells, those around that token leave first.
    let before = status(&disk.engine).counters.computed_tokens;
    let answer = ask(&disk.engine, endless("chat", &text, Some(BUDGET)));
    let miss = answer.report.miss.as_ref().expect("more is saved than is used").to_string();
    assert!(miss.contains("cannot go back"), "{miss}");
    let computed = status(&disk.engine).counters.computed_tokens - before;
    assert_eq!(answer.report.tokens.computed as u64, computed, "{:?}", answer.report.tokens);
    check_sum(&answer, &text);
}
