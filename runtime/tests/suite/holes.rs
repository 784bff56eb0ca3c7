//! Holes in a sequence on llama.cpp: what reversible eviction needs of its cache, and its traps.

#![cfg(feature = "llama")]

use std::collections::VecDeque;
use std::ops::Range;

use hob_runtime::backend::llama::{LlamaModel, LlamaOptions};
use hob_runtime::backend::state::PlainState;
use hob_runtime::backend::{
    Backend, ContextShape, DecodeError, MemoryKind, Model, Row, Sequence, StateError,
};
use hob_runtime::splice;
use hob_slots::Token;

use crate::support::asset;

const LIVE: Sequence = Sequence(0);
const OTHER: Sequence = Sequence(1);
const SCRATCH: Sequence = Sequence(2);

/// Tokens of a block.
const BLOCK: usize = 64;

fn load() -> LlamaModel {
    let options = LlamaOptions { threads: 1, ..LlamaOptions::default() };
    LlamaModel::load(&asset("fixtures/long.gguf"), options).expect("the fixture loads")
}

/// Runs `test` on an empty cache of `cells`, a multiple of 256: llama.cpp rounds up to one.
fn on_cells(cells: usize, mut test: impl FnMut(&mut dyn Backend)) {
    let shape = ContextShape { context_tokens: cells, sequences: 3, micro_batch: BLOCK };
    let mut is_run = false;
    let mut run = |backend: &mut dyn Backend| {
        test(backend);
        is_run = true;
    };
    load().with_context(shape, &mut run).expect("the context fits");
    assert!(is_run, "the test ran");
}

/// The rows of `range`; every position has its token. Logits are wanted of the last.
fn rows(sequence: Sequence, range: Range<usize>) -> Vec<Row> {
    let row = |position| Row {
        token: Token(i32::try_from(300 + position * 7919 % 1000).expect("small")),
        position,
        sequence,
        wants_logits: position + 1 == range.end,
    };
    range.clone().map(row).collect()
}

/// Computes `range` in micro-batches of a block.
fn compute(backend: &mut dyn Backend, sequence: Sequence, range: Range<usize>) {
    for start in range.clone().step_by(BLOCK) {
        let part = start..range.end.min(start + BLOCK);
        backend.decode(&rows(sequence, part)).expect("there is room");
    }
}

/// The logits of the token at `position`, which is dropped again.
fn next_logits(backend: &mut dyn Backend, position: usize) -> Vec<f32> {
    backend.decode(&rows(LIVE, position..position + 1)).expect("there is room");
    let logits = backend.logits(0).to_vec();
    assert!(logits.iter().all(|logit| logit.is_finite()), "logits at {position} are finite");
    backend.remove(LIVE, position..position + 1).expect("plain attention");
    logits
}

fn evict(backend: &mut dyn Backend, range: Range<usize>) -> Vec<u8> {
    let state = splice::export(backend, SCRATCH, LIVE, range.clone(), Vec::new());
    backend.remove(LIVE, range).expect("plain attention");
    state.expect("llama.cpp writes the range")
}

fn bring_back(
    backend: &mut dyn Backend,
    state: &[u8],
    range: Range<usize>,
) -> Result<(), StateError> {
    splice::import(backend, SCRATCH, LIVE, state, &range, range.clone())
}

/// The positions of the sequence's cells, in order.
fn positions(backend: &mut dyn Backend) -> Vec<usize> {
    let state = backend.export_cells(LIVE, Vec::new()).expect("it is not empty");
    let mut positions: Vec<usize> = PlainState::parse(&state)
        .expect("plain attention")
        .positions()
        .map(|position| usize::try_from(position).expect("no negative ones"))
        .collect();
    positions.sort_unstable();
    positions
}

fn all(range: Range<usize>) -> Vec<usize> {
    range.collect()
}

fn around(hole: Range<usize>, end: usize) -> Vec<usize> {
    (0..hole.start).chain(hole.end..end).collect()
}

