//! The heads of chunks that stand right behind each other: computed together, within the cells that they may have.

use std::sync::Arc;

use hob_runtime::backend::Row;
use hob_runtime::backend::fake::{BatchLog, FakeModel, ViewLog};
use hob_runtime::{EngineOptions, Model, TurnRequest};
use hob_slots::content::repair::HEAD;
use hob_slots::{Token, blocks_of};

use super::{prompt, repaired, with_first};
use crate::support::*;

#[test]
fn heads_of_chunks_right_behind_each_other_are_computed_together_and_see_all_before_them() {
    let (batches, views) = (BatchLog::default(), ViewLog::default());
    let fake = FakeModel::new().with_batch_log(batches.clone()).with_view_log(views.clone());
    let model: Arc<dyn Model> = Arc::new(fake);
    let (first, other) = (prompt(&model, &[1, 2, 3, 4, 5, 6]), prompt(&model, &[6, 5, 4, 3, 2, 1]));
    let tiers = with_first(&model, &first);
    batches.lock().clear();
    views.lock().clear();
    let answer = ask(&tiers.engine, repaired("other", &other));
    check_sum(&answer, &other);
    assert_eq!(answer.report.tokens.repaired, 6 * HEAD, "{:?}", answer.report.tokens);
    let heads: Vec<Vec<Row>> = batches
        .lock()
        .iter()
        .filter(|batch| batch.iter().any(|row| row.sequence != batch[0].sequence))
        .cloned()
        .collect();
    // Of four heads, 128 rows, at most.
    assert_eq!(heads.len(), 2, "two micro-batches have rows of several sequences");
    let rows =
        heads.iter().flat_map(|rows| rows.chunk_by(|one, next| one.sequence == next.sequence));
    let rows: Vec<&[Row]> = rows.collect();
    assert_eq!(rows.iter().map(|rows| rows.len()).collect::<Vec<_>>(), [HEAD; 6]);
    for rows in rows {
        let tokens: Vec<Token> = rows.iter().map(|row| row.token).collect();
        assert_eq!(tokens, other[rows[0].position..][..HEAD]);
    }
    for seen in views.lock().values() {
        assert!(seen.iter().copied().eq(0..seen.len()), "a token did not see all before it");
    }
}

#[test]
fn a_head_behind_exact_kv_is_exact_and_so_is_what_an_exact_turn_computes_behind_it() {
    let model = fake();
    let (first, other) = (prompt(&model, &[1, 2, 3]), prompt(&model, &[3, 2, 1]));
    let tiers = with_first(&model, &first);
    let moved = ask(&tiers.engine, repaired("chat", &other));
    assert_eq!(moved.report.tokens.repaired, 3 * HEAD, "{:?}", moved.report.tokens);
    let exact = ask(&tiers.engine, request("chat", &other, 8));
    assert!(exact.report.tokens.shared >= HEAD, "{:?}", exact.report.tokens);
    assert_eq!(exact.tokens, alone(&model, &other, 8));
    settle(&tiers.engine);
    let by_text = blocks_of(FINGERPRINT, &exact.timeline, |token| model.vocabulary().is_eog(token));
    let by_text: Vec<_> = by_text.into_iter().map(|block| (block.id, block.range)).collect();
    assert_eq!(tiers.block_names("chat"), by_text);
}

#[test]
fn heads_that_are_computed_together_stay_within_the_budget() {
    let batches = BatchLog::default();
    let model: Arc<dyn Model> = Arc::new(FakeModel::new().with_batch_log(batches.clone()));
    let (first, other) = (prompt(&model, &[1, 2, 3, 4, 5, 6]), prompt(&model, &[6, 5, 4, 3, 2, 1]));
    let tiers = with_first(&model, &first);
    batches.lock().clear();
    // Of which blocks leave from 95 % on: the prompt fits, and four heads beside it do not.
    let budget = other.len() * 100 / 95 + 1;
    assert!(other.len() + HEAD < budget && budget < other.len() + 4 * HEAD - 20);
    let answer =
        ask(&tiers.engine, TurnRequest { budget: Some(budget), ..repaired("other", &other) });
    check_sum(&answer, &other);
    let counts = answer.report.tokens;
    assert_eq!(counts.repaired, 6 * HEAD, "{counts:?}");
    let of_heads = |rows: &&Vec<Row>| rows.iter().any(|row| row.sequence != rows[0].sequence);
    let most = batches.lock().iter().filter(of_heads).map(Vec::len).max().unwrap();
    // All chunks are in their cells before the first head is computed.
    assert!(counts.moved + counts.repaired + most <= budget, "{most} rows: {counts:?}");
    assert!(answer.cells.peak <= budget, "{:?}", answer.cells);
}

#[test]
fn heads_that_are_computed_together_stay_within_the_cells_of_the_cache() {
    let model = fake();
    let (first, other) = (prompt(&model, &[1, 2, 3, 4, 5, 6]), prompt(&model, &[6, 5, 4, 3, 2, 1]));
    // As within a budget: the prompt fits, and four heads beside it do not.
    let cells = other.len() * 100 / 95 + 1;
    assert!(other.len() + HEAD < cells && cells < other.len() + 4 * HEAD - 20);
    let tiers = OnDisk::with(&model, EngineOptions { context_tokens: cells, ..options() });
    ask(&tiers.engine, request("first", &first, 8));
    settle(&tiers.engine);
    let answer = ask(&tiers.engine, repaired("other", &other));
    check_sum(&answer, &other);
    assert_eq!(answer.report.tokens.repaired, 6 * HEAD, "{:?}", answer.report.tokens);
    assert_eq!((answer.moved, answer.report.away), (Vec::new(), Vec::new()), "nothing has left");
}

#[test]
fn more_chunks_than_sequences_for_their_heads_are_repaired_too() {
    let model = fake();
    let tiers = OnDisk::with(&model, EngineOptions { context_tokens: 8192, ..options() });
    let order: Vec<usize> = (1..=12).collect();
    let reversed: Vec<usize> = order.iter().rev().copied().collect();
    let (first, other) = (prompt(&model, &order), prompt(&model, &reversed));
    ask(&tiers.engine, request("first", &first, 8));
    settle(&tiers.engine);
    let answer = ask(&tiers.engine, repaired("other", &other));
    check_sum(&answer, &other);
    assert_eq!(answer.report.tokens.repaired, 12 * HEAD, "{:?}", answer.report.tokens);
}
