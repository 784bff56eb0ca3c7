//! Micro-batches of few rows behind many cells, on a model whose attention takes tiles of rows.

use std::sync::Arc;
use std::time::Duration;

use hob_runtime::backend::AttentionTile;
use hob_runtime::backend::fake::{BatchLog, FakeModel};
use hob_runtime::backend::tile::TILE_ROWS;
use hob_runtime::{EngineOptions, Model, Reuse, TurnRequest};
use hob_slots::content::Repair;
use hob_slots::content::repair::HEAD;

use crate::support::held::MicroBatches;
use crate::support::*;

/// In the shape that the constants are measured in.
fn with_tiles() -> FakeModel {
    FakeModel::new().with_attention_tile(AttentionTile::new(494_000_000, 21_504))
}

fn fake_with_tiles(log: &BatchLog) -> Arc<dyn Model> {
    Arc::new(with_tiles().with_batch_log(log.clone()))
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

/// The pace allows no more than 32 rows of a prompt beside an answer.
#[test]
fn slices_of_a_prompt_beside_an_answer_get_a_tile_once_they_are_behind_many_cells() {
    let batches = MicroBatches::default();
    let options = EngineOptions {
        context_tokens: 8_192,
        micro_batch: 512,
        micro_batch_target: Some(Duration::from_nanos(1)),
        ..options()
    };
    let engine = engine(&batches.of(with_tiles()), None, options);
    let (answering, paused) = batches.first_of(&engine, endless("one", &words("a", 10), 1_000));
    let mut paused = paused.step().step();
    paused.begun.clear();
    let other = engine.submit(request("other", &words("b", 5_000), 1)).expect("a valid turn");
    drop(paused);
    finish(other).expect("the turn succeeds");
    drop(answering);

    let mut behind = 0;
    let mut slices = Vec::new();
    for batch in batches.pause().begun.iter().filter(|batch| batch.len() > 2) {
        slices.push((behind, batch.len()));
        behind += batch.len() - 1;
    }
    let (few, many): (Vec<_>, Vec<_>) = slices.into_iter().partition(|(behind, _)| *behind < 2_500);
    assert!(few.iter().take_while(|it| it.0 < 1_500).all(|it| it.1 == 33), "{few:?}");
    assert!(few.len() > 40, "{few:?}");
    let (last, whole) = many.split_last().expect("a prompt of 5,000 tokens");
    assert!(whole.iter().all(|it| it.1 == TILE_ROWS) && last.1 <= TILE_ROWS, "{many:?}");
}

#[test]
fn the_head_of_a_text_that_moved_is_computed_in_a_whole_tile() {
    let log = BatchLog::default();
    let model = fake_with_tiles(&log);
    let options = EngineOptions { context_tokens: 16_384, micro_batch: 512, ..options() };
    let tiers = OnDisk::with(&model, options);
    // Each window of its text occurs once.
    let text = |name: &str, words: usize| -> String {
        (0..words).map(|word| format!("{name}{word} ")).collect()
    };
    let prompt = |between: &str| {
        let (before, moved) = (text("a", 800), text("b", 80));
        tokens(&model, &user(&format!("{before}{between}{moved}")))
    };
    ask(&tiers.engine, request("first", &prompt("then "), 1));
    settle(&tiers.engine);
    log.lock().clear();
    let reuse = Reuse::Repaired(Repair::default());
    let answer =
        ask(&tiers.engine, TurnRequest { reuse, ..request("other", &prompt("but then "), 1) });
    let counts = answer.report.tokens;
    assert_eq!(counts.repaired, HEAD, "{counts:?}");
    let is_head = |rows: usize| log.lock().iter().any(|batch| batch.len() == rows);
    assert!(is_head(TILE_ROWS) && !is_head(HEAD));
}
