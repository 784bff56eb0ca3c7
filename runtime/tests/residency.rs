//! The weights leave memory and come back; what is kept stays.

mod support;

use std::sync::Arc;
use std::time::Duration;

use hob_runtime::backend::fake::FakeModel;
use hob_runtime::{Model, Purpose, Residency, TurnError, TurnRequest};
use support::{ask, block_on, engine, finish, name, options, request, status, then, tokens, user};

fn fake() -> Arc<dyn Model> {
    Arc::new(FakeModel::new())
}

#[test]
fn what_was_hot_comes_back_with_the_weights() {
    let model = fake();
    let directory = tempfile::tempdir().unwrap();
    let engine = engine(&model, Some(directory.path()), options());
    let first = ask(&engine, request("chat", &tokens(&model, &user("hello")), 20));
    for _ in 0..2 {
        assert!(block_on(engine.unload()));
        assert_eq!(status(&engine).residency, Residency::Unloaded);
        assert_eq!(*engine.residency().borrow(), Residency::Unloaded);
        assert_eq!(status(&engine).parked, [(name("chat"), first.timeline.len())]);
    }
    let prompt = then(&model, &first.timeline, "and now?");
    let answer = ask(&engine, request("chat", &prompt, 20));
    let counts = answer.report.tokens;
    assert_eq!(counts.computed, prompt.len() - first.timeline.len(), "{:?}", answer.report);
    assert_eq!(*engine.residency().borrow(), Residency::Resident);
    let alone = support::engine(&fake(), None, options());
    assert_eq!(answer.tokens, ask(&alone, request("chat", &prompt, 20)).tokens);
    assert_eq!(status(&engine).counters.turns, 2, "counters go on");
}

#[test]
fn nothing_is_unloaded_while_somebody_is_answered() {
    let model: Arc<dyn Model> = Arc::new(FakeModel::new().with_pace(Duration::from_millis(2)));
    let engine = engine(&model, None, options());
    let endless = TurnRequest { ignore_eog: true, ..request("chat", &tokens(&model, "hi"), 100) };
    let turn = engine.submit(endless).unwrap();
    assert!(!block_on(engine.unload()));
    assert_eq!(finish(turn).unwrap().tokens.len(), 100);
    assert!(block_on(engine.unload()));
}

#[test]
fn only_who_speaks_or_is_about_to_brings_the_weights_back() {
    let model = fake();
    let directory = tempfile::tempdir().unwrap();
    let engine = engine(&model, Some(directory.path()), options());
    let prompt = tokens(&model, &user("hello"));
    ask(&engine, request("gone", &prompt, 5));
    assert!(block_on(engine.unload()));
    let prewarm = TurnRequest { purpose: Purpose::KeepAlive, ..request("prefix", &prompt, 0) };
    assert_eq!(finish(engine.submit(prewarm).unwrap()).unwrap_err(), TurnError::NotResident);
    block_on(engine.park(name("gone")));
    block_on(engine.forget(name("gone")));
    block_on(engine.maintain(|_, _| ())).unwrap(); // Files are removed behind.
    assert_eq!(status(&engine).waiting, 0);
    assert_eq!(status(&engine).residency, Residency::Unloaded, "none of this needs them");

    let speech = TurnRequest { purpose: Purpose::Speculate, ..request("gone", &prompt, 0) };
    let counts = ask(&engine, speech).report.tokens;
    assert_eq!((counts.computed, counts.cached()), (prompt.len(), 0), "it was forgotten");
    assert_eq!(status(&engine).residency, Residency::Resident);
    assert!(block_on(engine.unload()));
    engine.load();
    while *engine.residency().borrow() != Residency::Resident {
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn an_engine_tells_how_it_is_while_its_weights_are_on_their_way() {
    let step = Duration::from_millis(300);
    let model: Arc<dyn Model> = Arc::new(FakeModel::new().with_pace(step));
    let engine = engine(&model, None, options());
    ask(&engine, request("chat", &tokens(&model, "hi"), 0));
    assert!(block_on(engine.unload()));
    engine.load();
    while !matches!(*engine.residency().borrow(), Residency::Loading { .. }) {
        std::thread::sleep(Duration::from_millis(1));
    }
    let told = status(&engine);
    assert!(matches!(told.residency, Residency::Loading { .. }), "{:?}", told.residency);
    assert_eq!((told.parked, told.counters.turns), (vec![(name("chat"), 2)], 1));
}

#[test]
fn an_engine_without_weights_stops_at_once() {
    let model = fake();
    let engine = engine(&model, None, options());
    assert!(block_on(engine.unload()));
    engine.shutdown();
    let late = engine.submit(request("chat", &tokens(&model, "hi"), 1)).map(finish);
    assert!(matches!(late, Err(TurnError::Stopped) | Ok(Err(TurnError::Stopped))));
}
