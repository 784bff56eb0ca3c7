//! Micro-batches of few rows behind many cells, on a model whose attention takes tiles of rows.

mod support;

use std::sync::Arc;

use hob_runtime::backend::AttentionTile;
use hob_runtime::backend::fake::{BatchLog, FakeModel};
use hob_runtime::backend::tile::TILE_ROWS;
use hob_runtime::{EngineOptions, Model};
use hob_slots::Token;
use support::*;

/// A row costs as much as 1,150 cells.
fn fake_with_tiles(log: &BatchLog) -> Arc<dyn Model> {
    let tile = AttentionTile::new(494_000_000, 21_504);
    Arc::new(FakeModel::new().with_attention_tile(tile).with_batch_log(log.clone()))
}

fn words(word: &str, count: usize) -> Vec<Token> {
    tokens(&fake(), &word.repeat(count))[..count].to_vec()
}

/// Rows of the micro-batch that computes the second prompt of a conversation, and of them its own.
fn follow_up(first: usize, new: usize) -> (usize, usize) {
    let log = BatchLog::default();
    let options = EngineOptions { context_tokens: 8_192, micro_batch: 512, ..options() };
    let plain = engine(&fake(), None, options.clone());
    let engine = engine(&fake_with_tiles(&log), None, options);
    let said = ask(&engine, request("chat", &words("a", first), 1));
    let prompt = [said.timeline, words("b", new)].concat();
    settle(&engine);
    log.lock().clear();
    let answer = ask(&engine, request("chat", &prompt, 4));
    let expected = ask(&plain, request("chat", &prompt, 4)).tokens;
    assert_eq!(answer.tokens, expected, "the others change no answer");
    let rows = log.lock().iter().map(Vec::len).max().expect("it was computed");
    settle(&engine);
    assert_eq!(status(&engine).used_tokens, answer.timeline.len(), "they leave no cell");
    (rows, answer.report.tokens.computed)
}

#[test]
fn a_follow_up_behind_many_cells_is_computed_in_a_whole_tile() {
    assert_eq!(follow_up(4_096, 47), (TILE_ROWS, 47));
}

#[test]
fn few_rows_and_few_cells_are_left_as_they_are() {
    for (first, new) in [(4_096, 9), (512, 39)] {
        let (rows, computed) = follow_up(first, new);
        assert_eq!(rows, computed, "{new} tokens behind {first}");
    }
}