/// The largest difference of two logits.
fn difference(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

#[test]
fn the_model_for_long_sessions_was_trained_with_131072_tokens() {
    let model = load();
    let facts = model.facts();
    assert_eq!((facts.trained_context, facts.memory), (131_072, MemoryKind::Plain));
    assert!(facts.chat_template.as_ref().is_some_and(|template| template.contains("<|im_start|>")));
}

#[test]
fn a_sequence_goes_on_at_its_end_after_a_range_in_its_middle_was_removed() {
    on_cells(1024, |backend| {
        compute(backend, LIVE, 0..256);
        backend.remove(LIVE, 64..192).unwrap();
        assert_eq!(backend.end(LIVE), 256);
        compute(backend, LIVE, 256..300);
        assert_eq!(backend.end(LIVE), 300);
        assert_eq!(positions(backend), around(64..192, 300));
    });
}

#[test]
fn what_comes_back_has_the_bytes_and_the_logits_of_a_cache_that_never_lost_it() {
    // In the middle, at the beginning, and not at the borders of blocks.
    for range in [64..128, 0..64, 50..171] {
        on_cells(1024, |backend| {
            compute(backend, LIVE, 0..256);
            let never = next_logits(backend, 256);

            let state = evict(backend, range.clone());
            assert_eq!(positions(backend), around(range.clone(), 256));
            assert_ne!(next_logits(backend, 256), never, "{range:?} is missed");

            bring_back(backend, &state, range.clone()).unwrap();
            assert_eq!(backend.end(LIVE), 256);
            assert_eq!(backend.end(SCRATCH), 0);
            assert_eq!(positions(backend), all(0..256), "{range:?}");
            let again = splice::export(backend, SCRATCH, LIVE, range.clone(), Vec::new()).unwrap();
            assert!(again == state, "{range:?} has other bytes");
            assert_eq!(next_logits(backend, 256), never, "{range:?}");
        });
    }
}

#[test]
fn ranges_that_come_back_into_other_cells_have_the_same_bytes() {
    on_cells(1024, |backend| {
        compute(backend, LIVE, 0..512);
        let never = next_logits(backend, 512);
        let ranges = [64..128, 192..256, 320..384];
        let states = ranges.clone().map(|range| evict(backend, range));
        let missed = difference(&next_logits(backend, 512), &never);
        compute(backend, OTHER, 0..100); // Takes the cells that were freed first.
        for (state, range) in states.iter().zip(&ranges).rev() {
            bring_back(backend, state, range.clone()).unwrap();
        }
        assert_eq!(positions(backend), all(0..512));
        for (state, range) in states.iter().zip(&ranges) {
            let again = splice::export(backend, SCRATCH, LIVE, range.clone(), Vec::new()).unwrap();
            assert!(again == *state, "{range:?} has other bytes");
        }
        // Attention adds in the order of the cells, so the last bits may differ.
        let rounded = difference(&next_logits(backend, 512), &never);
        assert!(rounded * 20.0 < missed, "{rounded} by rounding, {missed} by what is away");
    });
}

#[test]
fn ranges_that_are_computed_together_in_sequences_of_their_own_take_the_place_of_others() {
    on_cells(1024, |backend| {
        compute(backend, LIVE, 0..256);
        let never = next_logits(backend, 256);
        let heads = [(OTHER, 64..96), (SCRATCH, 160..192)];
        let mut replace = |token: i32| {
            let mut batch = Vec::new();
            for (sequence, range) in heads.clone() {
                backend.share(LIVE, sequence, 0..range.start);
                batch.extend(rows(sequence, range).into_iter().map(|row| Row {
                    token: Token(row.token.0 + token),
                    wants_logits: false,
                    ..row
                }));
            }
            backend.decode(&batch).unwrap();
            for (sequence, range) in heads.clone() {
                backend.remove(LIVE, range.clone()).unwrap();
                backend.share(sequence, LIVE, range);
                backend.clear(sequence);
            }
            assert_eq!(positions(backend), all(0..256));
            difference(&next_logits(backend, 256), &never)
        };
        let same = replace(0);
        let others = replace(1);
        assert!(same * 20.0 < others, "{same} with the same tokens, {others} with others");
    });
}

#[test]
fn a_batch_that_begins_behind_the_end_is_refused_with_the_rows_of_all_sequences() {
    on_cells(1024, |backend| {
        compute(backend, LIVE, 0..128);
        compute(backend, OTHER, 0..10);
        let top = evict(backend, 64..128);
        assert_eq!(backend.end(LIVE), 64);
        let behind = [rows(OTHER, 10..11), rows(LIVE, 128..130)].concat();
        assert!(matches!(backend.decode(&behind), Err(DecodeError::Failed(_))));
        assert_eq!((backend.end(LIVE), backend.end(OTHER)), (64, 10), "nothing was computed");

        bring_back(backend, &top, 64..128).unwrap();
        backend.decode(&behind).unwrap();
        assert_eq!((backend.end(LIVE), backend.end(OTHER)), (130, 11));
    });
}

#[test]
fn an_empty_sequence_begins_at_any_position_and_has_finite_logits_there() {
    on_cells(1024, |backend| {
        let start = 131_072 - 4 * BLOCK;
        compute(backend, LIVE, start..start + 3 * BLOCK);
        let never = next_logits(backend, start + 3 * BLOCK);
        let range = start + BLOCK..start + 2 * BLOCK;
        let state = evict(backend, range.clone());
        assert_ne!(next_logits(backend, start + 3 * BLOCK), never);
        bring_back(backend, &state, range).unwrap();
        assert_eq!(next_logits(backend, start + 3 * BLOCK), never);
        assert_eq!(backend.end(LIVE), start + 3 * BLOCK);
        assert_eq!(positions(backend), all(start..start + 3 * BLOCK));
    });
}

#[test]
fn an_export_over_a_hole_holds_the_cells_that_are_there() {
    on_cells(1024, |backend| {
        compute(backend, LIVE, 0..256);
        backend.remove(LIVE, 100..164).unwrap();
        let state = splice::export(backend, SCRATCH, LIVE, 64..192, Vec::new()).unwrap();
        let cells = PlainState::parse(&state).unwrap().cells();
        assert_eq!(cells, 64, "of 128, and llama.cpp says nothing");
        // Its last position is the wanted one: what is missing before is not taken for there.
        let refused = backend.import_cells(SCRATCH, &state, &(64..192));
        assert!(matches!(refused, Err(StateError::Import { .. })), "{refused:?}");
        assert_eq!(backend.end(SCRATCH), 0);
    });
}

#[test]
fn a_range_that_is_brought_back_twice_is_there_twice() {
    on_cells(1024, |backend| {
        compute(backend, LIVE, 0..256);
        let never = next_logits(backend, 256);
        let state = evict(backend, 64..128);
        bring_back(backend, &state, 64..128).unwrap();
        bring_back(backend, &state, 64..128).unwrap();
        assert_eq!(backend.end(LIVE), 256, "llama.cpp says nothing");
        assert_eq!(positions(backend).len(), 256 + 64);
        assert_ne!(next_logits(backend, 256), never, "attention counts it twice");
        // Removing the range removes both.
        backend.remove(LIVE, 64..128).unwrap();
        bring_back(backend, &state, 64..128).unwrap();
        assert_eq!(positions(backend), all(0..256));
        assert_eq!(next_logits(backend, 256), never);
    });
}

#[test]
#[should_panic(expected = "64..192 is not within 64..128")]
fn a_range_that_its_bytes_do_not_hold_is_never_imported() {
    on_cells(1024, |backend| {
        compute(backend, LIVE, 0..256);
        let state = evict(backend, 64..128);
        splice::import(backend, SCRATCH, LIVE, &state, &(64..128), 64..192).unwrap();
    });
}

#[test]
fn freed_cells_are_reused_so_66000_tokens_pass_through_8192_cells() {
    let (cells, first_end) = (8192, 8192 - BLOCK);
    on_cells(cells, |backend| {
        // Resident blocks, oldest first, without the first of all.
        let mut resident: VecDeque<Range<usize>> = VecDeque::new();
        let mut away = None;
        compute(backend, LIVE, 0..first_end);
        resident.extend((BLOCK..first_end).step_by(BLOCK).map(|start| start..start + BLOCK));
        for start in (first_end..66_048).step_by(BLOCK) {
            let range = start..start + BLOCK;
            compute(backend, LIVE, range.clone());
            resident.push_back(range);
            assert_eq!(backend.end(LIVE), start + BLOCK);
            let oldest = resident.pop_front().expect("many are resident");
            away = Some((evict(backend, oldest.clone()), oldest));
        }
        assert_eq!(backend.end(LIVE), 66_048);
        let (state, range) = away.expect("many left");
        bring_back(backend, &state, range).unwrap();
        let more = rows(LIVE, 66_048..66_049);
        assert!(matches!(backend.decode(&more), Err(DecodeError::NoRoom { rows: 1 })));
        backend.remove(LIVE, 0..BLOCK).unwrap();
        next_logits(backend, 66_048);
    });
}
