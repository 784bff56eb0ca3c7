//! Answers over moved KV beside exact ones.

use std::sync::Arc;

use hob_runtime::likeness::Measured;
use hob_runtime::{Model, Retention, TurnRequest};
use hob_slots::Token;
use hob_slots::content::Repair;

use crate::support::*;

/// Text in which each window occurs once.
fn document(number: usize) -> String {
    (0..40).map(|n| format!("{number}.{n} ")).collect()
}

fn prompt(model: &Arc<dyn Model>, order: &[usize]) -> Vec<Token> {
    let texts: Vec<String> = order.iter().map(|&number| document(number)).collect();
    tokens(model, &user(&format!("{}\nWhat?", texts.join("\n"))))
}

fn anonymous(prompt: &[Token]) -> TurnRequest {
    TurnRequest::answer(None, prompt.to_vec(), 8)
}

#[test]
fn an_exact_answer_is_that_of_a_cold_engine_and_leaves_no_kv() {
    let model = fake();
    let tiers = OnDisk::new(&model);
    let asked = anonymous(&prompt(&model, &[1, 2]));
    let exact = block_on(Measured::exactly(&tiers.engine, &asked)).unwrap();
    assert_eq!(exact.tokens.computed, asked.prompt.len(), "{:?}", exact.tokens);
    let after = ask(&tiers.engine, asked.clone());
    assert_eq!((after.report.tokens.cached(), &after.text), (0, &exact.text));
    // Now there is KV of it, which it does not use.
    let again = block_on(Measured::exactly(&tiers.engine, &asked)).unwrap();
    assert_eq!((again.tokens.computed, again.text), (asked.prompt.len(), exact.text));
}

#[test]
fn equal_answers_are_alike_and_those_over_moved_kv_are_told_apart() {
    let model = fake();
    let tiers = OnDisk::new(&model);
    ask(&tiers.engine, request("first", &prompt(&model, &[1, 2, 3]), 8));
    settle(&tiers.engine);
    let asked = anonymous(&prompt(&model, &[3, 1, 2]));
    let exact = block_on(Measured::exactly(&tiers.engine, &asked)).unwrap();
    let beside = |repair| {
        let compared = exact.beside_moved(&tiers.engine, &asked, name("compared"), repair);
        block_on(compared).unwrap()
    };
    // The fake sees where KV was computed.
    let moved = beside(Repair::default());
    assert!(moved.tokens.moved > 100 && moved.agreement() < 1.0, "{moved:?}");
    assert!(moved.mean_divergence() > 0.0 && moved.mean_f1() < 1.0, "{moved:?}");
    // Computing all is exact. What was moved before does not show, nor that the same was asked before.
    let full = beside(Repair::Full);
    assert_eq!((full.tokens.moved, full.compared, full.agreeing), (0, 8, 8));
    assert_eq!((full.mean_divergence(), full.mean_f1()), (0.0, 1.0));
    assert_eq!(beside(Repair::default()).tokens.moved, moved.tokens.moved);
}

#[test]
fn a_private_prompt_stays_private() {
    let model = fake();
    let tiers = OnDisk::new(&model);
    let keep = Retention { in_memory: Some(true), ..Retention::default() };
    let asked = TurnRequest { keep, ..anonymous(&prompt(&model, &[1, 2])) };
    let exact = block_on(Measured::exactly(&tiers.engine, &asked)).unwrap();
    let compared = exact.beside_moved(&tiers.engine, &asked, name("compared"), Repair::default());
    let likeness = block_on(compared).unwrap();
    assert_eq!((likeness.tokens.moved, likeness.agreement()), (0, 1.0));
    assert_eq!(status(&tiers.engine).counters.written_bytes, 0);
}
