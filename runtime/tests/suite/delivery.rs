//! The work behind an answer, while its caller keeps the turn and after that.

use std::sync::{Arc, mpsc};
use std::time::Duration;

use hob_runtime::backend::fake::{BatchLog, FakeModel};
use hob_runtime::{Engine, EngineOptions, Model, Turn, TurnEvent};
use hob_slots::Token;

use crate::support::wait::{PATIENCE, until};
use crate::support::*;

/// Longer than any test.
const FOREVER: Duration = Duration::from_secs(3600);

fn patient(delivery_patience: Duration) -> EngineOptions {
    EngineOptions { delivery_patience, ..options() }
}

/// An answer's turn behind its last event, and its timeline.
fn answered(engine: &Engine, prompt: &[Token]) -> (Turn, Vec<Token>) {
    let mut turn = engine.submit(request("chat", prompt, 8)).expect("a valid turn");
    loop {
        match turn.next_blocking().expect("it has a last event") {
            TurnEvent::Finished { timeline, .. } => return (turn, timeline),
            TurnEvent::Failed(error) => panic!("{error}"),
            _ => {}
        }
    }
}

/// Tokens with cells.
fn held(engine: &Engine) -> usize {
    status(engine).slots.iter().map(|slot| slot.tokens).sum()
}

#[test]
fn nothing_is_computed_behind_an_answer_before_its_caller_has_dropped_the_turn() {
    let log = BatchLog::default();
    let model: Arc<dyn Model> = Arc::new(FakeModel::new().with_batch_log(log.clone()));
    let engine = engine(&model, None, patient(FOREVER));
    let (turn, timeline) = answered(&engine, &tokens(&model, &user("hello")));
    let batches = log.lock().len();
    // Each is served in a round of its own.
    for _ in 0..3 {
        assert_eq!(held(&engine), timeline.len() - 1);
    }
    assert_eq!(log.lock().len(), batches);
    drop(turn);
    until("the last token is computed", || held(&engine) == timeline.len());
    engine.shutdown();
}

#[test]
fn a_caller_that_keeps_its_turn_delays_the_work_for_the_patience_alone() {
    let model = fake();
    let engine = engine(&model, None, patient(Duration::from_millis(1)));
    let (turn, timeline) = answered(&engine, &tokens(&model, &user("hello")));
    until("the last token is computed", || held(&engine) == timeline.len());
    drop(turn);
    engine.shutdown();
}

#[test]
fn a_caller_that_asks_for_more_than_the_last_event_does_not_wait() {
    let model = fake();
    let engine = engine(&model, None, patient(FOREVER));
    let (mut turn, _) = answered(&engine, &tokens(&model, &user("hello")));
    let (send, receive) = mpsc::channel();
    std::thread::spawn(move || send.send(turn.next_blocking().is_none()));
    assert_eq!(receive.recv_timeout(PATIENCE), Ok(true));
    engine.shutdown();
}

#[test]
fn who_waits_for_the_disk_waits_for_no_delivery() {
    let model = fake();
    let disk = OnDisk::with(&model, patient(FOREVER));
    let (turn, timeline) = answered(&disk.engine, &tokens(&model, &user("hello")));
    block_on(disk.engine.save(name("chat")));
    assert_eq!(disk.record("chat").tokens, timeline);
    drop(turn);
}

#[test]
fn the_next_turn_computes_what_was_left_of_an_answer_on_its_way() {
    let model = fake();
    let engine = engine(&model, None, patient(FOREVER));
    let (turn, timeline) = answered(&engine, &tokens(&model, &user("hello")));
    let prompt = then(&model, &timeline, "and now?");
    let next = ask(&engine, request("chat", &prompt, 8));
    assert_eq!(next.report.tokens.computed, prompt.len() - timeline.len() + 1);
    assert_eq!(next.tokens, alone(&model, &prompt, 8));
    drop(turn);
    engine.shutdown();
}
