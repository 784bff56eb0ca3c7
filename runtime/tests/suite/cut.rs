//! Long micro-batches of a prompt alone, and callers who cut them; and of devices, which cannot be cut.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use hob_runtime::backend::MemoryKind;
use hob_runtime::backend::fake::{BatchLog, FakeModel, ViewLog};
use hob_runtime::{Engine, EngineOptions, Model, TurnEvent};
use hob_slots::Token;

use crate::support::wait::{PATIENCE, until};
use crate::support::*;

const ROWS: usize = 1024;

/// A model whose micro-batches of [`ROWS`] take a second, the log of them, and whether they end by an interruption
/// alone: a caller comes within one then, however late.
fn slow(memory: MemoryKind) -> (Arc<dyn Model>, BatchLog, Arc<AtomicBool>) {
    let (log, stalls) = (BatchLog::default(), Arc::new(AtomicBool::new(false)));
    let model = FakeModel::new().with_memory(memory).with_pace(Duration::from_millis(1));
    (Arc::new(model.with_batch_log(log.clone()).with_stall(stalls.clone())), log, stalls)
}

fn start(model: &Arc<dyn Model>) -> Started {
    engine(model, None, EngineOptions { slots: 4, micro_batch: ROWS, ..options() })
}

fn wait_for_a_batch(log: &BatchLog) {
    until("a micro-batch begins", || !log.lock().is_empty());
}

/// Lets micro-batches end by themselves once the first one of `log` was cut.
fn wait_for_the_cut(log: &BatchLog, stalls: &AtomicBool) {
    until("another micro-batch begins", || log.lock().len() > 1);
    stalls.store(false, Ordering::SeqCst);
}

/// First position and number of rows of each micro-batch, for those of `prompt`.
fn batches(log: &BatchLog, prompt: &[Token]) -> Vec<(usize, usize)> {
    let log = log.lock();
    let of_prompt = log.iter().map(|batch| {
        let rows = batch.iter().filter(|row| prompt.get(row.position) == Some(&row.token));
        let positions: Vec<usize> = rows.map(|row| row.position).collect();
        (positions.first().copied().unwrap_or(0), positions.len())
    });
    of_prompt.collect()
}

#[test]
fn an_arrival_cuts_a_long_micro_batch_and_both_answers_are_as_if_alone() {
    for memory in MEMORIES {
        let (model, log, stalls) = slow(memory);
        let engine = start(&model);
        let (long, short) = (words("a", 600), words("b", 20));
        stalls.store(true, Ordering::SeqCst);
        let long_turn = engine.submit(request("long", &long, 4)).unwrap();
        wait_for_a_batch(&log);
        let short_turn = engine.submit(request("short", &short, 4)).unwrap();
        wait_for_the_cut(&log, &stalls);
        let answers = [(long_turn, &long), (short_turn, &short)]
            .map(|(turn, prompt)| (finish(turn).unwrap(), prompt));
        let first = batches(&log, &short).iter().position(|&(_, rows)| rows > 0).unwrap();
        let of_long = batches(&log, &long);
        assert_eq!(of_long[0].0, 0, "{memory}");
        assert!(of_long[0].1 >= 568, "{memory}: it was long: {of_long:?}");
        // The cut one, and at most one until the short prompt's restore has found nothing.
        assert!(first <= 2, "{memory}: {first}");
        let again = of_long[1..].iter().any(|&(at, rows)| at == 0 && rows > 0);
        assert!(again, "{memory}: it was cut: {of_long:?}");
        for (answer, prompt) in answers {
            assert_eq!(answer.tokens, alone(&model, prompt, 4), "{memory}");
        }
        let counters = status(&engine).counters;
        assert_eq!(counters.failed, 0);
        assert!(counters.cut_micros > 0, "{memory}: the long prompt computes its rows again");
        engine.shutdown();
    }
}

#[test]
fn a_cut_keeps_what_was_computed_before_the_micro_batch() {
    for memory in MEMORIES {
        let (model, log, stalls) = slow(memory);
        let engine = start(&model);
        let begun = ask(&engine, request("long", &words("a", 200), 1));
        settle(&engine);
        let long = [&begun.timeline[..], &words("c", 600)].concat();
        log.lock().clear();
        stalls.store(true, Ordering::SeqCst);
        let long_turn = engine.submit(request("long", &long, 4)).unwrap();
        wait_for_a_batch(&log);
        let short_turn = engine.submit(request("short", &words("b", 20), 1)).unwrap();
        wait_for_the_cut(&log, &stalls);
        finish(short_turn).unwrap();
        let answer = finish(long_turn).unwrap();
        let of_long = batches(&log, &long);
        assert!(of_long[0].1 >= 500, "{memory}: it was long: {of_long:?}");
        let starts: Vec<usize> =
            of_long.iter().filter(|(_, rows)| *rows > 1).map(|&(at, _)| at).collect();
        assert_eq!(starts[0], starts[1], "{memory}: it was cut: {of_long:?}");
        assert!(starts.iter().all(|&at| at >= 200), "{memory}: {of_long:?}");
        assert_eq!(answer.tokens, alone(&model, &long, 4), "{memory}");
        engine.shutdown();
    }
}

#[test]
fn a_cancelled_turn_ends_within_its_long_micro_batch() {
    let (model, log, stalls) = slow(MemoryKind::Plain);
    let engine = start(&model);
    stalls.store(true, Ordering::SeqCst);
    let turn = engine.submit(request("chat", &words("a", 800), 4)).unwrap();
    wait_for_a_batch(&log);
    drop(turn);
    settle(&engine);
    let counters = status(&engine).counters;
    assert_eq!((counters.cancelled, counters.computed_tokens), (1, 0));
    assert_eq!(counters.cut_micros, 0, "nothing is computed again");
    engine.shutdown();
}

#[test]
fn a_long_prompt_ends_in_a_short_micro_batch_where_regenerate_computes_the_last_one() {
    for memory in [MemoryKind::Hybrid, MemoryKind::Recurrent] {
        let (model, log, _) = slow(memory);
        let engine = start(&model);
        let long = words("a", 300);
        let answer = ask(&engine, request("long", &long, 2));
        let of_long: Vec<_> = batches(&log, &long).into_iter().filter(|&(_, n)| n > 1).collect();
        assert_eq!(of_long, [(0, 268), (268, 32)], "{memory}");
        let again = ask(&engine, request("long", &long, 2));
        assert_eq!(again.tokens, answer.tokens, "{memory}");
        assert_eq!(again.report.tokens.computed, 32, "{memory}");
        engine.shutdown();
    }
}

#[test]
fn the_status_is_readable_during_a_long_micro_batch() {
    let (model, log, stalls) = slow(MemoryKind::Plain);
    let engine = start(&model);
    stalls.store(true, Ordering::SeqCst);
    let turn = engine.submit(request("chat", &words("a", 800), 1)).unwrap();
    wait_for_a_batch(&log);
    let read = status(&engine);
    stalls.store(false, Ordering::SeqCst);
    let running = read.slots.iter().find(|slot| slot.conversation == Some(name("chat")));
    assert_eq!(running.unwrap().tokens, 0, "{read:?}");
    finish(turn).unwrap();
    engine.shutdown();
}

/// A device that computes 1,000 rows a second at most, with micro-batches of 100 ms beside others.
fn start_device() -> (Arc<dyn Model>, BatchLog, Started) {
    let log = BatchLog::default();
    let model = FakeModel::new().with_pace(Duration::from_millis(1)).with_device();
    let model: Arc<dyn Model> = Arc::new(model.with_batch_log(log.clone()));
    let options = EngineOptions {
        context_tokens: 4096,
        micro_batch: ROWS,
        micro_batch_target: Some(Duration::from_millis(100)),
        ..options()
    };
    let engine = engine(&model, None, options);
    (model, log, engine)
}

fn longest(log: &BatchLog) -> usize {
    log.lock().iter().map(Vec::len).max().unwrap_or(0)
}

#[test]
fn on_a_device_a_prompt_alone_gets_longer_micro_batches_than_one_beside_an_answer() {
    let (model, log, engine) = start_device();
    let prompt = words("a", 600);
    let answer = ask(&engine, request("alone", &prompt, 4));
    // 250 ms, and no less than the 128 rows from which on a token hardly gets cheaper.
    assert!((128..=250).contains(&longest(&log)), "{:?}", batches(&log, &prompt));
    assert_eq!(answer.tokens, alone(&model, &prompt, 4));

    let mut running = engine.submit(endless("answer", &words("b", 20), 1_000_000)).unwrap();
    while !matches!(running.next_blocking(), Some(TurnEvent::Token { .. }) | None) {}
    log.lock().clear();
    let prompt = words("c", 600);
    ask(&engine, request("beside", &prompt, 4));
    assert!(longest(&log) <= 101, "an answer's row, and 100 ms: {:?}", batches(&log, &prompt));
    drop(running);
    engine.shutdown();
}

/// The numbers of rows of the micro-batches behind the start of an engine, until it has nothing to do, and the
/// number of the first of a prompt of 600 tokens.
fn warmed_up(model: FakeModel, target: Duration) -> (Vec<usize>, usize) {
    let log = BatchLog::default();
    let model: Arc<dyn Model> = Arc::new(model.with_batch_log(log.clone()));
    let options = EngineOptions {
        context_tokens: 4096,
        micro_batch: ROWS,
        micro_batch_target: Some(target),
        ..options()
    };
    let engine = engine(&model, None, options);
    settle(&engine);
    let sizes = log.lock().drain(..).map(|rows| rows.len()).collect();
    assert_eq!(status(&engine).used_tokens, 0, "no cell is left");
    let prompt = words("a", 600);
    let answer = ask(&engine, request("first", &prompt, 4));
    assert_eq!(answer.tokens, alone(&model, &prompt, 4));
    let first = log.lock()[0].len();
    engine.shutdown();
    (sizes, first)
}

#[test]
fn a_device_is_warmed_up_with_more_and_more_rows_and_the_first_prompt_knows_its_speed() {
    let (endless, none) = (Duration::from_secs(1000), Duration::from_nanos(1));
    let (sizes, first) = warmed_up(FakeModel::new().with_device(), endless);
    let each_twice = |power: u32| [1 << power; 2];
    assert_eq!(sizes, (0..=10).flat_map(each_twice).collect::<Vec<_>>());
    assert_eq!(first, 600, "not the 32 rows of an unknown speed");

    let (sizes, _) = warmed_up(FakeModel::new().with_device(), none);
    assert_eq!(sizes, [1, 1], "the second one lasts longer than an arrival may wait");

    let (sizes, first) = warmed_up(FakeModel::new(), endless);
    assert_eq!((sizes, first), (vec![], 32), "a processor has nothing to load");
}

#[test]
fn the_status_is_readable_while_a_device_is_warmed_up() {
    let (log, views) = (BatchLog::default(), ViewLog::default());
    let model = FakeModel::new().with_device().with_batch_log(log.clone());
    let model: Arc<dyn Model> = Arc::new(model.with_view_log(views.clone()));
    let computing = views.lock(); // The first micro-batch ends when this is dropped.
    let target = Some(Duration::from_secs(1000));
    let engine = engine(&model, None, EngineOptions { micro_batch_target: target, ..options() });
    wait_for_a_batch(&log);
    let (send, read) = mpsc::channel();
    let asked = Engine::clone(&engine);
    std::thread::spawn(move || send.send(status(&asked)).is_ok());
    let read = read.recv_timeout(PATIENCE);
    drop(computing);
    assert_eq!(read.expect("it does not wait for the micro-batch").used_tokens, 0);
    engine.shutdown();
}
